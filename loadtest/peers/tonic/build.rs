// SPDX-License-Identifier: Apache-2.0
//! The messages and services of the project's contracts; needs protoc.

fn main() -> std::io::Result<()> {
    let protos = ["helloworld.proto", "work.proto"].map(|name| format!("../../../proto/{name}"));
    tonic_prost_build::configure()
        .build_client(false)
        .compile_protos(&protos, &["../../../proto".to_string()])
}
