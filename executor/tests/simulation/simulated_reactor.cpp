// SPDX-License-Identifier: Apache-2.0
#include "simulated_reactor.hpp"

#include <sys/timerfd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

namespace bwos::simulation {
namespace {

/// Reactors by the number that stands for a timerfd: higher than a process's descriptors.
constexpr int first_timer = 1 << 30;
std::map<int, simulated_reactor*>& timers_in_use() {
  static std::map<int, simulated_reactor*> all;
  return all;
}
int new_timer() {
  auto& all = timers_in_use();
  return all.empty() ? first_timer : all.rbegin()->first + 1;
}

}  // namespace

simulated_reactor::simulated_reactor(machine& here, bool shared)
    : reactor(new_timer()), machine_(here), shared_(shared) {
  timers_in_use().emplace(new_timer(), this);
}

simulated_reactor::~simulated_reactor() {
  std::erase_if(timers_in_use(), [this](const auto& each) { return each.second == this; });
}

void simulated_reactor::no_descriptors() noexcept {
  std::abort();
}

void simulated_reactor::arrive(nanoseconds when, continuation& work) {
  machine_.at(when, [this, event = &work] {
    ready_.push_back(event);
    set_.wake_one(machine_);
  });
}

void simulated_reactor::set_timer(std::int64_t due_ms) {
  const std::uint64_t setting = ++timer_settings_;
  const nanoseconds due = static_cast<nanoseconds>(due_ms) * millisecond;
  machine_.at(std::max(due, machine_.now()), [this, setting] {
    if (setting != timer_settings_) return;
    timer_due_ = true;
    set_.wake_one(machine_);
  });
}

void simulated_reactor::set::wake_one(machine& here) noexcept {
  while (!waiters.empty()) {
    thread* const last = waiters.back();
    waiters.pop_back();
    if (here.wake(*last)) return;  // else its deadline has just passed
  }
}

void simulated_reactor::poll(continuation_chain& sink, std::size_t at_most) noexcept {
  harvest(sink, shared_ ? at_most : batch);
}

bool simulated_reactor::wait(continuation_chain& sink) noexcept {
  // Ends: as epoll_wait() does, when this thread finds something. Others may have taken it.
  while (!available()) sleep_in(set_, never, "epoll_wait");
  return harvest(sink, batch);
}

bool simulated_reactor::wait_aside(continuation_chain& sink, int at_most_ms) noexcept {
  if (!shared_) return wait(sink);
  const nanoseconds deadline = machine_.now() + static_cast<nanoseconds>(at_most_ms) * millisecond;
  step("epoll_wait aside");
  while (tokens_ == 0 && sleep_in(aside_, deadline, "epoll_wait aside")) continue;
  const bool woken = tokens_ != 0;
  if (woken) aside_.wake_one(machine_);
  return harvest(sink, batch) || woken;
}

/// False: the deadline has passed.
bool simulated_reactor::sleep_in(set& where, nanoseconds deadline, const char* what) noexcept {
  thread* const self = machine_.running();
  where.waiters.push_back(self);
  const bool woken = machine_.wait(&where, deadline, what);
  std::erase(where.waiters, self);
  return woken;
}

/// One epoll_wait() that does not wait; returns whether a token is there. A token that nobody has
/// read stays, and so do events beyond `at_most`: either wakes the next waiter.
bool simulated_reactor::harvest(continuation_chain& sink, std::size_t at_most) noexcept {
  step("epoll_wait");
  touch(this, access::change, "takes what is ready");
  std::size_t room = at_most;
  // A token stands in the list of what is ready, before or behind the rest.
  const bool token = tokens_ != 0 && (ready_.size() < room || machine_.random.below(2) == 0);
  if (token) {
    --room;
    if (!shared_) tokens_ = 0;
  }
  const bool timer = std::exchange(timer_due_, false);
  for (std::size_t i = 0; i < room && !ready_.empty(); ++i) {
    sink.append(*ready_.front());
    ready_.pop_front();
  }
  if (on_taken) on_taken(sink);
  if (available()) set_.wake_one(machine_);
  step("returns from epoll_wait");
  if (timer) timers.advance(sink);
  return token;
}

bool simulated_reactor::take_token() noexcept {
  if (!shared_) return true;
  step("reads the token");
  if (tokens_ == 0) return false;
  --tokens_;
  return true;
}

void simulated_reactor::wake() noexcept {
  step("writes a token");
  touch(this, access::change, "adds a token");
  ++tokens_;
  set_.wake_one(machine_);
  aside_.wake_one(machine_);
}

}  // namespace bwos::simulation

/// In place of the C library's, for timer_service.
extern "C" int timerfd_settime(int timer, int, const itimerspec* when, itimerspec*) noexcept {
  using namespace bwos::simulation;
  const auto found = timers_in_use().find(timer);
  if (found == timers_in_use().end()) return -1;
  step("timerfd_settime");
  found->second->set_timer(when->it_value.tv_sec * 1000 + when->it_value.tv_nsec / 1'000'000);
  return 0;
}
