// SPDX-License-Identifier: Apache-2.0
// The memory that the requests of one connection take beyond its window (--h2-request-bytes-max):
// unfinished messages for which the peer was given more window, and messages, as large as they are
// expanded, until their handlers have ended. All of it is charged to the connection's account, too,
// so that the server's budget (--memory-max) bounds it with all else.
//
// Roles. Any thread that runs a handler of the connection, and its runner, take and give back.
// INVARIANT
// B1  taken_ is the sum of what was taken and not given back; it never exceeds bytes_max_.
// Test: receive_budget_test.cpp
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "http/h2/limits.hpp"
#include "net/memory_budget.hpp"

namespace bwos::server::rpc {

/// A message of which protobuf makes no more than so many bytes is not charged, as most calls bring
/// no more: h2's stream_bytes covers it.
inline constexpr std::size_t uncharged_bytes_max = 512;

class receive_budget {
 public:
  /// `account`: the connection's, which must outlive it.
  receive_budget(std::size_t bytes_max, memory_account& account) noexcept
      : bytes_max_(bytes_max), account_(account) {}
  receive_budget(const receive_budget&) = delete;
  receive_budget& operator=(const receive_budget&) = delete;

  /// False: that would be more than there is, and nothing was taken.
  [[nodiscard]] bool take(std::size_t bytes) noexcept {
    // [budget.look] relaxed: the CAS decides. Partner: [budget.take].
    std::size_t taken = taken_.load(std::memory_order_relaxed);
    do {
      if (bytes > bytes_max_ - taken) return false;
      // [budget.take] relaxed: a number that is compared with a limit; nothing is read on its
      // strength. Partner: [budget.give].
    } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
    if (account_.take_messages(bytes)) return true;
    release(bytes);
    return false;
  }

  void give_back(std::size_t bytes) noexcept {
    account_.give_back_messages(bytes);
    release(bytes);
  }

  [[nodiscard]] std::size_t taken() const noexcept {
    // [budget.read] relaxed: a number to show, nothing is read on its strength. Partner: none
    // (tests).
    return taken_.load(std::memory_order_relaxed);
  }

 private:
  void release(std::size_t bytes) noexcept {
    // [budget.give] relaxed: a number, as in take(); what the bytes were used for is freed by its
    // owner. Partner: [budget.take].
    taken_.fetch_sub(bytes, std::memory_order_relaxed);
  }

  const std::size_t bytes_max_;
  memory_account& account_;
  std::atomic<std::size_t> taken_{0};
};

/// What one call's messages have taken of its connection's budget. One thread at a time: the call's
/// runner, or its handler. Whoever owns the call gives it back: the budget may be gone before the
/// call is.
class request_charge {
 public:
  /// So much, more or less than before. False: more than there is; then it is as before.
  [[nodiscard]] bool set(std::size_t bytes, receive_budget& of) noexcept {
    if (bytes <= uncharged_bytes_max) bytes = 0;
    if (bytes > bytes_ && !of.take(bytes - bytes_)) return false;
    if (bytes < bytes_) of.give_back(bytes_ - bytes);
    bytes_ = bytes;
    return true;
  }
  void give_back(receive_budget& of) noexcept {
    if (bytes_ > 0) static_cast<void>(set(0, of));
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

/// The bytes that the peer of one call may send beyond its window, so that a message becomes whole.
/// They are taken of the connection's budget until as many bytes of the request have been read. The
/// call's runner alone.
class request_advance {
 public:
  /// Whether the peer needs an advance: for a message that is larger than a stream's window can be
  /// filled before, or where the unread bytes of all streams stand in the way of messages that
  /// cannot finish either. So no connection waits for ever behind unfinished messages.
  [[nodiscard]] static constexpr bool is_needed(std::size_t message_bytes,
                                                std::size_t unread_bytes) noexcept {
    return message_bytes >= h2::stream_window / 2 || unread_bytes >= h2::connection_window / 2;
  }
  /// So many bytes more. False: the budget has no more, and nothing was taken.
  [[nodiscard]] bool add(std::size_t bytes, receive_budget& of) noexcept {
    if (!of.take(bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  /// So many bytes of the request have been read, and pay the advance back. How many were left, for
  /// which the peer has to get window yet.
  [[nodiscard]] std::size_t pay_back(std::size_t read, receive_budget& of) noexcept {
    const std::size_t paid = std::min(read, bytes_);
    if (paid > 0) of.give_back(paid);
    bytes_ -= paid;
    return read - paid;
  }
  /// All of the request has been read, or nobody wants it.
  void give_back(receive_budget& of) noexcept { static_cast<void>(pay_back(bytes_, of)); }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace bwos::server::rpc
