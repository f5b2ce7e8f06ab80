// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/drain.hpp"
#include "http/router.hpp"

namespace bwos::server {

/// What the operational routes show. All members: called on any worker, several at once.
struct operations {
  const drain_state& drain;  ///< Outlives the routes.
  /// For /metrics.
  std::function<void(std::string& to)> write_metrics;
  /// For /healthz: appends nothing while all is well.
  std::function<void(std::string& to)> describe_stall;
};

/// What whoever runs a server asks it for. /healthz: whether the process works at all; restart it
/// if this fails. /readyz: whether to send it requests. /metrics: Prometheus' text.
[[nodiscard]] std::vector<route> operational_routes(const operations& of);

}  // namespace bwos::server
