// SPDX-License-Identifier: Apache-2.0
// In place of executor/src/io/worker_context.cpp: what is thread_local there belongs to a simulated
// thread.
#include "io/worker_context.hpp"

#include <bwos/fork/here.hpp>
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

}  // namespace bwos
