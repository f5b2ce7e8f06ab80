// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace helloworld {
class HelloRequest;
class HelloReply;
}  // namespace helloworld

namespace bwos::server {

/// SayHello: "Hello " and the name. Knows no transport; any thread, any number at once. Throws
/// std::bad_alloc only.
void hello(const helloworld::HelloRequest& request, helloworld::HelloReply& reply);

}  // namespace bwos::server
