// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/task.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "routes.hpp"
#include "rpc/status.hpp"

namespace bwos::server::rpc {

/// What a handler sees of its call, whatever the transport. Lives until the handler has ended. All
/// members: any thread, but those of one call one at a time, except is_cancelled().
class context {
 public:
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  const service& server;

  /// Nobody waits for the answer any more: the caller gave up, its connection was lost, or the
  /// deadline has passed. A handler that takes long looks now and then, and ends.
  [[nodiscard]] virtual bool is_cancelled() const noexcept = 0;
  /// time_point::max(): none.
  [[nodiscard]] virtual std::chrono::steady_clock::time_point deadline() const = 0;
  /// What the caller sent under a name (lower case), in its order; of one that ends in "-bin" the
  /// bytes themselves.
  [[nodiscard]] virtual std::vector<std::string> metadata(std::string_view name) const = 0;

 protected:
  explicit context(const service& of) noexcept : server(of) {}
  ~context() = default;
};

/// A unary method: a coroutine over protobuf messages, which live until it has ended. It starts on
/// the thread that has read the request; one that never suspends ends there too. What it throws is
/// handler_threw().
template <class Request, class Reply>
using unary_handler = task<status> (*)(const context& call, const Request& request, Reply& reply);

}  // namespace bwos::server::rpc
