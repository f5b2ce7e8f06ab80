// SPDX-License-Identifier: Apache-2.0
#include "ops/memory_return.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <string_view>
#include <utility>

namespace bwos::server {

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)

namespace {

/// Less is not worth it, in a burst and behind it, where nobody waits for the arenas. Guesses: what
/// an idle server takes, twice, and the half of it.
constexpr std::size_t worth_bytes = std::size_t{24} << 20;
constexpr std::size_t worth_bytes_idle = std::size_t{6} << 20;
/// In a burst a look is followed by as many times its own length without one, up to burst_interval:
/// the C library walks its free blocks while it holds their arenas. With two gibibytes of small
/// ones it took an eighth of a processor.
constexpr int pause = 32;
/// A burst is over when the workers use less than one of so many parts of their time. A guess.
constexpr unsigned quiet_part = 10;

/// 0 where /proc does not say. Allocates nothing, as there may be nothing left.
std::size_t resident_bytes() noexcept {
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::array<char, 128> text;
  const ssize_t size = ::read(fd, text.data(), text.size());
  ::close(fd);
  const std::string_view said(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  std::size_t pages = 0;
  const std::size_t second = said.find(' ') + 1;
  std::from_chars(said.data() + second, said.data() + said.size(), pages);
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// What is resident, and not in use as the C library knows it: its free blocks, and the program.
/// (Of its free blocks it does not know which are resident.)
std::size_t unused_bytes() noexcept {
  const struct mallinfo2 all = ::mallinfo2();
  const std::size_t in_use = all.uordblks + all.hblkhd;
  const std::size_t resident = resident_bytes();
  return resident > in_use ? resident - in_use : 0;
}

std::chrono::nanoseconds processor_time() noexcept {
  std::timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

/// From so many bytes on a block is mapped by itself. A guess: far above what a request takes, and
/// what it costs to map and clear it is little beside what it takes to fill it.
constexpr int mapped_bytes = 256 << 10;

}  // namespace

memory_return::memory_return(unsigned workers, std::size_t resident_max) noexcept
    : workers_(workers), resident_max_(resident_max) {
  ::mallopt(M_MMAP_THRESHOLD, mapped_bytes);
  kept_ = unused_bytes();  // the program
}

void memory_return::look(clock::time_point now) noexcept {
  if (now < next_look_) return;
  next_look_ = now + interval;
  const bool is_over = burst_is_over(now);
  const std::size_t resident = resident_bytes();
  if (resident < worth_bytes || (!is_over && resident <= resident_max_)) return;
  const clock::time_point begun = clock::now();
  give_back(is_over, begun);
  if (!is_over)
    next_look_ += std::min<clock::duration>(pause * (clock::now() - begun), burst_interval);
}

void memory_return::give_back(bool is_over, clock::time_point begun) noexcept {
  const std::size_t unused = unused_bytes();
  kept_ = std::min(kept_, unused);
  if (is_over && std::exchange(in_burst_, false)) kept_ = 0;  // more of it is free now
  if (unused < kept_ + (is_over ? worth_bytes_idle : worth_bytes)) return;
  ::malloc_trim(0);
  kept_ = unused_bytes();
  in_burst_ = !is_over;
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - begun);
  spdlog::log(is_over ? spdlog::level::info : spdlog::level::debug,
              "{} MiB of free memory given back to the system, in {} ms",
              (std::max(unused, kept_) - kept_) >> 20, took.count());
}

/// Said once for each burst_interval.
bool memory_return::burst_is_over(clock::time_point now) noexcept {
  const auto passed = now - burst_looked_;
  if (passed < burst_interval) return false;
  burst_looked_ = now;
  const std::chrono::nanoseconds before = std::exchange(used_, processor_time());
  return (used_ - before) * quiet_part <= passed * workers_;
}

#else

memory_return::memory_return(unsigned workers, std::size_t resident_max) noexcept
    : workers_(workers), resident_max_(resident_max) {}
bool memory_return::burst_is_over(clock::time_point) noexcept {
  return false;
}
void memory_return::look(clock::time_point) noexcept {}

#endif

}  // namespace bwos::server
