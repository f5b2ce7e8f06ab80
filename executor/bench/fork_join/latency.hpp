// SPDX-License-Identifier: Apache-2.0
// What the sides of `fork-latency` and `fork-events` measure with: a clock, work of a known length,
// and samples. And the parameters of the cases that more than one side has.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "side.hpp"

namespace bwos::bench {

using nanoseconds = std::int64_t;
inline constexpr nanoseconds microsecond = 1'000;
inline constexpr nanoseconds millisecond = 1'000'000;

/// Of std::chrono::steady_clock, too.
inline nanoseconds now() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return nanoseconds{time.tv_sec} * 1'000 * millisecond + time.tv_nsec;
}
inline double us_between(nanoseconds begin, nanoseconds end) noexcept {
  return static_cast<double>(end - begin) / static_cast<double>(microsecond);
}
inline double us_since(nanoseconds begin) noexcept {
  return us_between(begin, now());
}

/// Computes, by the clock: on a processor that is taken away meanwhile, so much less.
inline void spin_until(nanoseconds end) noexcept {
  while (now() < end) {
  }
}
inline void spin_for(nanoseconds length) noexcept {
  spin_until(now() + length);
}

/// Off the processor.
inline void sleep_until_time(nanoseconds end) noexcept {
  const timespec when{.tv_sec = end / (1'000 * millisecond),
                      .tv_nsec = end % (1'000 * millisecond)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) != 0) {
  }
}
inline void sleep_for_time(nanoseconds length) noexcept {
  sleep_until_time(now() + length);
}

/// The same work on every machine, however fast: a round takes some 3 ns.
inline std::uint64_t compute(std::uint64_t seed, unsigned rounds) noexcept {
  for (unsigned i = 0; i < rounds; ++i) seed = uts::mix(seed);
  asm volatile("" : "+r"(seed));  // somebody wants it
  return seed;
}

/// When the first of several began.
class first_begin {
 public:
  /// Any thread.
  void note() noexcept {
    nanoseconds none = 0;
    if (at_.load() == none) at_.compare_exchange_strong(none, now());
  }
  [[nodiscard]] bool noted() const noexcept { return at_.load() != 0; }
  [[nodiscard]] nanoseconds at() const noexcept { return at_.load(); }

 private:
  std::atomic<nanoseconds> at_{0};
};

/// Time of this machine's processors that its hypervisor gave to others, in the kernel's ticks of
/// 10 ms; noted at the next timer interrupt, so that a sample of less than that may pass unnoticed.
class stolen_time {
 public:
  stolen_time() noexcept : file_(::open("/proc/stat", O_RDONLY | O_CLOEXEC)) {}
  stolen_time(const stolen_time&) = delete;
  stolen_time& operator=(const stolen_time&) = delete;
  ~stolen_time() { ::close(file_); }

  /// 0 where the kernel does not say.
  [[nodiscard]] unsigned long long ticks() const noexcept {
    char text[256] = {};
    unsigned long long stolen = 0;
    if (::pread(file_, text, sizeof text - 1, 0) <= 0) return 0;
    std::sscanf(text, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &stolen);
    return stolen;
  }

 private:
  const int file_;
};

/// `take` gives microseconds, `count` times, and once before, in vain. Left out is what was taken
/// while the hypervisor ran others, unless that is all.
template <class Take>
std::vector<samples> take_samples(std::size_t count, const Take& take) {
  samples result;
  std::vector<double> disturbed;
  const stolen_time stolen;
  take();
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned long long before = stolen.ticks();
    const double us = take();
    (stolen.ticks() == before ? result.us : disturbed).push_back(us);
  }
  result.left_out = disturbed.size();
  if (result.us.empty()) result.us = std::move(disturbed);
  return {std::move(result)};
}

/// leaves: so many of such a length, forked by one task.
inline constexpr int leaf_count = 20;
inline constexpr nanoseconds leaf_length = 2 * millisecond;

/// burst: so many tasks of about a microsecond, forked by one task.
inline constexpr int burst_count = 1'000;
inline constexpr unsigned burst_rounds = 320;
/// Before it all threads have had nothing to do for longer than any of the libraries' workers spin.
inline constexpr nanoseconds burst_pause = 25 * millisecond;

}  // namespace bwos::bench
