// SPDX-License-Identifier: Apache-2.0
// A reactor of the simulated machine: what is ready comes by the test's order, and waiters are
// woken as the kernel wakes those of an epoll set. No descriptors.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "io/reactor.hpp"
#include "machine.hpp"

namespace bwos::simulation {

class simulated_reactor final : public reactor {
 public:
  /// `shared`: a group's, as epoll_reactor's.
  simulated_reactor(machine& here, bool shared);
  ~simulated_reactor() override;

  /// `work` is ready from `when` on. Anywhere.
  void arrive(nanoseconds when, continuation& work);
  /// What is ready, and nobody has taken yet.
  [[nodiscard]] std::size_t ready() const noexcept { return ready_.size(); }
  /// Called on the thread that polls, or returns from a wait, with what was ready and is its now.
  std::function<void(const continuation_chain& events)> on_taken;
  /// timerfd_settime().
  void set_timer(std::int64_t due_ms);

  void start() override {}
  void poll(continuation_chain& sink, std::size_t at_most) noexcept override;
  bool wait(continuation_chain& sink) noexcept override;
  bool wait_aside(continuation_chain& sink, int at_most_ms) noexcept override;
  bool take_token() noexcept override;
  void wake() noexcept override;

  descriptor* adopt(int, std::uint64_t) noexcept override { no_descriptors(); }
  descriptor* listen(int, bool) noexcept override { no_descriptors(); }
  void close(descriptor&) noexcept override { no_descriptors(); }
  bool receive(descriptor&, const receive_room&, received&) noexcept override { no_descriptors(); }
  bool wait(descriptor&, std::uint32_t, continuation&) noexcept override { no_descriptors(); }

 private:
  /// Those who sleep in a set: the last one to come is woken first, as the kernel does it.
  struct set {
    std::vector<thread*> waiters;
    void wake_one(machine& here) noexcept;
  };

  [[noreturn]] static void no_descriptors() noexcept;
  std::unique_ptr<descriptor> make_descriptor() override { no_descriptors(); }
  [[nodiscard]] bool available() const noexcept {
    return !ready_.empty() || tokens_ != 0 || timer_due_;
  }
  bool sleep_in(set& where, nanoseconds deadline, const char* what) noexcept;
  bool harvest(continuation_chain& sink, std::size_t at_most) noexcept;

  machine& machine_;
  const bool shared_;
  std::deque<continuation*> ready_;
  unsigned tokens_ = 0;  // shared: counted, there until read. Private: an edge, gone when seen
  bool timer_due_ = false;
  std::uint64_t timer_settings_ = 0;
  set set_;
  set aside_;  // of the tokens alone
};

}  // namespace bwos::simulation
