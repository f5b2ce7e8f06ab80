// SPDX-License-Identifier: Apache-2.0
// What a call is at: its stream has one state, and its handler has another. Neither tells the
// other: a deadline or a reset ends the stream while the handler runs on, and a request that is
// refused never has a handler.
//
//   stream    what it means                                     what may follow
//   header    the fields of its request come                    request, closed
//   request   the rest of its request comes, or has come        answer, answered, closed
//   answer    the session has the header of an answer           answered, closed
//   answered  the session has the answer's end, or a reset      answered (it is reset), closed
//   closed    the session has forgotten the stream              closed (the connection is lost)
//
//   handler   what it means                                     what may follow
//   none      its coroutine has not been started                running (while at request)
//   running   its coroutine runs, or has suspended              ended
//   ended     its coroutine's result is back, or will not come
//
// The connection's runner changes both and asks for both.
#pragma once

#include <cassert>
#include <cstdint>

namespace bwos::server::rpc {

class call_state {
 public:
  enum class stream : std::uint8_t { header, request, answer, answered, closed };
  enum class handler : std::uint8_t { none, running, ended };

  void enter(stream next) noexcept {
    assert(may_follow(next));
    stream_ = next;
  }
  void enter(handler next) noexcept {
    assert(may_follow(next));
    handler_ = next;
  }

  /// The session knows the stream, and its header is whole.
  [[nodiscard]] bool is_open() const noexcept {
    return stream_ != stream::header && stream_ != stream::closed;
  }
  /// Somebody waits for the end of its answer.
  [[nodiscard]] bool is_wanted() const noexcept {
    return stream_ == stream::request || stream_ == stream::answer;
  }
  [[nodiscard]] bool has_begun_answer() const noexcept { return stream_ == stream::answer; }
  /// Nothing more may be sent.
  [[nodiscard]] bool is_answered() const noexcept { return stream_ >= stream::answered; }
  [[nodiscard]] bool is_running() const noexcept { return handler_ == handler::running; }
  /// Neither the session nor a handler refers to the call any more.
  [[nodiscard]] bool is_over() const noexcept {
    return stream_ == stream::closed && handler_ != handler::running;
  }

 private:
  [[nodiscard]] bool may_follow(stream next) const noexcept {
    if (next == stream::closed) return true;
    if (stream_ == stream::header) return next == stream::request;
    if (next == stream::answer) return stream_ == stream::request && handler_ != handler::none;
    return next == stream::answered && stream_ <= next;
  }
  [[nodiscard]] bool may_follow(handler next) const noexcept {
    if (next == handler::running) return handler_ == handler::none && stream_ == stream::request;
    return next == handler::ended && handler_ == handler::running;
  }

  stream stream_ = stream::header;
  handler handler_ = handler::none;
};

}  // namespace bwos::server::rpc
