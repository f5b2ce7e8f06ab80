// SPDX-License-Identifier: Apache-2.0
#include "http1_connection.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "options.hpp"

namespace bwos::load {

std::string request_text(const request_class& which, const sockaddr_in& target) {
  const bool post = which.post_bytes >= 0;
  std::string text = (post ? "POST " : "GET ") + which.path +
                     " HTTP/1.1\r\nHost: localhost:" + std::to_string(ntohs(target.sin_port)) +
                     "\r\n";
  if (post) {
    text += "Content-Type: text/plain\r\nContent-Length: " + std::to_string(which.post_bytes) +
            "\r\n\r\n" + std::string(static_cast<std::size_t>(which.post_bytes), 'x');
  } else {
    text += "\r\n";
  }
  std::string burst;
  for (unsigned i = 0; i < which.burst; ++i) burst += text;
  return burst;
}

http1_connection::http1_connection(const sockaddr_in& target, const std::string& requests,
                                   const request_class& which, std::size_t class_index)
    : connection(target),
      requests_(requests),
      burst_(which.burst),
      length_bytes_(which.length_bytes),
      class_index_(class_index) {}

void http1_connection::send_requests(std::size_t /*class_index*/, std::int64_t due_ns,
                                     const window& measured, outcome& into) {
  class_outcome& mine = into.classes[class_index_];
  const bool counted = measured.contains(due_ns);
  if (fd_ < 0 || due_.size() >= outstanding_max) {
    if (counted) mine.failed(failure::unsent) += burst_;
    return;
  }
  into.sent_in_all += burst_;
  if (counted) {
    mine.sent += burst_;
    const std::int64_t late_ns = now_ns() - due_ns;
    for (unsigned i = 0; i < burst_; ++i) into.lateness_ns.record(late_ns);
  }
  due_.insert(due_.end(), burst_, due_ns);
  if (unsent_.empty()) {
    write(requests_, measured, into);
  } else {
    unsent_ += requests_;
  }
}

void http1_connection::write(std::string_view bytes, const window& measured, outcome& into) {
  const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return;
  if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    return give_up(failure::reset, measured, into);
  }
  unsent_ = bytes.substr(sent < 0 ? 0 : static_cast<std::size_t>(sent));
}

void http1_connection::on_writable(const window& measured, outcome& into) {
  if (fd_ < 0 || unsent_.empty()) return;
  const std::string pending = std::exchange(unsent_, {});
  write(pending, measured, into);
}

bool http1_connection::on_readable(bool ended, const window& measured, outcome& into) {
  constexpr int reads_max = 4;  // a quarter of a megabyte, well under a millisecond
  std::array<char, 64 * 1024> received;
  for (int reads = 0; reads < reads_max && fd_ >= 0; ++reads) {
    const ssize_t got = ::recv(fd_, received.data(), received.size(), 0);
    if (got > 0) {
      const auto size = static_cast<std::size_t>(got);
      if (!take_answers({received.data(), size}, now_ns(), measured, into)) return false;
      // A short read emptied the socket; what comes later is a new edge.
      if (size < received.size() && !ended) return false;
    } else if (got < 0 && errno == EAGAIN) {
      return false;
    } else if (got == 0 || errno != EINTR) {
      give_up(got == 0 ? failure::closed : failure::reset, measured, into);
    }
  }
  return fd_ >= 0;
}

bool http1_connection::take_answers(std::string_view bytes, std::int64_t now,
                                    const window& measured, outcome& into) {
  class_outcome& mine = into.classes[class_index_];
  while (!bytes.empty()) {
    const response_parser::result result = parser_.feed(bytes);
    if (result == response_parser::result::incomplete) return true;
    if (result == response_parser::result::malformed || due_.empty()) {
      give_up(failure::malformed, measured, into);
      return false;
    }
    const std::int64_t due = due_.front();
    due_.pop_front();
    ++into.answered_in_all;
    const response& answer = parser_.answer();
    const bool length_is_right =
        length_bytes_ < 0 || answer.body_bytes == static_cast<std::uint64_t>(length_bytes_);
    if (measured.contains(due)) {
      ++mine.answered;
      if (answer.status != 200) {
        ++mine.failed(failure::status);
      } else if (!length_is_right) {
        ++mine.failed(failure::length);
      } else {
        mine.latency_ns.record(now - due);
      }
    }
    if (answer.closes) {
      give_up(failure::closed, measured, into);
      return false;
    }
  }
  return true;
}

void http1_connection::give_up(failure kind, const window& measured, outcome& into) {
  close();
  std::uint64_t& lost = into.classes[class_index_].failed(kind);
  for (const std::int64_t due : due_) {
    if (measured.contains(due)) ++lost;
  }
  due_.clear();
  unsent_.clear();
}

void http1_connection::finish(const window& measured, outcome& into) const {
  for (const std::int64_t due : due_) {
    if (measured.contains(due)) ++into.classes[class_index_].outstanding;
  }
}

}  // namespace bwos::load
