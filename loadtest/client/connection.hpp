// SPDX-License-Identifier: Apache-2.0
// A connection that the generator drives: requests go out when told, answers are checked and
// counted.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>

#include "outcome.hpp"

namespace bwos::load {

// Steady clock in ns.
std::int64_t now_ns();

struct window {
  std::int64_t begin_ns;
  std::int64_t end_ns;
  bool contains(std::int64_t due_ns) const { return due_ns >= begin_ns && due_ns < end_ns; }
};

class connection {
 public:
  static constexpr std::size_t outstanding_max = 100'000;  // guessed: 2 s behind at a huge rate

  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  virtual ~connection();

  int fd() const noexcept { return fd_; }

  // What a closed loop sends by itself begins now.
  virtual void begin(const window& measured, outcome& into) = 0;
  // Sends the class's burst of requests that was due at `due_ns`. What the socket does not take
  // waits for on_writable, which an edge-triggered set reports.
  virtual void send_requests(std::size_t class_index, std::int64_t due_ns, const window& measured,
                             outcome& into) = 0;
  // `ended`: the set reported the peer's end, of which no later edge will tell. True when it
  // stopped, out of fairness to the requests that are due, before the socket was empty.
  [[nodiscard]] virtual bool on_readable(bool ended, const window& measured, outcome& into) = 0;
  virtual void on_writable(const window& measured, outcome& into) = 0;

  // Counts what was never answered.
  virtual void finish(const window& measured, outcome& into) const = 0;

  virtual std::size_t outstanding() const noexcept = 0;

 protected:
  // Connects, waiting for it; throws std::system_error.
  explicit connection(const sockaddr_in& target);

  void close() noexcept;

  int fd_ = -1;
};

}  // namespace bwos::load
