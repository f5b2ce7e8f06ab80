// SPDX-License-Identifier: Apache-2.0
#include <bwos/pool.hpp>

#include "pool/fork.hpp"
#include "pool/pool_core.hpp"

namespace bwos {

pool::pool(const options& settings) {
  settings.validate();
  count_forks();
  core_ = std::make_unique<pool_core>(settings);
  core_->start();
}
pool::~pool() {
  // What is left of it in a child can be neither joined nor closed: the reactors are shared with
  // the parent, and a lock may be held by a worker that is not here.
  if (core_->in_child()) static_cast<void>(core_.release());
}
bool pool::in_child() const noexcept {
  return core_->in_child();
}
void pool::post(continuation& work) noexcept {
  core_->post(work);
}
void pool::post(continuation& work, wake_rule rule) noexcept {
  core_->work().post(work, rule);
}
void pool::yield(continuation& work) noexcept {
  core_->yield(work);
}
void pool::post_long(continuation& work, lane_entry& place) noexcept {
  place.work = &work;
  core_->post_long(place);
}
pool_core* pool::here() noexcept {
  const worker_context* const current = current_worker();
  return current == nullptr ? nullptr : current->pool;
}
bool pool::running_here() const noexcept {
  return here() == core_.get();
}
void pool::work_started() noexcept {
  core_->work_started();
}
void pool::work_finished() noexcept {
  core_->work_finished();
}
void pool::attach() {
  core_->attach();
}
void pool::stop() noexcept {
  core_->stop();
}
bool pool::stopped() const noexcept {
  return core_->work().stopping();
}
void pool::join() {
  core_->join();
}
unsigned pool::workers() const noexcept {
  return core_->settings.workers;
}
bool pool::has_idle() const noexcept {
  return core_->work().steals && core_->work().idle.any_idle();
}
pool_statistics pool::statistics() const {
  return core_->statistics();
}
worker_turn pool::turn_of(unsigned worker) const noexcept {
  return core_->turn_of(worker);
}
std::chrono::milliseconds pool::queue_age(
    std::chrono::steady_clock::time_point now) const noexcept {
  return core_->queue_age(now);
}
std::chrono::microseconds pool::lane_age() const noexcept {
  return core_->lane_age();
}

}  // namespace bwos
