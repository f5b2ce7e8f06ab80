// SPDX-License-Identifier: Apache-2.0
#include "base/counters.hpp"

namespace bwos::server::metrics {

registry::registry(request_kinds kinds)
    : kinds_(kinds),
      ticks_per_us_(measure_ticks_per_us()),
      ticks_per_ms_(static_cast<ticks>(ticks_per_us_ * 1000)) {
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    bounds_[i] = static_cast<ticks>(duration_bounds_us[i] * ticks_per_us_);
  }
}

slot& registry::here() {
  return slots_.here([this] { return std::make_unique<slot>(bounds_, kinds_); });
}

totals registry::total() const {
  totals sum;
  sum.requests.assign(kinds_.routes, std::vector<std::uint64_t>(kinds_.statuses));
  std::uint64_t duration_ticks = 0;
  slots_.for_each([&](slot& one) {
    for (std::size_t route = 0; route < kinds_.routes; ++route) {
      for (std::size_t status = 0; status < kinds_.statuses; ++status) {
        sum.requests[route][status] += one.request_counter(route, status).get();
      }
    }
    for (std::size_t i = 0; i < sum.durations.size(); ++i)
      sum.durations[i] += one.durations_[i].get();
    for (std::size_t i = 0; i < sum.timeouts.size(); ++i) sum.timeouts[i] += one.timeouts_[i].get();
    for (std::size_t i = 0; i < sum.grpc.size(); ++i) sum.grpc[i] += one.grpc_[i].get();
    duration_ticks += one.duration_sum_.get();
    sum.received_bytes += one.received_bytes_.get();
    sum.sent_bytes += one.sent_bytes_.get();
    sum.out_of_memory += one.out_of_memory_.get();
    sum.shed += one.shed_.get();
  });
  sum.duration_us_sum = static_cast<double>(duration_ticks) / ticks_per_us_;
  return sum;
}

std::array<std::uint64_t, grpc_count> registry::grpc_total() const noexcept {
  std::array<std::uint64_t, grpc_count> sum{};
  slots_.for_each([&](slot& one) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one.grpc_[i].get();
  });
  return sum;
}

}  // namespace bwos::server::metrics
