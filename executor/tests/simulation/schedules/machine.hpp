// SPDX-License-Identifier: Apache-2.0
// A computer of pretence. Its threads are fibers, its clock is virtual, and at each step of a
// thread (an access to an atomic, a system call, a look at the clock) the seed may let another one
// go on. So a schedule is a function of its seed. What one thread has stored the next one sees:
// schedules are sequentially consistent; memory orders are tests/weaken's and the model checker's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "chooser.hpp"
#include "clock.hpp"
#include "thread.hpp"
#include "trace.hpp"

namespace bwos::simulation {

class machine {
 public:
  explicit machine(std::uint64_t seed);
  ~machine();
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  /// The machine of this process; null: there is none.
  [[nodiscard]] static machine* current() noexcept { return current_; }

  thread& start(std::string name, std::function<void()> body);
  /// Runs until every thread has ended. Fails when none can go on any more.
  void run();

  /// Looks into shared state between the steps, and lets nobody go on meanwhile.
  template <class Look>
  auto between_steps(Look look) {
    thread* const held = std::exchange(running_, nullptr);
    const auto seen = look();
    running_ = held;
    return seen;
  }

  // On a thread of the machine; elsewhere, as while a test prepares, these do nothing.

  /// A step. Another thread may go on before it returns.
  void step(const char* what, std::source_location at) noexcept {
    if (running_ == nullptr) return;
    running_->doing = what;
    running_->at = at;
    if (trace_.wanted()) [[unlikely]]
      trace_.add({clock_.now(), running_, what, at});
    clock_.advance(5 + (random.next() & 31));
    take_step();
  }
  /// After a step that has left `value` in memory: one more, for the plain accesses behind it.
  void changed(std::uint64_t value) noexcept {
    if (running_ == nullptr) return;
    saw(value);
    take_step();
  }
  void saw(std::uint64_t value) noexcept {
    if (trace_.wanted()) [[unlikely]]
      trace_.note_value(value);
  }
  /// Whether a compare_exchange_weak that could succeed fails all the same.
  bool fails_spuriously() noexcept { return running_ != nullptr && random.below(16) == 0; }
  /// Whether a sleep that begins is interrupted, as by a signal.
  bool interrupts() noexcept { return random.below(64) == 0; }

  // On a thread of the machine only.

  /// Lets the others go first.
  void yield() noexcept;
  /// Inside a task: computes. Others go on meanwhile.
  void compute(nanoseconds span) noexcept;
  /// Waits for a wake of `key`, until `deadline` at most; false: that has passed.
  bool wait(const void* key, nanoseconds deadline, const char* what) noexcept;

  // Anywhere.

  /// Wakes the first thread that waits for `key`; false: there is none.
  bool wake(const void* key) noexcept;
  /// Wakes that thread; false: it does not wait.
  bool wake(thread& sleeper) noexcept;
  /// What the kernel, or the world outside, does at that time.
  void at(nanoseconds when, std::function<void()> action) { clock_.at(when, std::move(action)); }
  [[nodiscard]] nanoseconds now() const noexcept { return clock_.now(); }
  [[nodiscard]] thread* running() const noexcept { return running_; }
  [[nodiscard]] const std::vector<std::unique_ptr<thread>>& threads() const noexcept {
    return threads_;
  }
  /// How long threads have been without their processor, all together.
  [[nodiscard]] nanoseconds preempted() const noexcept { return preempted_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  /// Of all steps so far and who took them: equal schedules, equal sums.
  [[nodiscard]] std::uint64_t checksum() const noexcept { return checksum_; }

  /// Prints what is wrong, the seed, where each thread is and how to replay it; ends the process.
  [[noreturn]] void fail(const std::string& check, const std::string& message);

  /// Called before the clock jumps by more than a moment: all threads are inside a task, or wait
  /// for longer than that. `until`: the time to which it jumps.
  std::function<void(nanoseconds until)> before_jump;
  static constexpr nanoseconds moment = 100 * microsecond;

  const std::uint64_t seed;
  random_source random;

 private:
  void take_step() noexcept {
    ++steps_;
    if (--steps_left_ == 0 || clock_.next() <= clock_.now()) running_->stack.leave();
  }
  void suspend(thread::state how) noexcept;
  void go_on(thread& sleeper) noexcept;
  thread* choose();
  void pass_time();
  [[nodiscard]] bool all_ended() const noexcept;

  static inline machine* current_ = nullptr;

  chooser chooser_;
  simulation::clock clock_;
  trace trace_;
  std::vector<std::unique_ptr<thread>> threads_;
  std::vector<thread*> runnable_;
  thread* running_ = nullptr;
  unsigned steps_left_ = 1;
  std::uint64_t steps_ = 0;
  std::uint64_t sleeps_ = 0;
  nanoseconds preempted_ = 0;
  std::uint64_t checksum_ = 0;
};

/// How an atomic is touched. A change reads and writes it at once.
enum class access : std::uint8_t { load, store, change };

/// A step of the thread that runs, if a machine does.
inline void step(const char* what,
                 std::source_location at = std::source_location::current()) noexcept {
  if (machine* const here = machine::current()) here->step(what, at);
}

/// The same, for an access to an atomic.
inline void touch(const void* /*what*/, access /*how*/, const char* name,
                  std::source_location at = std::source_location::current()) noexcept {
  step(name, at);
}

}  // namespace bwos::simulation
