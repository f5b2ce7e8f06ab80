// SPDX-License-Identifier: Apache-2.0
#include "generator.hpp"

#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <functional>
#include <memory>
#include <queue>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "connection.hpp"
#include "h2_connection.hpp"
#include "http1_connection.hpp"

namespace bwos::load {
namespace {

std::int64_t in_ns(double seconds) {
  return std::llround(seconds * 1e9);
}

void wait_for(std::int64_t when_ns) {
  const timespec when{when_ns / 1'000'000'000, when_ns % 1'000'000'000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR) {
  }
}

double thread_cpu_s() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// What each class sends; of its protocol's member only.
struct request_bytes {
  std::vector<std::string> http1;
  std::vector<h2_request> h2;
};

// One thread's share: connections, when each is due next, and what came of it.
class generator {
 public:
  generator(const options& with, const request_bytes& requests, unsigned index)
      : drain_ns_(in_ns(with.drain_s)), spins_(with.spin) {
    set_ = ::epoll_create1(EPOLL_CLOEXEC);
    if (set_ < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
    result_.classes.resize(with.classes.size());
    result_.drained = with.drain_s > 0;
    std::vector<std::vector<std::size_t>> mine(with.classes.size());  // connections by class
    std::uint64_t number = 0;  // of a connection among all: whose share it is
    for (std::size_t c = 0; c < with.classes.size(); ++c) {
      if (!with.classes[c].over.empty()) continue;
      for (unsigned i = 0; i < with.classes[c].connections; ++i, ++number) {
        if (number % with.threads != index) continue;
        mine[c].push_back(connections_.size());
        add(connect(with, requests, c));
      }
    }
    for (std::size_t c = 0; c < with.classes.size(); ++c) {
      const request_class& which = with.classes[c];
      if (which.rate == 0) continue;
      const std::size_t carrier = carrier_of(with.classes, c);
      const double rate = which.rate / with.classes[carrier].connections / which.burst;
      std::uint64_t seed = (with.seed * 1'009 + c) * 1'000'003 + index;
      for (const std::size_t each : mine[carrier]) {
        sources_.push_back({connections_[each].get(), c, arrivals(with.arrivals, rate, seed)});
        seed += with.threads;
      }
    }
  }
  generator(const generator&) = delete;
  generator& operator=(const generator&) = delete;
  ~generator() { ::close(set_); }

  void run(std::int64_t start_ns, const window& measured) {
    // Without this the kernel may end a wait 50 us late to save wake-ups.
    ::prctl(PR_SET_TIMERSLACK, 1UL);
    measured_ = measured;
    wait_for(start_ns);
    for (const auto& each : connections_) each->begin(measured_, result_);
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      schedule(i, static_cast<double>(start_ns) + sources_[i].when.first_gap_ns());
    }
    double cpu_at_begin = thread_cpu_s();
    while (now_ns() < measured.end_ns) {
      if (now_ns() < measured.begin_ns) cpu_at_begin = thread_cpu_s();
      send_due();
      wait_until(due_.empty() ? measured.end_ns : due_.top().at_ns());
    }
    send_due();  // a thread that comes late to the end still owes what was due before it
    result_.client_cpu_s = thread_cpu_s() - cpu_at_begin;
    const std::int64_t give_up_ns = measured.end_ns + drain_ns_;
    while (anything_outstanding() && now_ns() < give_up_ns) wait_until(give_up_ns);
    for (const auto& each : connections_) each->finish(measured_, result_);
  }

  const outcome& result() const { return result_; }

 private:
  // The arrivals of a class on a connection.
  struct source {
    connection* to;
    std::size_t class_index;
    arrivals when;
  };

  struct entry {
    double due_ns;  // kept as a double: rounding each gap would shift the rate
    std::size_t source;
    std::int64_t at_ns() const { return static_cast<std::int64_t>(due_ns); }
    bool operator>(const entry& other) const { return due_ns > other.due_ns; }
  };

  static std::unique_ptr<connection> connect(const options& with, const request_bytes& requests,
                                             std::size_t c) {
    const request_class& which = with.classes[c];
    if (which.protocol == protocol_kind::http1) {
      return std::make_unique<http1_connection>(with.target, requests.http1[c], which, c);
    }
    return std::make_unique<h2_connection>(with.target, requests.h2, with.classes, c);
  }

  void add(std::unique_ptr<connection> made) {
    connections_.push_back(std::move(made));
    watch(EPOLL_CTL_ADD, connections_.size() - 1);
  }

  void watch(int operation, std::uint64_t which) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.u64 = which;
    if (::epoll_ctl(set_, operation, connections_[which]->fd(), &event) != 0) {
      throw std::system_error(errno, std::generic_category(), "epoll_ctl");
    }
  }

