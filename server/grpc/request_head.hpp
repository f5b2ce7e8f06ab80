// SPDX-License-Identifier: Apache-2.0
// The header of a call's request: what its fields ask for, and the verdict on them.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grpc/compression.hpp"
#include "grpc/status.hpp"

namespace bwos::server::rpc {

struct method;

/// What a request is answered with at once. It may go on if neither is set.
struct verdict {
  std::string_view http_status{};  ///< It is no gRPC at all: the status is HTTP's.
  rpc::code what = rpc::code::ok;
  std::string_view why{};
};

/// Filled field by field, then read only.
struct request_head {
  using clock = std::chrono::steady_clock;

  /// Any field but `:path`, which the caller looks `called` up by. A timeout begins `now`.
  void read(std::string_view name, std::string_view value, clock::time_point now);
  /// Once all fields have come. `too_large`: but for some that were left out. `hosts_differ`: the
  /// field `host` is not the authority.
  [[nodiscard]] verdict judge(bool too_large, bool hosts_differ) const noexcept;

  const method* called = nullptr;  ///< Null: it is unknown.
  bool is_post = false;
  bool is_grpc = false;
  bool has_bad_format = false;  ///< Its messages are in another format than protobuf.
  bool has_bad_timeout = false;
  bool has_bad_encoding = false;
  encoding sent = encoding::identity;  ///< That of the request's messages.
  encoding accepted =
      encoding::identity;  ///< That of the reply's messages, if they are compressed.
  clock::time_point deadline = clock::time_point::max();
  std::vector<std::pair<std::string, std::string>> metadata;
};

}  // namespace bwos::server::rpc
