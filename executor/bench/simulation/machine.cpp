// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace bwos::simulation {
namespace {

/// No load lasts for so long: something does not end.
constexpr picoseconds last_moment = machine::began + picoseconds{100'000} * millisecond * 1000;

constexpr std::size_t line_bytes = 64;

/// Of a step that is no access to an atomic, by the words in which the shadow headers, fence.cpp
/// and the simulated reactor tell it.
double cost_of(std::string_view what, const costs& takes) {
  if (what == "looks at the clock") return takes.clock;
  if (what == "epoll_wait" || what == "epoll_wait aside") return takes.poll;
  if (what == "membarrier") return takes.membarrier;
  for (const std::string_view call : {"futex_wait", "futex_wake", "writes a token",
                                      "reads the token", "timerfd_settime", "yields"}) {
    if (what == call) return takes.system_call;
  }
  for (const std::string_view back : {"has locked", "has unlocked", "returns from epoll_wait"}) {
    if (what == back) return 0;
  }
  machine::current()->fail("costs", "nobody knows what it takes: " + std::string(what));
}

}  // namespace

machine::machine(std::uint64_t seed, const costs& of)
    : takes(of), random(seed), clock_(began / 1000) {
  current_ = this;
}

machine::~machine() {
  current_ = nullptr;
}

thread& machine::start(std::string name, std::function<void()> body) {
  const auto index = static_cast<unsigned>(threads_.size());
  threads_.push_back(std::make_unique<thread>(std::move(name), index, std::move(body)));
  thread& made = *threads_.back();
  made.time = now() * 1000;
  runnable_.emplace(made.time, &made);
  return made;
}

void machine::run() {
  std::size_t left = threads_.size();
  while (left != 0) {
    if (next_action() == never && runnable_.empty()) {
      fail("nothing_is_lost", "every thread waits for ever");
    }
    if (runnable_.empty() || next_action() <= runnable_.top().first) {
      clock_.jump_to(clock_.next());
      clock_.run_due();
      continue;
    }
    thread& next = *runnable_.top().second;
    runnable_.pop();
    resume(next);
    if (next.now == thread::state::runnable && !next.stack.ended()) {
      runnable_.emplace(next.time, &next);
    }
    if (next.stack.ended()) {
      next.now = thread::state::ended;
      --left;
    }
    if (next.time > last_moment) fail("it_ends", "this load does not end");
  }
}

picoseconds machine::next_action() const noexcept {
  return clock_.next() == never ? never : clock_.next() * 1000;
}

void machine::resume(thread& next) noexcept {
  turn_ends_ = std::min(next_action(), runnable_.empty() ? never : runnable_.top().first);
  clock_.jump_to(next.time / 1000);
  running_ = &next;
  next.stack.resume();
  running_ = nullptr;
}

void machine::advance(double ns) noexcept {
  ++steps_;
  running_->time += static_cast<picoseconds>(ns * 1000);
  let_others();
}

/// Those that are earlier.
void machine::let_others() noexcept {
  if (running_->time > turn_ends_) running_->stack.leave();
}

void machine::step(const char* what, std::source_location /*at*/) noexcept {
  if (running_ != nullptr) advance(cost_of(what, takes));
}

double machine::distance(unsigned one, unsigned other) const noexcept {
  if (one / takes.cache_cpus == other / takes.cache_cpus) return takes.away;
  return one / takes.node_cpus == other / takes.node_cpus ? takes.far : takes.remote;
}

/// What `self` waits for: the owner's line, and before a change all copies of it, too.
double machine::way_to(const line& at, unsigned self, bool reads) const noexcept {
  double way = at.owner == self ? 0 : distance(at.owner, self);
  for (unsigned reader = 0; !reads && reader < at.readers.size(); ++reader) {
    if (at.readers[reader] && reader != self) way = std::max(way, distance(reader, self));
  }
  return way;
}

void machine::touch(const void* what, access how, std::source_location from_where) noexcept {
  if (running_ == nullptr) return;
  let_others();  // it may have woken somebody since its last step, which takes long
  const unsigned self = running_->index;
  line& at = lines_[reinterpret_cast<std::uintptr_t>(what) / line_bytes];
  const bool reads = how == access::load;
  const bool owns = !at.touched || at.owner == self;
  const bool holds = owns || (self < at.readers.size() && at.readers[self]);
  double ns = takes.hit + (how == access::change ? takes.locked : 0);
  if (reads ? !holds : (!owns || at.shared)) {
    // Those that want it as their own wait for each other; copies of what is shared come at once.
    const picoseconds from = std::max(at.busy, running_->time);
    const picoseconds there = from + static_cast<picoseconds>(way_to(at, self, reads) * 1000);
    if (!reads || !at.shared) at.busy = there;
    const picoseconds waited = there - running_->time;
    ns += static_cast<double>(waited) / 1000;
    waited_at_[{from_where.file_name(), from_where.line()}] += waited;
  }
  if (!at.touched || !reads) at.owner = self;
  at.touched = true;
  if (!reads) {
    at.shared = false;
    at.readers.clear();
  } else if (!holds) {
    at.shared = true;
    if (at.readers.size() <= self) at.readers.resize(self + 1);
    at.readers[self] = true;
  }
  advance(ns);
}

std::vector<machine::place> machine::places() const {
  std::map<std::string, picoseconds> all;  // a header is of many files
  for (const auto& [at, waited] : waited_at_) {
    const std::string_view file = at.first;
    const std::size_t root = file.rfind("executor/");
    all[std::string(file.substr(root == file.npos ? 0 : root)) + ':' + std::to_string(at.second)] +=
        waited;
  }
  std::vector<place> result;
  for (const auto& [name, waited] : all) result.push_back({waited, name});
  std::sort(result.begin(), result.end(),
            [](const place& one, const place& other) { return one.waited > other.waited; });
  return result;
}

void machine::yield() noexcept {
  step("yields", std::source_location::current());
}

void machine::compute(nanoseconds span) noexcept {
  advance(static_cast<double>(span));
}

void machine::spend(double ns) noexcept {
  if (running_ != nullptr) advance(ns);
}

bool machine::wait(const void* key, nanoseconds deadline, const char* /*what*/) noexcept {
  thread* const self = running_;
  self->waits_for = key;
  self->sleeps = ++sleeps_;
  self->timed_out = false;
  if (deadline != never) {
    at(deadline, [this, self, sleep = self->sleeps] {
      if (self->now != thread::state::waiting || self->sleeps != sleep) return;
      self->timed_out = true;
      go_on(*self);
    });
  }
  self->now = thread::state::waiting;
  self->stack.leave();
  return !self->timed_out;
}

/// What it waited for has happened: it runs a moment later.
void machine::go_on(thread& sleeper) noexcept {
  sleeper.waits_for = nullptr;
  sleeper.now = thread::state::runnable;
  const double latency = takes.wake_up * (0.75 + random.below(512) / 1024.0);
  const picoseconds present = running_ == nullptr ? clock_.now() * 1000 : running_->time;
  const picoseconds began = sleeper.time;
  sleeper.time = std::max(began, present) + static_cast<picoseconds>(latency * 1000);
  sleeper.waited += sleeper.time - began;
  runnable_.emplace(sleeper.time, &sleeper);
  turn_ends_ = std::min(turn_ends_, sleeper.time);
  if (running_ != nullptr) running_->time += static_cast<picoseconds>(takes.wake * 1000);
}

bool machine::wake(const void* key) noexcept {
  thread* first = nullptr;
  for (const auto& each : threads_) {
    if (each->now != thread::state::waiting || each->waits_for != key) continue;
    if (first == nullptr || each->sleeps < first->sleeps) first = each.get();
  }
  if (first != nullptr) go_on(*first);
  return first != nullptr;
}

bool machine::wake(thread& sleeper) noexcept {
  if (sleeper.now != thread::state::waiting) return false;
  go_on(sleeper);
  return true;
}

void machine::at(nanoseconds when, std::function<void()> action) {
  clock_.at(when, std::move(action));
  turn_ends_ = std::min(turn_ends_, when * 1000);
}

void machine::fail(const std::string& check, const std::string& message) {
  std::cerr << "FAILED " << check << ": " << message << " (at " << now() / microsecond
            << " us of virtual time)\n";
  for (const auto& each : threads_) {
    constexpr const char* names[] = {"runs", "waits", "has ended"};
    std::cerr << "  " << each->name << ' ' << names[static_cast<unsigned>(each->now)] << '\n';
  }
  std::_Exit(1);
}

}  // namespace bwos::simulation
