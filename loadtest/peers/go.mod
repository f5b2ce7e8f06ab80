// SPDX-License-Identifier: Apache-2.0
// The peers in Go. CMake's targets peer_go_http and peer_grpc_go build them into the build folder.
module bwos/peers

go 1.22.0

require (
	golang.org/x/sys v0.29.0
	google.golang.org/grpc v1.71.3
	google.golang.org/grpc/cmd/protoc-gen-go-grpc v1.5.1
	google.golang.org/protobuf v1.36.4
)

require (
	golang.org/x/net v0.34.0 // indirect
	golang.org/x/text v0.21.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250115164207-1a7da9e5054f // indirect
)
