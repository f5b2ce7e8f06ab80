// SPDX-License-Identifier: Apache-2.0
// What the runner of a connection and the handler of a streaming call pass each other: messages of
// the request one way, bytes of the answer the other way, each with its limit.
//
// Roles. The runner: the connection's, one thread at a time; it alone calls the session. The
// handler: the call's coroutine, one thread at a time; that may be the runner's own, beneath it
// (then it is `here`), or another. Whoever notifies: any thread, while the handler has not ended.
// State: all of it under mutex_, but what is the handler's alone. A call of few messages has two or
// three turns of an uncontended lock; a unary call has no message_pipe.
//
// INVARIANTS
// E1  The handler waits (waiter_) only for what it has looked for under the lock in vain. Whoever
//     brings that takes the waiter out under the lock, so it goes on once.
// E2  A handler that is not here and leaves something for the runner (bytes written, bytes read,
//     its end) finds told_, or sets it and pushes the call on the inbox, once, behind the lock. The
//     runner resets it when it has taken the call from the inbox, before it looks. So what is left
//     is seen, and a call is in the inbox at most once.
// E3  The runner ends the call only when it sees ended_ and the call is not in the inbox. After it
//     has set ended_, and pushed if that is its turn, the handler touches nothing any more. So the
//     call may be freed then. (Its last act is to unlock or to push; a mutex may be destroyed by
//     who locked it after that.)
// E4  A handler that is `here` stops when its connection's turn is over, though it could read or
//     write: it waits for what is there (left::paused), and the runner resumes it with the next
//     turn. One that was just resumed reads or writes at least once, so each turn gets on.
// E5  Of the request: whole_bytes not read, and what of the next message has come, are what the
//     peer's window lets it send. Of the answer: at most unsent_bytes_max wait, or one message.
// E6  What the handler has written and the runner has not collected, and the message that it waits
//     to write, are charged to the connection's account in granules, under the lock; before that
//     the message is the handler's alone. What the runner collects, the session has charged.
// Memory order: the mutex's alone; a waiter that the runner posts or runs was stored under it. The
// handler's own members go from thread to thread with its coroutine.
// Test: message_pipe_test.cpp
#pragma once

#include <bwos/waiter.hpp>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grpc/compression.hpp"
#include "grpc/messages.hpp"
#include "grpc/status.hpp"
#include "http/h2/session.hpp"

namespace bwos::server::rpc {

class call;

/// Bytes that a handler may have written and the peer not taken (gRPC C++'s write buffer).
inline constexpr std::size_t unsent_bytes_max = 64 * 1024;
/// Bytes that it may have read before the runner, who lets the peer send more, is told.
inline constexpr std::size_t untold_bytes_max = 64 * 1024;

class message_pipe final : public rpc::message_stream {
 public:
  explicit message_pipe(call& of) noexcept : call_(of) {}
  ~message_pipe() = default;

  // The handler.
  [[nodiscard]] rpc::step try_read(google::protobuf::MessageLite& into) override;
  [[nodiscard]] bool wait_to_read(coroutine_waiter& waiting) override;
  [[nodiscard]] rpc::step try_write(const google::protobuf::MessageLite& from,
                                    bool compressed) override;
  [[nodiscard]] bool wait_to_write(const google::protobuf::MessageLite& from, bool compressed,
                                   coroutine_waiter& waiting) override;
  /// The only reply of a call, or the last: it waits for nothing.
  void write_last(const google::protobuf::MessageLite& from);
  /// Awaitables: until notify(), before or after; until nobody wants anything any more. The former
  /// ends with the latter, too.
  [[nodiscard]] auto notice() noexcept { return pause(*this, wait::notice); }
  [[nodiscard]] auto end_of_call() noexcept { return pause(*this, wait::end); }
  /// Of one that is_bad(): how the call ends.
  [[nodiscard]] const rpc::status& why_bad() const noexcept { return why_bad_; }
  /// It has ended. True: the caller pushes the call on the inbox.
  [[nodiscard]] bool end() noexcept;

  /// Any thread, while the handler has not ended: it goes on with notice().
  void notify() noexcept;

