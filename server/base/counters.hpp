// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/thread_slots.hpp"
#include "base/ticks.hpp"

namespace bwos::server::metrics {

/// Upper bounds of the duration histogram; above the last one is a bucket of its own.
inline constexpr std::array<std::uint32_t, 16> duration_bounds_us{
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

enum class timeout : std::uint8_t { idle, header, body, write };
inline constexpr std::array<const char*, 4> timeout_names{"idle", "header", "body", "write"};

/// Of native gRPC: calls as grpc_statistics has them; receives that brought bytes; system calls
/// that sent some; turns of connections that their slice has ended; calls turned away:
/// --queue-age-max.
enum class grpc : std::uint8_t {
  started,
  ok,
  failed,
  cancelled,
  unserved,
  read_batches,
  sends,
  slices,
  shed,
};
inline constexpr std::size_t grpc_count = 9;

/// Requests are counted by their route and the status of their answer, both by number.
struct request_kinds {
  std::size_t routes;
  std::size_t statuses;
};

/// What is counted, as plain numbers: the sum over all threads.
struct totals {
  std::vector<std::vector<std::uint64_t>> requests;  ///< By route, then by status.
  std::array<std::uint64_t, duration_bounds_us.size() + 1> durations{};
  double duration_us_sum = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t out_of_memory = 0;  ///< Connections closed because of it.
  std::uint64_t shed = 0;           ///< Requests turned away: --queue-age-max.
  std::array<std::uint64_t, timeout_names.size()> timeouts{};
  std::array<std::uint64_t, grpc_count> grpc{};
};

/// A number that one thread writes and any thread reads.
class counter {
 public:
  void add(std::uint64_t amount) noexcept {
    // [counter.add] relaxed: publishes nothing but itself, and without a second writer a load and a
    // store lose nothing, at the price of plain ones. Partner: [counter.get].
    value_.store(get() + amount, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t get() const noexcept {
    // [counter.get] relaxed: nothing is read on its strength. Partner: [counter.add].
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// The counters of one thread, apart from those of others by two cache lines (which the processor
/// fetches in pairs).
class alignas(128) slot {
 public:
  /// Throws std::bad_alloc.
  slot(const std::array<ticks, duration_bounds_us.size()>& bounds, request_kinds kinds)
      : bounds_(bounds),
        statuses_(kinds.statuses),
        requests_(kinds.routes * kinds.statuses + 2 * apart) {}

  /// `route` and `status` are below the registry's request_kinds.
  void request(std::size_t route, std::size_t status) noexcept {
    request_counter(route, status).add(1);
  }
  /// So many requests were answered by one write, `took` after a worker had taken them up.
  void answered(unsigned requests, ticks took) noexcept {
    std::size_t bucket = 0;
    while (bucket < bounds_.size() && took > bounds_[bucket]) ++bucket;
    durations_[bucket].add(requests);
    duration_sum_.add(requests * took);
  }
  void received(std::uint64_t bytes) noexcept { received_bytes_.add(bytes); }
  void sent(std::uint64_t bytes) noexcept { sent_bytes_.add(bytes); }
  void out_of_memory() noexcept { out_of_memory_.add(1); }
  void shed() noexcept { shed_.add(1); }
  void count(grpc what) noexcept { grpc_[static_cast<std::size_t>(what)].add(1); }
  void timed_out(timeout kind) noexcept { timeouts_[static_cast<std::size_t>(kind)].add(1); }

 private:
  friend class registry;

  /// Counters that nobody uses, before and behind those on the heap: two cache lines.
  static constexpr std::size_t apart = 128 / sizeof(counter);

  [[nodiscard]] counter& request_counter(std::size_t route, std::size_t status) noexcept {
    return requests_[apart + route * statuses_ + status];
  }

  std::array<ticks, duration_bounds_us.size()> bounds_;
  const std::size_t statuses_;
  std::vector<counter> requests_;
  std::array<counter, duration_bounds_us.size() + 1> durations_;
  counter duration_sum_;
  counter received_bytes_;
  counter sent_bytes_;
  counter out_of_memory_;
  counter shed_;
  std::array<counter, timeout_names.size()> timeouts_;
  std::array<counter, grpc_count> grpc_;
};

/// A server's counters. Must outlive every thread that counts.
class registry {
 public:
  explicit registry(request_kinds kinds);
  registry(const registry&) = delete;
  registry& operator=(const registry&) = delete;

  /// The calling thread's slot; the first call of a thread makes it. Never keep it across a
  /// co_await.
  [[gnu::noinline]] slot& here();

  /// Throws std::bad_alloc.
  [[nodiscard]] totals total() const;
  /// totals::grpc alone.
  [[nodiscard]] std::array<std::uint64_t, grpc_count> grpc_total() const noexcept;

  [[nodiscard]] ticks ticks_per_ms() const noexcept { return ticks_per_ms_; }
  /// 0 where another thread's counter ran behind.
  [[nodiscard]] std::chrono::microseconds time_since(ticks begun) const noexcept {
    const ticks now = now_ticks();
    if (now < begun) return std::chrono::microseconds(0);
    return std::chrono::microseconds((now - begun) * 1000 / ticks_per_ms_);
  }

 private:
  const request_kinds kinds_;
  const double ticks_per_us_;
  const ticks ticks_per_ms_;
  std::array<ticks, duration_bounds_us.size()> bounds_{};
  thread_slots<slot> slots_;
};

}  // namespace bwos::server::metrics
