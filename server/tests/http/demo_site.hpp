// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "app/routes.hpp"
#include "base/counters.hpp"
#include "base/drain.hpp"
#include "http/router.hpp"
#include "ops/operational_routes.hpp"

namespace bwos::server::test {

/// The demo's routes, and operational ones that say what a test wants.
struct demo_site {
  explicit demo_site(std::uint64_t work_us_max = 10'000) : routes(made(work_us_max)) {}
  demo_site(const demo_site&) = delete;
  demo_site& operator=(const demo_site&) = delete;

  /// Its counters are large enough for each demo_site's.
  static constexpr metrics::request_kinds kinds{.routes = 8, .statuses = status_count};

  [[nodiscard]] std::uint64_t counted(const metrics::totals& of, std::string_view path,
                                      status code) const {
    return of.requests[routes.find(path)][number_of(code)];
  }

  drain_state drain;
  std::function<void(std::string& to)> write_metrics = [](std::string& to) { to += "metrics"; };
  std::function<void(std::string& to)> describe_stall = [](std::string&) {};
  const router routes;

 private:
  std::vector<route> made(std::uint64_t work_us_max) {
    std::vector<route> all = demo_routes(work_us_max);
    for (route& each :
         operational_routes({.drain = drain,
                             .write_metrics = [this](std::string& to) { write_metrics(to); },
                             .describe_stall = [this](std::string& to) { describe_stall(to); }})) {
      all.push_back(std::move(each));
    }
    return all;
  }
};

}  // namespace bwos::server::test
