// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llhttp/llhttp.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "http/h1/line_scan.hpp"
#include "http/limits.hpp"
#include "http/message.hpp"
#include "net/byte_buffer.hpp"
#include "net/memory_budget.hpp"

namespace bwos::server::h1 {

/// Requests out of a connection's bytes, one at a time. Knows no socket. A request that lies whole
/// in one input is described by views into that input; of one that does not, head and body are
/// gathered in a buffer of the parser's own, which exists only until release(). A parser that
/// is_unused() may serve another connection.
///
/// Takes what RFC 9112 allows and nothing that another reader of the same bytes could divide
/// otherwise. llhttp reads; a head only once it is whole, so that what is refused, and how, does
/// not depend on how the input was cut. What llhttp lets pass is checked before (line_scan.hpp) or
/// at the head's end (judge()).
///
/// Stays where it is (llhttp's callbacks find it by its address). After `refused` it must not be
/// fed again.
class parser : private llhttp_t {
 public:
  enum class outcome : std::uint8_t { request, incomplete, refused };
  struct result {
    outcome what;
    std::size_t consumed;  ///< Bytes of the input that are done with; all of them for `incomplete`.
  };
  enum class phase : std::uint8_t { idle, header, body };

  /// `memory` is charged for what is gathered. Both must outlive its use.
  parser(const http_limits& limits, memory_account& memory) noexcept;
  parser(const parser&) = delete;
  parser& operator=(const parser&) = delete;

  /// From now on it reads another connection's. It is_unused().
  void serve(const http_limits& limits, memory_account& memory) noexcept {
    limits_ = &limits;
    memory_ = &memory;
  }

  /// Reads up to the end of one request. The input is not empty; it need not outlive the call
  /// unless the outcome is `request`.
  result feed(std::string_view input);

  /// Where the rest of a body may be received, to be fed from there without being copied. Empty:
  /// it is small, or nobody knows how much comes, or there is no memory. Throws std::bad_alloc.
  [[nodiscard]] std::span<std::byte> room();
  /// Whether the input, which is not fed yet, was received there.
  [[nodiscard]] bool is_in_room(std::string_view input) noexcept {
    return gathering_ && phase_ == phase::body && is_gathered(input.data(), input.size());
  }

  /// The request just read, valid until release() as long as the input is.
  [[nodiscard]] const request& current() const noexcept { return request_; }
  [[nodiscard]] bool keep_alive() const noexcept { return keep_alive_; }
  [[nodiscard]] bool http_1_0() const noexcept { return http_minor == 0; }

  /// Makes the request just read independent of the input, until release().
  void hold();

  /// After `refused`: the status to answer with before the connection closes.
  [[nodiscard]] status refusal() const noexcept { return refusal_; }

  /// What was gathered of the request: its views stay valid as long as this does, also behind
  /// release().
  [[nodiscard]] byte_buffer take_gathered() noexcept { return std::move(gathered_); }

  /// The request is answered: frees what was gathered of it, and makes ready for the next one.
  void release() noexcept;

  /// Where the next byte will belong.
  [[nodiscard]] phase where() const noexcept { return phase_; }

  /// Nothing of a request has come, not even a part of an empty line before it. Says nothing of a
  /// parser that has refused one, or whose request was its connection's last.
  [[nodiscard]] bool is_unused() const noexcept {
    return phase_ == phase::idle && !half_empty_line_;
  }

  /// The peer waits for "100 Continue" before it sends the body.
  [[nodiscard]] bool wants_continue() const noexcept {
    return (seen_ & expects_continue) != 0 && phase_ == phase::body && body_.length == 0;
  }
  void continue_sent() noexcept { seen_ &= static_cast<std::uint8_t>(~expects_continue); }

 private:
  friend struct callbacks;

  enum class field : std::uint8_t { other, host, expect, content_type, transfer_encoding };

  /// What the head's fields said.
  enum seen : std::uint8_t {
    host = 1,
    bad_host = 2,      // or a second one
    coded = 4,         // has a Transfer-Encoding
    other_coding = 8,  // than a single "chunked"
    expects_continue = 16,
    expects_other = 32,
  };

  /// A part of the request: where it begins behind base_, and its length. Head and body together
  /// stay below 4 GiB (the ranges in config.cpp).
  struct part {
    std::uint32_t begin = 0;
    std::uint32_t length = 0;
  };
  static std::uint32_t narrow(std::size_t bytes) noexcept {
    return static_cast<std::uint32_t>(bytes);
  }

  outcome read_head(std::string_view& rest);
  outcome read_body(std::string_view& rest);
  outcome read_trailers(std::string_view& rest);
  outcome run(std::string_view& rest);
  [[gnu::cold]] outcome keep(std::string_view& rest, line_scan::outcome what, bool new_line);
  [[gnu::cold]] outcome has_stopped(llhttp_errno_t error, std::string_view& rest);
  outcome refuse(status why) noexcept;
  [[gnu::cold]] bool skip_empty_lines(std::string_view& rest) noexcept;
  bool split_target() noexcept;
  [[gnu::cold]] bool skip_authority() noexcept;
  [[nodiscard, gnu::cold]] status judge_failure() const noexcept;
  status judge() noexcept;
  [[gnu::cold]] status judge_fields() noexcept;
  [[nodiscard]] bool has_plain_request_line() const noexcept;
  int fail(status why) noexcept;
  void note(seen what) noexcept { seen_ = static_cast<std::uint8_t>(seen_ | what); }
  /// `again` where `what` was noted before.
  void note(seen what, seen again) noexcept { note((seen_ & what) != 0 ? again : what); }
  int take_body(const char* at, std::size_t length);
  [[nodiscard]] std::size_t room_for(std::size_t bytes) const noexcept;
  [[nodiscard]] bool make_room(std::size_t bytes);
  [[nodiscard]] bool is_gathered(const char* at, std::size_t length) noexcept;
  [[nodiscard]] bool gather();
  void gather_parts();
  void describe() noexcept;
  [[nodiscard]] part part_of(const char* at, std::size_t length) const noexcept {
    return {narrow(static_cast<std::size_t>(at - base_)), narrow(length)};
  }
  [[nodiscard]] std::string_view view(part of) const noexcept {
    return {base_ + of.begin, of.length};
  }

  const http_limits* limits_;
  memory_account* memory_;
  const char* base_ = nullptr;  // of the parts: the head's first byte, or gathered_'s
  byte_buffer gathered_;        // the head if it was cut, or its parts; behind them the body
  part path_;                   // until the head's end: the whole target
  part query_;
  part content_type_;
  part body_;
  std::size_t trailing_bytes_ = 0;  // chunk extensions and trailers
  line_scan lines_;                 // of the head, then of the trailers
  phase phase_ = phase::idle;
  status refusal_ = status::bad_request;
  field field_ = field::other;
  std::uint8_t seen_ = 0;
  bool half_empty_line_ = false;  // between requests: a carriage return came
  bool gathering_ = false;        // base_ is gathered_'s
  bool trailers_ = false;         // the last chunk was read
  bool keep_alive_ = false;
  bool complete_ = false;
  request request_;
};

}  // namespace bwos::server::h1
