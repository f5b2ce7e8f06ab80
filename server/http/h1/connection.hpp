// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/stream.hpp>
#include <bwos/task.hpp>

#include "base/access_log.hpp"
#include "base/counters.hpp"
#include "base/drain.hpp"
#include "http/limits.hpp"
#include "http/route_times.hpp"
#include "http/router.hpp"
#include "net/executor.hpp"
#include "net/queue_age.hpp"

namespace bwos::server::native {
struct shared;
}

namespace bwos::server::http1 {

/// What every connection of a server shares. Outlives them all.
struct context {
  executor& workers;
  const drain_state& drain;
  const router& routes;
  metrics::registry& metrics;
  const http_limits& limits;
  route_times& times;
  const queue_age_bound& queue_age;
  const native::shared& http2;  ///< Of connections that begin with its preface.
  access_log* log = nullptr;    ///< Where every answer is noted, if any.
};

/// Serves one connection until it ends, and closes it. Runs on the threads of the executor, on one
/// at a time.
task<void> serve(stream peer, const context& shared);

/// Tells a peer that there are too many connections (503), and closes it once that has arrived.
task<void> refuse(stream peer, const context& shared);

}  // namespace bwos::server::http1