  // Requests due after the window are never sent, so they are not scheduled either.
  void schedule(std::size_t source, double due_ns) {
    const entry next{due_ns, source};
    if (next.at_ns() < measured_.end_ns) due_.push(next);
  }

  // Ends: each pass moves one entry on by a gap, and entries past the window are dropped.
  void send_due() {
    while (!due_.empty() && due_.top().at_ns() <= now_ns()) {
      const entry now = due_.top();
      due_.pop();
      source& from = sources_[now.source];
      from.to->send_requests(from.class_index, now.at_ns(), measured_, result_);
      schedule(now.source, now.due_ns + from.when.next_gap_ns());
    }
  }

  void wait_until(std::int64_t when_ns) {
    const std::int64_t left =
        spins_ ? 0 : std::max<std::int64_t>(0, std::min(when_ns, next_turn_ns()) - now_ns());
    timespec timeout{};
    timeout.tv_sec = left / 1'000'000'000;
    timeout.tv_nsec = left % 1'000'000'000;
    std::array<epoll_event, 64> events;
    const int ready =
        ::epoll_pwait2(set_, events.data(), static_cast<int>(events.size()), &timeout, nullptr);
    if (ready < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "epoll_pwait2");
    }
    for (int i = 0; i < ready; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      connection& to = *connections_[event.data.u64];
      if ((event.events & EPOLLOUT) != 0) to.on_writable(measured_, result_);
      const bool ended = (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
      if ((ended || (event.events & EPOLLIN) != 0) && to.on_readable(ended, measured_, result_)) {
        watch(EPOLL_CTL_MOD, event.data.u64);  // reports what is still there as a new edge
      }
      // Answers can wait, requests cannot: a batch of 64 reads takes 100 us or more.
      send_due();
    }
  }

  // The window's two ends are moments at which the loop must look round.
  std::int64_t next_turn_ns() const {
    const std::int64_t now = now_ns();
    if (now < measured_.begin_ns) return measured_.begin_ns;
    return now < measured_.end_ns ? measured_.end_ns : measured_.end_ns + drain_ns_;
  }

  bool anything_outstanding() const {
    return std::any_of(connections_.begin(), connections_.end(),
                       [](const auto& each) { return each->outstanding() > 0; });
  }

  std::int64_t drain_ns_;
  bool spins_;
  int set_ = -1;
  window measured_{};
  std::vector<std::unique_ptr<connection>> connections_;
  std::vector<source> sources_;
  std::priority_queue<entry, std::vector<entry>, std::greater<>> due_;
  outcome result_;
};

// Threads started later inherit it.
void set_realtime(int priority) {
  sched_param parameters{};
  parameters.sched_priority = priority;
  if (::sched_setscheduler(0, SCHED_FIFO, &parameters) != 0) {
    const int error = errno;
    throw std::system_error(
        error, std::generic_category(),
        "--realtime " + std::to_string(priority) + " is refused with " + ::strerrorname_np(error));
  }
}

}  // namespace

outcome run(const options& with) {
  if (with.realtime > 0) set_realtime(with.realtime);
  request_bytes requests;
  for (const request_class& which : with.classes) {
    const bool http1 = which.protocol == protocol_kind::http1;
    requests.http1.push_back(http1 ? request_text(which, with.target) : std::string());
    requests.h2.push_back(http1 ? h2_request() : h2_request_of(which, with.target));
  }
  std::vector<std::unique_ptr<generator>> generators;
  for (unsigned i = 0; i < with.threads; ++i) {
    generators.push_back(std::make_unique<generator>(with, requests, i));
  }
  constexpr std::int64_t head_start_ns = 10'000'000;  // for the threads to be running
  const std::int64_t start_ns = now_ns() + head_start_ns;
  const std::int64_t begin_ns = start_ns + in_ns(with.warmup_s);
  const window measured{begin_ns, begin_ns + in_ns(with.duration_s)};
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < generators.size(); ++i) {
      others.emplace_back([&, i] { generators[i]->run(start_ns, measured); });
    }
    generators[0]->run(start_ns, measured);
  }
  outcome result = generators[0]->result();
  for (std::size_t i = 1; i < generators.size(); ++i) result.merge(generators[i]->result());
  return result;
}

}  // namespace bwos::load
