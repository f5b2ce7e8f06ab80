// SPDX-License-Identifier: Apache-2.0
// What a run counts. Per class, over requests that were due inside the measured window:
//   due = sent + unsent        sent = answered + lost + outstanding
// `answered` includes wrong answers, whose latency is not recorded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "histogram.hpp"

namespace bwos::load {

enum class failure : std::size_t {
  status,        // answered, but not 200; under gRPC also not as application/grpc
  grpc_status,   // answered, but without `grpc-status: 0` at its end
  length,        // answered with a body of the wrong length, or not with one whole gRPC message
  body,          // answered with another gRPC message than expected, or a compressed one
  closed,        // lost: the peer closed the connection first
  reset,         // lost: the connection broke
  malformed,     // lost: the peer sent something else than an answer
  stream_reset,  // lost: the peer reset the stream
  unsent         // due on a connection that is gone or has too many outstanding, or sent and by the
          // peer's GOAWAY not processed; once for each place of a closed loop that ended early
};
inline constexpr std::array<const char*, 9> failure_names = {"status",    "grpc_status",  "length",
                                                             "body",      "closed",       "reset",
                                                             "malformed", "stream_reset", "unsent"};

struct class_outcome {
  histogram latency_ns;
  std::uint64_t sent = 0;
  std::uint64_t answered = 0;
  std::uint64_t outstanding = 0;  // neither answered nor lost when the drain time was over
  std::array<std::uint64_t, failure_names.size()> failures{};

  std::uint64_t& failed(failure kind) { return failures[static_cast<std::size_t>(kind)]; }
  std::uint64_t failed(failure kind) const { return failures[static_cast<std::size_t>(kind)]; }

  std::uint64_t lost() const {
    return failed(failure::closed) + failed(failure::reset) + failed(failure::malformed) +
           failed(failure::stream_reset);
  }

  std::uint64_t all_failures() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : failures) sum += count;
    return sum;
  }

  void merge(const class_outcome& other) {
    latency_ns.merge(other.latency_ns);
    sent += other.sent;
    answered += other.answered;
    outstanding += other.outstanding;
    for (std::size_t i = 0; i < failures.size(); ++i) failures[i] += other.failures[i];
  }
};

struct outcome {
  std::vector<class_outcome> classes;  // in the order of options.classes
  histogram lateness_ns;               // from due to handed to the kernel, over the window
  double client_cpu_s = 0;             // all threads, over the window
  bool drained = true;                 // late answers were waited for
  // Warm-up included: what the server did in its whole life under this run.
  std::uint64_t sent_in_all = 0;
  std::uint64_t answered_in_all = 0;

  std::uint64_t sent() const {
    std::uint64_t sum = 0;
    for (const class_outcome& each : classes) sum += each.sent;
    return sum;
  }

  // An answer that is still missing after the wait is as wrong as a bad one; without a wait the
  // last ones are always missing.
  std::uint64_t failures() const {
    std::uint64_t sum = 0;
    for (const class_outcome& each : classes) {
      sum += each.all_failures() + (drained ? each.outstanding : 0);
    }
    return sum;
  }

  void merge(const outcome& other) {
    for (std::size_t i = 0; i < classes.size(); ++i) classes[i].merge(other.classes[i]);
    lateness_ns.merge(other.lateness_ns);
    client_cpu_s += other.client_cpu_s;
    drained = drained && other.drained;
    sent_in_all += other.sent_in_all;
    answered_in_all += other.answered_in_all;
  }
};

}  // namespace bwos::load
