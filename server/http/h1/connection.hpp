// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "base/access_log.hpp"
#include "base/counters.hpp"
#include "base/drain.hpp"
#include "http/limits.hpp"
#include "http/route_times.hpp"
#include "http/router.hpp"
#include "net/connection.hpp"
#include "net/queue_age.hpp"

namespace bwos::server::h2 {
struct common;
}

namespace bwos::server::h1 {

/// What every connection of a server shares. Outlives them all.
struct common {
  executor& workers;
  const drain_state& drain;
  const router& routes;
  metrics::registry& metrics;
  const http_limits& limits;
  route_times& times;
  const queue_age_bound& queue_age;
  const h2::common& http2;    ///< Of connections that begin with its preface.
  access_log* log = nullptr;  ///< Where every answer is noted, if any.
};

/// HTTP/1.1 connections, which become HTTP/2's if they begin with its preface.
class factory final : public connection_factory {
 public:
  /// `of` must outlive it.
  explicit factory(const common& of) noexcept
      : connection_factory(of.workers, of.metrics), common_(of) {}

  [[nodiscard]] std::unique_ptr<connection> connect(socket& accepted) const override;
  [[nodiscard]] std::size_t refusals_max() const noexcept override { return server::refusals_max; }
  /// 503.
  void refuse(socket& accepted) const override;

 private:
  const common& common_;
};

}  // namespace bwos::server::h1
