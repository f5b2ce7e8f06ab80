// SPDX-License-Identifier: Apache-2.0
// A computer of pretence that keeps time: each thread has a CPU and a clock of its own, each step
// takes what the costs say, and the thread that is the earliest goes on. Cache lines are somebody's
// or shared by some (MESI, without capacity), and one that is wanted by many is handed on one after
// the other. It stands where tests/simulation has a machine that goes through schedules instead:
// threads of both are fibers, which run the shipped files.
//
// Not modelled: plain memory (but for tasks, which touch() themselves), the store buffer, more
// threads than CPUs, and what a kernel does inside a call, but for the lock of an epoll set.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <source_location>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "clock.hpp"
#include "costs.hpp"
#include "thread.hpp"

namespace bwos::simulation {

/// How an atomic is touched. A change reads and writes it at once.
enum class access : std::uint8_t { load, store, change };

class machine {
 public:
  machine(std::uint64_t seed, const costs& of);
  ~machine();
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  [[nodiscard]] static machine* current() noexcept { return current_; }

  thread& start(std::string name, std::function<void()> body);
  /// Runs until every thread has ended. Fails when none can go on any more.
  void run();

  // On a thread of the machine; elsewhere, as while a load prepares, these do nothing.

  /// A system call, or a look at the clock.
  void step(const char* what, std::source_location at) noexcept;
  void touch(const void* what, access how, std::source_location at) noexcept;
  void changed(std::uint64_t) noexcept {}
  void saw(std::uint64_t) noexcept {}
  static bool fails_spuriously() noexcept { return false; }
  static bool interrupts() noexcept { return false; }

  // On a thread of the machine only.

  void yield() noexcept;
  /// Inside a task: computes.
  void compute(nanoseconds span) noexcept;
  /// Takes time that is no task's own.
  void spend(double ns) noexcept;
  /// Waits for a wake of `key`, until `deadline` at most; false: that has passed.
  bool wait(const void* key, nanoseconds deadline, const char* what) noexcept;

  // Anywhere.

  /// Wakes the first thread that waits for `key`; false: there is none.
  bool wake(const void* key) noexcept;
  /// Wakes that thread; false: it does not wait.
  bool wake(thread& sleeper) noexcept;
  /// What the kernel, or the world outside, does at that time.
  void at(nanoseconds when, std::function<void()> action);
  [[nodiscard]] nanoseconds now() const noexcept {
    return running_ == nullptr ? clock_.now() : running_->time / 1000;
  }
  [[nodiscard]] thread* running() const noexcept { return running_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  /// How long all threads together have waited for cache lines, by the file and line that touched
  /// them, the longest first.
  struct place {
    picoseconds waited;
    std::string name;
  };
  [[nodiscard]] std::vector<place> places() const;
  [[noreturn]] void fail(const std::string& check, const std::string& message);

  /// When it begins. Not 0, which deadlines and turns take for "none".
  static constexpr picoseconds began = picoseconds{1'000} * millisecond * 1000;

  const costs takes;
  random_source random;

 private:
  /// Of a cache line: who has it.
  struct line {
    unsigned owner = 0;    // who changed it last
    bool touched = false;  // by anybody
    bool shared = false;   // by those in `readers` and the owner
    picoseconds busy = 0;  // until then it is on its way to somebody
    std::vector<bool> readers;
  };
  struct later {
    bool operator()(const std::pair<picoseconds, thread*>& one,
                    const std::pair<picoseconds, thread*>& other) const noexcept {
      return one.first != other.first ? one.first > other.first
                                      : one.second->index > other.second->index;
    }
  };

  [[nodiscard]] double distance(unsigned one, unsigned other) const noexcept;
  [[nodiscard]] double way_to(const line& at, unsigned self, bool reads) const noexcept;
  void advance(double ns) noexcept;
  void let_others() noexcept;
  [[nodiscard]] picoseconds next_action() const noexcept;
  void go_on(thread& sleeper) noexcept;
  void resume(thread& next) noexcept;

  static inline machine* current_ = nullptr;

  simulation::clock clock_;  // of actions
  std::vector<std::unique_ptr<thread>> threads_;
  std::priority_queue<std::pair<picoseconds, thread*>, std::vector<std::pair<picoseconds, thread*>>,
                      later>
      runnable_;
  std::unordered_map<std::uintptr_t, line> lines_;
  std::map<std::pair<const char*, unsigned>, picoseconds> waited_at_;
  thread* running_ = nullptr;
  picoseconds turn_ends_ = 0;  // from then on somebody else is earlier
  std::uint64_t steps_ = 0;
  std::uint64_t sleeps_ = 0;
};

inline void step(const char* what,
                 std::source_location at = std::source_location::current()) noexcept {
  if (machine* const here = machine::current()) here->step(what, at);
}
inline void touch(const void* what, access how, const char* /*name*/ = "",
                  std::source_location at = std::source_location::current()) noexcept {
  if (machine* const here = machine::current()) here->touch(what, how, at);
}

}  // namespace bwos::simulation
