// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace bwos::server::rpc {

/// gRPC's status codes, with its numbers.
enum class code : std::uint8_t {
  ok = 0,
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  already_exists = 6,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  data_loss = 15,
  unauthenticated = 16,
};

/// How a call ends. The message is for people; UTF-8.
struct status {
  code what = code::ok;
  std::string message{};

  [[nodiscard]] bool ok() const noexcept { return what == code::ok; }
};

/// Of a request that is not the method's message. As gRPC C++ says it.
inline status not_readable() {
  return {code::internal, "Unable to parse request"};
}

/// Of a call that should have brought one, and has ended. gRPC's statuscodes.md, cardinality
/// violation.
inline status no_message() {
  return {code::unimplemented, "no message"};
}

/// Of a handler that threw, whatever it threw: not the caller's to know. As gRPC C++ says it.
inline status handler_threw() {
  return {code::unknown, "Unexpected error in RPC handling"};
}

}  // namespace bwos::server::rpc
