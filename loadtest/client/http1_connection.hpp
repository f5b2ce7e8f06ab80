// SPDX-License-Identifier: Apache-2.0
// A keep-alive connection of one class: answers come back in order.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "connection.hpp"
#include "response_parser.hpp"

namespace bwos::load {

struct request_class;

// The bytes of the requests that a class sends at once.
std::string request_text(const request_class& which, const sockaddr_in& target);

class http1_connection final : public connection {
 public:
  // Throws as connection does. `requests` is of `which`, the class of that index, and must outlive
  // the connection.
  http1_connection(const sockaddr_in& target, const std::string& requests,
                   const request_class& which, std::size_t class_index);

  void begin(const window& /*measured*/, outcome& /*into*/) override {}
  void send_requests(std::size_t class_index, std::int64_t due_ns, const window& measured,
                     outcome& into) override;
  bool on_readable(bool ended, const window& measured, outcome& into) override;
  void on_writable(const window& measured, outcome& into) override;
  void finish(const window& measured, outcome& into) const override;
  std::size_t outstanding() const noexcept override { return due_.size(); }

 private:
  void write(std::string_view bytes, const window& measured, outcome& into);
  bool take_answers(std::string_view bytes, std::int64_t now, const window& measured,
                    outcome& into);
  void give_up(failure kind, const window& measured, outcome& into);

  const std::string& requests_;
  unsigned burst_;
  std::int64_t length_bytes_;
  std::size_t class_index_;
  std::deque<std::int64_t> due_;  // of the requests without an answer, oldest first
  std::string unsent_;            // bytes that the socket did not take yet
  response_parser parser_;
};

}  // namespace bwos::load
