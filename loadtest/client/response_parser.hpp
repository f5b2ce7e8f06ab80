// SPDX-License-Identifier: Apache-2.0
// Cuts a byte stream into HTTP/1.1 answers: status and body length. Bodies are counted, not kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bwos::load {

struct response {
  int status = 0;
  std::uint64_t body_bytes = 0;
  bool closes = false;  // the server said `Connection: close`
};

class response_parser {
 public:
  static constexpr std::size_t head_bytes_max = 64 * 1024;

  enum class result {
    complete,    // `answer()` is whole; `bytes` begins with what follows it
    incomplete,  // all of `bytes` was taken; more must come
    malformed    // not an answer with a Content-Length: the connection is of no further use
  };

  // Takes from the front of `bytes`, which may end anywhere.
  result feed(std::string_view& bytes);

  const response& answer() const noexcept { return answer_; }

 private:
  bool parse_head(std::string_view head);
  result take_body(std::string_view& bytes);

  std::string partial_head_;  // empty unless a head was split between two reads
  response answer_;
  std::uint64_t body_left_ = 0;
  bool in_body_ = false;
};

}  // namespace bwos::load
