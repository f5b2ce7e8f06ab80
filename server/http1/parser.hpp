// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llhttp/llhttp.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "limits.hpp"
#include "message.hpp"

namespace bwos::server::http1 {

/// Requests out of a connection's bytes, one at a time. Knows no socket. A request that lies whole
/// in one input is described by views into that input; of one that does not, its target, content
/// type and body are gathered in a buffer of the parser's own, which exists only until release().
/// An idle parser holds nothing but itself.
///
/// Stays where it is (llhttp's callbacks find it by its address). After any outcome but `request`
/// and `incomplete` it must not be fed again.
class parser : private llhttp_t {
 public:
  enum class outcome : std::uint8_t {
    request,
    incomplete,
    malformed,
    header_too_large,
    body_too_large
  };
  struct result {
    outcome what;
    std::size_t consumed;  ///< Bytes of the input that are done with; all of them for `incomplete`.
  };
  enum class phase : std::uint8_t { idle, header, body };

  explicit parser(const http_limits& limits) noexcept;
  parser(const parser&) = delete;
  parser& operator=(const parser&) = delete;

  /// Reads up to the end of one request. The input need not outlive the call unless the outcome is
  /// `request`.
  result feed(std::string_view input);

  /// The request just read, valid until release() as long as the input is.
  [[nodiscard]] const request& current() const noexcept { return request_; }
  [[nodiscard]] bool keep_alive() const noexcept { return keep_alive_; }
  [[nodiscard]] bool http_1_0() const noexcept { return http_minor == 0; }

  /// Makes the request just read independent of the input, until release().
  void keep() {
    gather();
    describe();
  }

  /// The request is answered: frees what was gathered of it, and makes ready for the next one.
  void release() noexcept;

  /// Where the next byte will belong.
  [[nodiscard]] phase where() const noexcept { return phase_; }

  /// The peer waits for "100 Continue" before it sends the body.
  [[nodiscard]] bool wants_continue() const noexcept {
    return expect_matched_ == expect_length && phase_ == phase::body && body_.length == 0;
  }
  void continue_sent() noexcept { expect_matched_ = 0; }

 private:
  friend struct callbacks;

  static constexpr std::uint8_t expect_length = 12;  // of "100-continue"
  enum class field : std::uint8_t { other, host, expect, content_type };

  /// A part of the request: where it begins, in the input or in gathered_, and its length.
  struct part {
    std::size_t begin = 0;
    std::size_t length = 0;
  };

  int fail(outcome why) noexcept;
  int take(part& to, const char* at, std::size_t length);
  int count_header(const char* end) noexcept;
  void gather();
  void describe() noexcept;
  [[nodiscard]] std::string_view view(part of) const noexcept {
    return {base_ + of.begin, of.length};
  }

  const http_limits& limits_;
  const char* input_ = nullptr;  // of the present feed()
  const char* base_ = nullptr;   // of the parts: input_, or gathered_'s bytes
  std::string gathered_;         // target, content type, body: in the order in which they come
  part target_;
  part content_type_;
  part body_;
  std::size_t header_bytes_ = 0;    // in earlier inputs
  std::size_t trailing_bytes_ = 0;  // chunk extensions and trailers
  phase phase_ = phase::idle;
  outcome failure_ = outcome::malformed;
  field field_ = field::other;
  std::uint8_t name_matched_ =
      0;  // bytes of the present field's name, as far as they match field_'s
  std::uint8_t hosts_ = 0;
  std::uint8_t expect_matched_ = 0;
  bool gathering_ = false;
  bool keep_alive_ = false;
  bool complete_ = false;
  request request_;
};

}  // namespace bwos::server::http1
