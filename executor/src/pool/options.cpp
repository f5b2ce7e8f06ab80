// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <bwos/options.hpp>
#include <stdexcept>

namespace bwos {
namespace {

void check(const char* name, std::uint64_t value, std::uint64_t least, std::uint64_t most,
           bool power_of_two = false) {
  if (value >= least && value <= most && (!power_of_two || std::has_single_bit(value))) return;
  throw std::invalid_argument("bwos::options::" + std::string(name) + " is " +
                              std::to_string(value) + ", must be " +
                              (power_of_two ? "a power of two, " : "") + std::to_string(least) +
                              " to " + std::to_string(most));
}

template <class Kind>
void check_kind(const char* name, Kind value) {
  if (name_of(value)[0] != '?') return;
  throw std::invalid_argument("bwos::options::" + std::string(name) + " is " +
                              std::to_string(static_cast<unsigned>(value)) +
                              ", which is none of its enumerators");
}

}  // namespace

const char* name_of(steal_kind which) noexcept {
  switch (which) {
    case steal_kind::random:
      return "random";
    case steal_kind::none:
      return "none";
    case steal_kind::sequential:
      return "sequential";
    case steal_kind::last_victim:
      return "last-victim";
    case steal_kind::best_of_two:
      return "best-of-two";
    case steal_kind::best_of_many:
      return "best-of-many";
    case steal_kind::topology:
      return "topology";
  }
  return "?";
}

const char* name_of(steal_choice which) noexcept {
  switch (which) {
    case steal_choice::in_use:
      return "in-use";
    case steal_choice::probabilistic:
      return "probabilistic";
  }
  return "?";
}

const char* name_of(steal_amount which) noexcept {
  switch (which) {
    case steal_amount::batch:
      return "batch";
    case steal_amount::one:
      return "one";
    case steal_amount::half:
      return "half";
    case steal_amount::block:
      return "block";
  }
  return "?";
}

void options::validate() const {
  check("workers", workers, 0, workers_max);
  check("reactor_group", reactor_group, 1, workers_max);
  check("reactor_threads", reactor_threads, 0,
        reactor == reactor_kind::none ? 0 : reactor_threads_max);
  check_kind("steal", steal);
  check_kind("steal_blocks", steal_blocks);
  check_kind("steal_takes", steal_takes);
  check("steal_batch", steal_batch, 1, steal_batch_max);
  check("wait_depth", wait_depth, 1, 1024);
  check("slice_tasks", slice_tasks, 1, 65536);
  check("slice (us)", static_cast<std::uint64_t>(slice.count()), 1, 1'000'000);
  check("lane_age (us)", static_cast<std::uint64_t>(lane_age.count()), 1, 10'000'000);
  check("queue_age_interval (ms)", static_cast<std::uint64_t>(queue_age_interval.count()), 0,
        10'000);
  check("receive_bytes", receive_bytes, 1024, 1024 * 1024);
  check("ring_buffer_bytes", ring_buffer_bytes, 1024, 1024 * 1024);
  check("ring_buffers", ring_buffers, 2, 32768, true);
  check("ring_entries", ring_entries, 8, 32768, true);
}

}  // namespace bwos
