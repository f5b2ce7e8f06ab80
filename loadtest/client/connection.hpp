// SPDX-License-Identifier: Apache-2.0
// One keep-alive connection: requests go out when told, answers come back in order.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "outcome.hpp"
#include "response_parser.hpp"

namespace bwos::load {

struct request_class;

// The bytes of the requests that a class sends at once.
std::string request_text(const request_class& which, const sockaddr_in& target);

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

  // Connects, waiting for it; throws std::system_error. `requests` is of `which`, the class of that
  // index, and must outlive the connection.
  connection(const sockaddr_in& target, const std::string& requests, const request_class& which,
             std::size_t class_index);
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection();

  int fd() const noexcept { return fd_; }
  std::size_t class_index() const noexcept { return class_index_; }

  // Sends the class's burst of requests that was due at `due_ns`. What the socket does not take
  // waits for on_writable, which an edge-triggered set reports.
  void send_requests(std::int64_t due_ns, const window& measured, outcome& into);
  // `ended`: the set reported the peer's end, of which no later edge will tell. True when it
  // stopped, out of fairness to the requests that are due, before the socket was empty.
  [[nodiscard]] bool on_readable(bool ended, const window& measured, outcome& into);
  void on_writable(const window& measured, outcome& into);

  // Counts what was never answered.
  void finish(const window& measured, outcome& into) const;

  std::size_t outstanding() const noexcept { return due_.size(); }

 private:
  void write(std::string_view bytes, const window& measured, outcome& into);
  bool take_answers(std::string_view bytes, std::int64_t now, const window& measured,
                    outcome& into);
  void give_up(failure kind, const window& measured, outcome& into);

  int fd_ = -1;
  const std::string& requests_;
  unsigned burst_;
  std::int64_t length_bytes_;
  std::size_t class_index_;
  std::deque<std::int64_t> due_;  // of the requests without an answer, oldest first
  std::string unsent_;            // bytes that the socket did not take yet
  response_parser parser_;
};

}  // namespace bwos::load
