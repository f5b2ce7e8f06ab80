// SPDX-License-Identifier: Apache-2.0

// The gRPC methods as a user of grpc-go writes them: it starts a goroutine for each call.
package main

import (
	"context"
	"log"

	"google.golang.org/grpc"

	"bwos/peers/common"
	"bwos/peers/helloworld"
	"bwos/peers/work"
)

type greeter struct {
	helloworld.UnimplementedGreeterServer
}

func (greeter) SayHello(_ context.Context, request *helloworld.HelloRequest) (*helloworld.HelloReply, error) {
	return &helloworld.HelloReply{Message: "Hello " + request.Name}, nil
}

type burner struct {
	work.UnimplementedWorkServer
}

func (burner) Burn(_ context.Context, request *work.BurnRequest) (*work.BurnReply, error) {
	return &work.BurnReply{Us: common.BurnThreadCPU(request.Us)}, nil
}

func main() {
	with := common.ParseOptions("grpc")
	server := grpc.NewServer()
	helloworld.RegisterGreeterServer(server, greeter{})
	work.RegisterWorkServer(server, burner{})
	log.Fatal(server.Serve(common.Listen(with)))
}
