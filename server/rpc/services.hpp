// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "handlers/burn.hpp"
#include "handlers/hello.hpp"

namespace bwos::server::rpc {

/// Every method, for either transport. To add one: its contract in proto/, a coroutine in
/// handlers/, a line here.
template <class Transport>
void add_services(Transport& to) {
  to.unary("/helloworld.Greeter/SayHello", &handlers::say_hello);
  to.unary("/bwos.Work/Burn", &handlers::burn);
}

/// "helloworld.Greeter" of "/helloworld.Greeter/SayHello".
constexpr std::string_view service_of(std::string_view path) noexcept {
  return path.substr(1, path.rfind('/') - 1);
}

}  // namespace bwos::server::rpc
