// SPDX-License-Identifier: Apache-2.0
#include "http/h1/connection.hpp"

#include <utility>

#include "http/h1/connection_life.hpp"
#include "http/reactor_sockets.hpp"

namespace bwos::server::http1 {
namespace life {

worker_local& this_worker() noexcept {
  thread_local worker_local mine;
  mine.output.clear(output_bytes_kept);
  return mine;
}

void append_last(const response& what, const context& shared, worker_local& worker) {
  const clock::time_point now =
      worker.coarse_now(metrics::now_ticks(), shared.metrics.ticks_per_ms());
  write_response(worker.output, what, {.keep_alive = false}, worker.date.line(now));
  shared.metrics.here().request(shared.routes.other(), number_of(what.code));
}

}  // namespace life

task<void> serve(stream peer, const context& shared) {
  return life::serve<reactor_sockets>(std::move(peer), shared);
}

task<void> refuse(stream peer, const context& shared) {
  return life::refuse<reactor_sockets>(std::move(peer), shared);
}

}  // namespace bwos::server::http1
