// SPDX-License-Identifier: Apache-2.0
#include "base/counters.hpp"

namespace bwos::server::metrics {
namespace {

std::uint64_t next_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  // [registry.id] relaxed: only has to be unique. Partner: none (a number).
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

struct cached_slot {
  std::uint64_t registry_id = 0;
  slot* where = nullptr;
};
thread_local cached_slot cache;

}  // namespace

registry::registry(request_kinds kinds)
    : id_(next_id()),
      kinds_(kinds),
      ticks_per_us_(measure_ticks_per_us()),
      ticks_per_ms_(static_cast<ticks>(ticks_per_us_ * 1000)) {
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    bounds_[i] = static_cast<ticks>(duration_bounds_us[i] * ticks_per_us_);
  }
}

slot& registry::here() {
  if (cache.registry_id != id_) [[unlikely]]
    cache = {id_, &find_or_add()};
  return *cache.where;
}

slot& registry::find_or_add() {
  const std::lock_guard lock(mutex_);
  for (const auto& one : slots_) {
    if (one->owner_ == std::this_thread::get_id()) return *one;
  }
  return *slots_.emplace_back(std::make_unique<slot>(bounds_, kinds_));
}

totals registry::total() const {
  totals sum;
  sum.requests.assign(kinds_.routes, std::vector<std::uint64_t>(kinds_.statuses));
  std::uint64_t duration_ticks = 0;
  const std::lock_guard lock(mutex_);
  for (const auto& one : slots_) {
    for (std::size_t route = 0; route < kinds_.routes; ++route) {
      for (std::size_t status = 0; status < kinds_.statuses; ++status) {
        sum.requests[route][status] += one->request_counter(route, status).get();
      }
    }
    for (std::size_t i = 0; i < sum.durations.size(); ++i)
      sum.durations[i] += one->durations_[i].get();
    for (std::size_t i = 0; i < sum.timeouts.size(); ++i)
      sum.timeouts[i] += one->timeouts_[i].get();
    for (std::size_t i = 0; i < sum.grpc.size(); ++i) sum.grpc[i] += one->grpc_[i].get();
    duration_ticks += one->duration_sum_.get();
    sum.received_bytes += one->received_bytes_.get();
    sum.sent_bytes += one->sent_bytes_.get();
    sum.out_of_memory += one->out_of_memory_.get();
    sum.shed += one->shed_.get();
  }
  sum.duration_us_sum = static_cast<double>(duration_ticks) / ticks_per_us_;
  return sum;
}

std::array<std::uint64_t, grpc_count> registry::grpc_total() const noexcept {
  std::array<std::uint64_t, grpc_count> sum{};
  const std::lock_guard lock(mutex_);
  for (const auto& one : slots_) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one->grpc_[i].get();
  }
  return sum;
}

}  // namespace bwos::server::metrics
