// SPDX-License-Identifier: Apache-2.0
//! The gRPC methods as a user of tonic writes them, on Tokio's multi-thread runtime.

use peer_common::{WORK_US_MAX, burn_thread_cpu};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

mod helloworld {
    tonic::include_proto!("helloworld");
}

mod bwos {
    tonic::include_proto!("bwos");
}

use bwos::work_server::{Work, WorkServer};
use bwos::{BurnReply, BurnRequest};
use helloworld::greeter_server::{Greeter, GreeterServer};
use helloworld::{HelloReply, HelloRequest};

struct Hello;

#[tonic::async_trait]
impl Greeter for Hello {
    async fn say_hello(
        &self,
        request: Request<HelloRequest>,
    ) -> Result<Response<HelloReply>, Status> {
        Ok(Response::new(HelloReply { message: format!("Hello {}", request.get_ref().name) }))
    }
}

struct Burner;

#[tonic::async_trait]
impl Work for Burner {
    async fn burn(&self, request: Request<BurnRequest>) -> Result<Response<BurnReply>, Status> {
        let us = request.get_ref().us.min(WORK_US_MAX as u64);
        burn_thread_cpu(us as i64);
        Ok(Response::new(BurnReply { us }))
    }
}

fn main() {
    let with = peer_common::parse_options_of_grpc();
    let at = with.at;
    peer_common::run(with, async move {
        let listener = peer_common::listen(at, "grpc");
        Server::builder()
            .add_service(GreeterServer::new(Hello))
            .add_service(WorkServer::new(Burner))
            .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
            .await
            .expect("cannot serve");
    });
}
