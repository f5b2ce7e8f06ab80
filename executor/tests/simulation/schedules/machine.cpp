// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <cstdlib>
#include <iostream>
#include <utility>

#include "report.hpp"

namespace bwos::simulation {
namespace {

/// Virtual time does not begin at 0, which deadlines and turns take for "none".
constexpr nanoseconds first_moment = 1'000 * millisecond;
/// No schedule here lasts for so long: something does not end.
constexpr nanoseconds last_moment = first_moment + 20'000 * millisecond;
constexpr std::uint64_t steps_max = 50'000'000;

}  // namespace

machine::machine(std::uint64_t from)
    : seed(from), random(from), chooser_(random), clock_(first_moment + random.below(millisecond)) {
  current_ = this;
}

machine::~machine() {
  current_ = nullptr;
}

thread& machine::start(std::string name, std::function<void()> body) {
  const auto index = static_cast<unsigned>(threads_.size());
  threads_.push_back(std::make_unique<thread>(std::move(name), index, std::move(body)));
  threads_.back()->rank = chooser_.first_rank();
  threads_.back()->ran_last = now();
  return *threads_.back();
}

void machine::run() {
  while (!all_ended()) {
    clock_.run_due();
    thread* const next = choose();
    if (next == nullptr) {
      pass_time();
      continue;
    }
    if (const nanoseconds away = chooser_.preempts(); away != 0) {
      next->now = thread::state::preempted;
      preempted_ += away;
      at(now() + away, [next] { next->now = thread::state::runnable; });
      continue;
    }
    steps_left_ = chooser_.steps();
    checksum_ = (checksum_ ^ (next->index + 1)) * 0x100000001b3U + steps_;
    running_ = next;
    next->stack.resume();
    running_ = nullptr;
    next->ran_last = now();
    if (next->stack.ended()) next->now = thread::state::ended;
    if (now() > last_moment || steps_ > steps_max) fail("it_ends", "this schedule does not end");
  }
}

bool machine::all_ended() const noexcept {
  for (const auto& each : threads_) {
    if (each->now != thread::state::ended) return false;
  }
  return true;
}

thread* machine::choose() {
  runnable_.clear();
  for (const auto& each : threads_) {
    if (each->now == thread::state::runnable) runnable_.push_back(each.get());
  }
  return runnable_.empty() ? nullptr : &chooser_.next(runnable_, now());
}

/// Nobody has anything to do until the next action is due.
void machine::pass_time() {
  const nanoseconds until = clock_.next();
  if (until == never) fail("nothing_is_lost", "every thread waits, and nothing will wake one");
  bool settled = until - now() > moment;
  for (const auto& each : threads_) {
    settled =
        settled && each->now != thread::state::waking && each->now != thread::state::preempted;
  }
  if (settled && before_jump) before_jump(until);
  clock_.jump_to(until);
}

void machine::suspend(thread::state how) noexcept {
  running_->now = how;
  running_->sleeps = ++sleeps_;
  running_->stack.leave();
}

/// What it waited for has happened.
void machine::go_on(thread& sleeper) noexcept {
  sleeper.waits_for = nullptr;
  sleeper.now = thread::state::waking;
  thread* const woken = &sleeper;
  at(now() + chooser_.wake_latency(), [this, woken] {
    woken->now = thread::state::runnable;
    woken->ran_last = now();
  });
}

void machine::yield() noexcept {
  step("yields", std::source_location::current());
  thread* const self = running_;
  self->now = thread::state::preempted;
  at(now() + 1 + random.below(2'000), [self] { self->now = thread::state::runnable; });
  self->stack.leave();
}

void machine::compute(nanoseconds span) noexcept {
  thread* const self = running_;
  self->doing = "computes";
  at(now() + span, [self] { self->now = thread::state::runnable; });
  suspend(thread::state::computing);
}

bool machine::wait(const void* key, nanoseconds deadline, const char* what) noexcept {
  thread* const self = running_;
  self->doing = what;
  self->waits_for = key;
  self->waits_in_order = self->sleeps = ++sleeps_;
  self->timed_out = false;
  if (deadline != never) {
    const std::uint64_t sleep = self->sleeps;
    at(deadline, [this, self, sleep] {
      if (self->now != thread::state::waiting || self->sleeps != sleep) return;
      self->timed_out = true;
      go_on(*self);
    });
  }
  self->now = thread::state::waiting;
  self->stack.leave();
  return !self->timed_out;
}

bool machine::wake(const void* key) noexcept {
  thread* first = nullptr;
  for (const auto& each : threads_) {
    if (each->now != thread::state::waiting || each->waits_for != key) continue;
    if (first == nullptr || each->waits_in_order < first->waits_in_order) first = each.get();
  }
  if (first != nullptr) go_on(*first);
  return first != nullptr;
}

bool machine::wake(thread& sleeper) noexcept {
  if (sleeper.now != thread::state::waiting) return false;
  go_on(sleeper);
  return true;
}

void machine::fail(const std::string& check, const std::string& message) {
  running_ = nullptr;
  std::cout << "FAILED " << check << ": " << message << "\nat " << now() / microsecond
            << " us of virtual time, after " << steps_ << " steps:\n";
  for (const auto& each : threads_) {
    constexpr const char* names[] = {"runs",     "is waking", "lost its processor",
                                     "computes", "waits",     "has ended"};
    std::cout << "  " << each->name << ' ' << names[static_cast<unsigned>(each->now)] << ": "
              << each->doing << "   " << place_of(each->at) << '\n';
  }
  if (trace_.wanted()) trace_.print(std::cout);
  end_with_failure(check, seed);
}

}  // namespace bwos::simulation
