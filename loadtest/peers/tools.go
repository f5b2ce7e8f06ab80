// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package peers pins protoc's plugins for Go in go.mod; CMake builds them.
package peers

import (
	_ "google.golang.org/grpc/cmd/protoc-gen-go-grpc"
	_ "google.golang.org/protobuf/cmd/protoc-gen-go"
)