  // The runner.
  /// Of a message: its prefix, if it begins here, and bytes of its body. True: the handler has
  /// waited for it.
  [[nodiscard]] bool bring(std::span<const std::byte> prefix, std::span<const std::byte> body,
                           bool whole);
  /// No more messages. True: as above.
  [[nodiscard]] bool bring_end() noexcept;
  /// So many bytes of the answer are gone. True: as above.
  [[nodiscard]] bool sent(std::size_t bytes) noexcept;
  /// Nobody wants anything any more. Who waited, if somebody did: it is to go on.
  [[nodiscard]] coroutine_waiter* cancel() noexcept;
  /// Who waits for what is there now; null: nobody.
  [[nodiscard]] coroutine_waiter* take_ready() noexcept;
  /// When no thread comes here any more: who waits.
  [[nodiscard]] coroutine_waiter* take_waiter() noexcept;
  /// Runs it, `here`. The call stays.
  void resume(coroutine_waiter& which) noexcept;
  template <class Run>
  auto run_here(Run run) noexcept;

  struct left {
    std::size_t read = 0;  ///< Bytes of messages that were read.
    bool ended = false;    ///< And is in no inbox.
    bool paused = false;   ///< It waits for what is there (E4).
  };
  /// What the handler has left. Bytes of the answer are swapped with `written`, which is empty.
  [[nodiscard]] left collect(std::string& written, bool from_inbox) noexcept;
  /// Whole messages are here that have not been read.
  [[nodiscard]] bool has_unread() noexcept;
  /// The handler has ended, and what it had written was collected or is not wanted.
  void give_back_charge() noexcept;
  /// Nothing that was written has yet to be collected, and what the handler was notified of it has
  /// done.
  [[nodiscard]] bool is_settled() noexcept;

 private:
  enum class wait : std::uint8_t { none, read, write, notice, end };

  class pause : coroutine_waiter {
   public:
    pause(message_pipe& of, wait what) noexcept : of_(of), what_(what) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> waiting) noexcept {
      set(waiting);
      return of_.wait_for(what_, *this);
    }
    void await_resume() const noexcept {}

   private:
    message_pipe& of_;
    const wait what_;
  };

  [[nodiscard]] bool wait_for(wait what, coroutine_waiter& waiting) noexcept;
  [[nodiscard]] bool is_here() const noexcept;
  [[nodiscard]] bool pauses() noexcept;
  void forget_read();
  void tell(std::unique_lock<std::mutex>& held) noexcept;
  [[nodiscard]] bool fits(std::size_t bytes) const noexcept {
    return unsent_ == 0 || unsent_ + bytes <= unsent_bytes_max;
  }
  [[nodiscard]] bool is_ready() const noexcept;
  [[nodiscard]] bool charge(std::size_t bytes) noexcept;
  [[nodiscard]] bool pack(const google::protobuf::MessageLite& from);
  [[nodiscard]] rpc::step write(const google::protobuf::MessageLite& from, bool compressed,
                                bool waits);

  call& call_;
  std::mutex mutex_;
  std::string in_;            // of the request: whole messages, and the beginning of one
  std::size_t in_whole_ = 0;  // bytes of the former
  std::string out_;           // of the answer
  std::size_t unread_ = 0;    // bytes of whole messages: in in_, or reading_
  std::size_t read_ = 0;      // since the runner collected
  std::size_t unsent_ = 0;    // in out_, or the session
  std::size_t wants_ = 0;     // room, who waits to write; else 0
  std::size_t charged_ = 0;   // for out_, and what waits to be written (E6)
  coroutine_waiter* waiter_ = nullptr;
  wait waits_for_ = wait::none;
  bool no_more_ = false;
  bool noticed_ = false;
  bool over_ = false;
  bool told_ = false;
  bool ended_ = false;

  // The handler's own.
  std::string reading_;       // whole messages
  std::size_t read_to_ = 0;   // of it
  std::string packed_;        // a message that waits, compressed
  bool is_packed_ = false;    // packed_ is valid
  bool has_resumed_ = false;  // and neither read nor written since
  rpc::status why_bad_;
};

/// The call that the calling thread's runner runs a handler of; null: none.
const message_pipe*& running_here() noexcept;

template <class Run>
auto message_pipe::run_here(Run run) noexcept {
  const message_pipe* const outer = std::exchange(running_here(), this);
  const auto result = run();
  running_here() = outer;
  return result;
}

}  // namespace bwos::server::rpc
