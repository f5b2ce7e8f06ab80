// SPDX-License-Identifier: Apache-2.0
// In place of executor/src/io/worker_context.cpp: what is thread_local there belongs to a simulated
// thread.
#include "io/worker_context.hpp"

#include <bwos/fork/forks.hpp>
#include <cstdlib>
#include <utility>

#include "machine.hpp"

namespace bwos {

worker_context* current_worker() noexcept {
  const simulation::thread* const here = simulation::machine::current()->running();
  return here == nullptr ? nullptr : here->context;
}

worker_context* set_current_worker(worker_context* context) noexcept {
  return std::exchange(simulation::machine::current()->running()->context, context);
}

detail::forks* detail::current_forks() noexcept {
  return simulation::machine::current()->running()->forks;
}

detail::forks* detail::set_current_forks(forks* to) noexcept {
  return std::exchange(simulation::machine::current()->running()->forks, to);
}

// A simulated worker belongs to no pool, and waits in none that stops.
detail::outside_wait::outside_wait(pool_core& of) noexcept : of_(of), parker_(nullptr) {
  std::abort();
}
detail::outside_wait::~outside_wait() = default;
void detail::outside_wait::until(join_word& /*end*/, waited_work /*work*/) noexcept {}

}  // namespace bwos
