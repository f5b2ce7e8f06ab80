// SPDX-License-Identifier: Apache-2.0
// The least of HTTP/1.1 that the load test needs. The C++ peers parse and answer with it, so that
// they differ only in how they wait, read and write. It trusts its clients: no server should copy
// it.
#pragma once

#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/burn.hpp"

namespace bwos::peer {

inline constexpr std::size_t receive_bytes = 16 * 1024;
inline constexpr std::size_t head_bytes_max = 16 * 1024;  // a longer head closes the connection
inline constexpr std::size_t body_bytes_max = 1024 * 1024;

enum class route { plaintext, echo, work, unknown };

struct request {
  route to = route::unknown;
  std::uint64_t work_us = 0;
  std::string_view body;
};

enum class parse_state { complete, incomplete, malformed };

// The number that starts `text`; -1 when there is none.
inline std::int64_t leading_number(std::string_view text) {
  std::int64_t value = -1;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc{} ? value : -1;
}

inline std::int64_t content_length(std::string_view head) {
  for (const std::string_view name : {"\r\nContent-Length:", "\r\ncontent-length:"}) {
    if (const auto at = head.find(name); at != head.npos) {
      std::string_view value = head.substr(at + name.size());
      value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
      return leading_number(value);
    }
  }
  return 0;
}

// One request from the front of `input`; `consumed` is its length when it is complete.
inline parse_state parse(std::string_view input, request& out, std::size_t& consumed) {
  const std::size_t end = input.find("\r\n\r\n");
  if (end == input.npos) {
    return input.size() > head_bytes_max ? parse_state::malformed : parse_state::incomplete;
  }
  consumed = end + 4;
  out = request{};
  if (input.starts_with("GET /plaintext ")) {
    out.to = route::plaintext;
  } else if (input.starts_with("GET /work?us=")) {
    out.to = route::work;
    const std::int64_t us = leading_number(input.substr(13));
    out.work_us = static_cast<std::uint64_t>(std::max<std::int64_t>(us, 0));
  } else if (input.starts_with("POST ")) {
    const std::int64_t length = content_length(input.substr(0, end));
    if (length < 0 || static_cast<std::size_t>(length) > body_bytes_max) {
      return parse_state::malformed;
    }
    if (input.size() - consumed < static_cast<std::size_t>(length)) return parse_state::incomplete;
    if (input.starts_with("POST /echo ")) out.to = route::echo;
    out.body = input.substr(consumed, static_cast<std::size_t>(length));
    consumed += out.body.size();
  }
  return parse_state::complete;
}

// Answers, canned where they can be; with a Date header they are built once a second. One a thread.
class answers {
 public:
  explicit answers(bool with_date) : with_date_(with_date) { build(0); }

  // Call once per batch of requests: the coarse clock is a read of memory.
  void refresh() {
    if (!with_date_) return;
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &time);
    if (time.tv_sec != second_) build(time.tv_sec);
  }

  void append(const request& asked, std::string& out) const {
    switch (asked.to) {
      case route::work:
        burn_thread_cpu(asked.work_us);
        [[fallthrough]];
      case route::plaintext:
        out += plaintext_;
        return;
      case route::echo: {
        std::array<char, 24> digits;
        const auto end = std::to_chars(digits.begin(), digits.end(), asked.body.size()).ptr;
        out += head_;
        out.append(digits.begin(), end);
        out += "\r\n\r\n";
        out += asked.body;
        return;
      }
      case route::unknown:
        out += "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    }
  }

 private:
  void build(time_t second) {
    second_ = second;
    head_ = "HTTP/1.1 200 OK\r\n";
    if (with_date_) {
      std::array<char, 64> text;
      tm parts{};
      ::gmtime_r(&second, &parts);
      head_.append(text.data(), std::strftime(text.data(), text.size(),
                                              "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts));
    }
    head_ += "Content-Type: text/plain\r\nContent-Length: ";
    plaintext_ = head_ + "13\r\n\r\nHello, World!";
  }

  bool with_date_;
  time_t second_ = 0;
  std::string head_;
  std::string plaintext_;
};

// Answers every complete request at the front of `input` into `out`. Returns the bytes consumed;
// `malformed` is set when the connection cannot go on.
inline std::size_t answer_all(std::string_view input, answers& with, std::string& out,
                              bool& malformed) {
  with.refresh();
  std::size_t done = 0;
  request next;
  while (done < input.size()) {
    std::size_t consumed = 0;
    const parse_state state = parse(input.substr(done), next, consumed);
    if (state == parse_state::malformed) malformed = true;
    if (state != parse_state::complete) break;
    with.append(next, out);
    done += consumed;
  }
  return done;
}

}  // namespace bwos::peer
