// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace bwos::server::rpc {

/// "helloworld.Greeter" of "/helloworld.Greeter/SayHello".
constexpr std::string_view service_of(std::string_view path) noexcept {
  return path.substr(1, path.rfind('/') - 1);
}

/// Whether callers of a method keep its stream open for as long as they are there, whatever they
/// ask for: such a call does not hold a stop up, which ends it once no other is left.
constexpr bool is_lasting(std::string_view path) noexcept {
  return path == "/grpc.health.v1.Health/Watch" || path.starts_with("/grpc.reflection.");
}

}  // namespace bwos::server::rpc
