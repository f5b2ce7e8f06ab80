// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/drain_bell.hpp"
#include "http/message.hpp"

namespace bwos::server {

/// What handlers see of the server. One for all transports, alive as long as any of them.
struct service {
  /// Set once, by drain().
  std::atomic<bool> draining{false};
  mutable drain_bell bell;             ///< Rung behind that.
  std::uint64_t work_us_max = 10'000;  ///< 0: there is no /work.
  bool has_test_service = false;       ///< grpc.testing.TestService is served.
  std::function<void(std::string& to)>
      write_metrics;  ///< Called for /metrics, on any worker, several at once.
  std::function<void(std::string& to)>
      describe_stall;  ///< The same for /healthz: appends nothing while all is well.

  [[nodiscard]] bool is_draining() const noexcept {
    // [service.draining] relaxed: it orders nothing. Partner: [service.drain].
    return draining.load(std::memory_order_relaxed);
  }
  /// The server is not ready any more. By the thread that got the signal.
  void drain() noexcept {
    // [service.drain] relaxed: whoever misses it sees it at its next request or wake-up, and
    // whoever listens to the bell by its lock. Partner: [service.draining].
    draining.store(true, std::memory_order_relaxed);
    bell.ring();
  }
};

enum class route : std::uint8_t { plaintext, echo, help, work, healthz, readyz, metrics, other };

struct route_entry {
  std::string_view path;
  bool get;    ///< GET and HEAD, else POST.
  bool brief;  ///< Takes no longer than copying the body: the clock need not be read after each.
  bool vital;  ///< Answered whatever the load.
};

/// In the order of `route`; `other` stands for every path that is none of these. To add a route: a
/// name above, a line here, a case in respond().
inline constexpr std::array<route_entry, 8> routes{{
    {"/plaintext", true, true, false},
    {"/echo", false, true, false},
    {"/", true, true, false},
    {"/work", true, false, false},
    {"/healthz", true, true, true},
    {"/readyz", true, true, true},
    {"/metrics", true, false, true},
    {"other", true, true, false},
}};

constexpr route find_route(std::string_view path) noexcept {
  std::size_t i = 0;
  while (i < routes.size() - 1 && routes[i].path != path) ++i;
  return static_cast<route>(i);
}

/// The response to a request for `where`, its route. Text that a handler has to make goes into
/// `scratch`, which the response then refers to. What the handler throws, std::bad_alloc too, is
/// logged and becomes a 500.
response respond(route where, const request& what, const service& server, std::string& scratch);

}  // namespace bwos::server
