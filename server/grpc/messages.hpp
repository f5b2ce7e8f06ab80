// SPDX-License-Identifier: Apache-2.0
// Streams of messages, as a handler has them (reader, writer), and what a transport is to them
// (message_stream).
#pragma once

#include <google/protobuf/message_lite.h>

#include <bwos/waiter.hpp>
#include <cstdint>

namespace bwos::server::rpc {

/// `over`: there are no more, or nobody wants them any more.
enum class step : std::uint8_t { done, wait, over };

/// A transport's side of one call. One operation at a time: try, and if that says `wait`, wait, and
/// try again. Lives until the handler has ended.
class message_stream {
 public:
  message_stream(const message_stream&) = delete;
  message_stream& operator=(const message_stream&) = delete;

  [[nodiscard]] virtual step try_read(google::protobuf::MessageLite& into) = 0;
  /// False: try again now. True: `waiting` goes on later, perhaps has already; the caller touches
  /// nothing any more.
  [[nodiscard]] virtual bool wait_to_read(coroutine_waiter& waiting) = 0;
  [[nodiscard]] virtual step try_write(const google::protobuf::MessageLite& from,
                                       bool compressed) = 0;
  [[nodiscard]] virtual bool wait_to_write(const google::protobuf::MessageLite& from,
                                           bool compressed, coroutine_waiter& waiting) = 0;

  /// A message could not be read, or there was no memory for it: reading and writing are over, and
  /// the call ends with what was wrong, whatever its handler says.
  [[nodiscard]] bool is_bad() const noexcept { return bad_; }

 protected:
  message_stream() = default;
  ~message_stream() = default;
  void bad() noexcept { bad_ = true; }

 private:
  bool bad_ = false;
};

namespace detail {

class read_operation : coroutine_waiter {
 public:
  read_operation(message_stream& from, google::protobuf::MessageLite& into) noexcept
      : from_(from), into_(into) {}
  [[nodiscard]] bool await_ready() {
    result_ = from_.try_read(into_);
    return result_ != step::wait;
  }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) {
    set(waiting);
    return from_.wait_to_read(*this);
  }
  [[nodiscard]] bool await_resume() {
    if (result_ == step::wait) result_ = from_.try_read(into_);
    return result_ == step::done;
  }

 private:
  message_stream& from_;
  google::protobuf::MessageLite& into_;
  step result_ = step::wait;
};

class write_operation : coroutine_waiter {
 public:
  write_operation(message_stream& to, const google::protobuf::MessageLite& what,
                  bool compressed) noexcept
      : to_(to), what_(what), compressed_(compressed) {}
  [[nodiscard]] bool await_ready() {
    result_ = to_.try_write(what_, compressed_);
    return result_ != step::wait;
  }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) {
    set(waiting);
    return to_.wait_to_write(what_, compressed_, *this);
  }
  [[nodiscard]] bool await_resume() {
    if (result_ == step::wait) result_ = to_.try_write(what_, compressed_);
    return result_ == step::done;
  }

 private:
  message_stream& to_;
  const google::protobuf::MessageLite& what_;
  const bool compressed_;
  step result_ = step::wait;
};

}  // namespace detail

/// The messages of a caller, in order. The handler's coroutine alone uses it, and one operation of
/// a call (a read or a write) at a time.
template <class Request>
class reader {
 public:
  explicit reader(message_stream& from) noexcept : from_(from) {}

  /// Awaitable of bool. False: the caller has sent its last, or the call is over
  /// (context::is_cancelled()). A message that is here already is read without a wait. While none
  /// is read, the caller can send no more than its window (1 MiB, native). Throws std::bad_alloc.
  [[nodiscard]] auto read(Request& into) noexcept { return detail::read_operation(from_, into); }

 private:
  message_stream& from_;
};

/// The messages to a caller, in order. As reader.
template <class Reply>
class writer {
 public:
  explicit writer(message_stream& to) noexcept : to_(to) {}

  /// Awaitable of bool. False: nobody wants it any more (context::is_cancelled()). Waits while
  /// the caller takes nothing and 64 KiB are on their way. `compressed`: if the call's replies are
  /// (context::compress_replies()), this one, too. Throws std::bad_alloc.
  [[nodiscard]] auto write(const Reply& what, bool compressed = true) noexcept {
    return detail::write_operation(to_, what, compressed);
  }

 private:
  message_stream& to_;
};

}  // namespace bwos::server::rpc
