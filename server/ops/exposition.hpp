// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <bwos/statistics.hpp>

#include "base/access_log.hpp"
#include "base/counters.hpp"
#include "grpc/transport.hpp"
#include "http/router.hpp"
#include "net/memory_budget.hpp"

namespace bwos::server::metrics {

/// Everything that /metrics shows.
struct snapshot {
  const router* routes = nullptr;  ///< Whose requests are counted.
  totals http;
  memory_budget::totals memory;
  bool http_listens = false;
  std::uint64_t connections = 0;
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;
  std::uint64_t made_room = 0;
  std::optional<std::chrono::milliseconds> queue_age;  ///< Where it is measured.
  std::optional<std::uint64_t> address_refused;        ///< Where addresses have a limit.
  std::optional<grpc_statistics> grpc;
  std::optional<std::uint64_t> grpc_connections;  ///< Where native.
  std::optional<std::uint64_t> grpc_refused;      ///< Where native.
  std::uint64_t grpc_made_room = 0;               ///< Likewise.
  std::optional<pool_statistics> pool;            ///< Where one of ours is what runs.
  std::optional<std::uint64_t> asio_lane_run;     ///< Where there is such a lane.
  std::optional<access_log_counts> access_log;    ///< Where there is one.
  std::string_view executor;
  reactor_kind reactor = reactor_kind::none;
  std::string_view version;
};

/// Appends `what` in Prometheus' text format 0.0.4.
void write_text(std::string& to, const snapshot& what);

[[nodiscard]] std::string_view name_of(reactor_kind kind) noexcept;

}  // namespace bwos::server::metrics
