// SPDX-License-Identifier: Apache-2.0
// What streams that ended elsewhere (calls, requests from the lane) give back to their connection:
// a list that any thread pushes on and the connection's runner takes whole.
//
// Roles. Pushers: whoever ends a call that had been suspended, or a request in the lane. The
// runner: the connection's coroutine, one thread at a time. State, one word: nothing; the list,
// newest first; or `asleep`, while the runner waits here.
//
// INVARIANTS
// I1  Of the pushes between two take()s exactly one finds nothing there, or the runner asleep: that
//     one, and no other, tells the runner.
// I2  A runner sleeps only by a CAS from nothing: what was pushed before is not slept over.
// I3  A pusher touches the inbox no more after its CAS, unless it found the runner asleep, which
//     then stays until that pusher has handed it on. So the runner may free everything as soon as
//     it has taken its last call.
// Test: reply_inbox_test.cpp
#pragma once

#include <atomic>
#include <bwos/continuation.hpp>
#include <bwos/waiter.hpp>
#include <coroutine>

namespace bwos::server {

struct inbox_entry {
  inbox_entry* next_reply = nullptr;
};

class reply_inbox {
 public:
  reply_inbox() = default;
  reply_inbox(const reply_inbox&) = delete;
  reply_inbox& operator=(const reply_inbox&) = delete;

  /// What the pusher owes.
  struct duty {
    bool first = false;              ///< The runner is to be told, wherever it is.
    continuation* runner = nullptr;  ///< Or: it waits here, and is to be posted.
  };

  /// Any thread. *this may be gone afterwards, see I3.
  [[nodiscard]] duty push(inbox_entry& what) noexcept {
    // [inbox.push.look] relaxed: the CAS decides. Partner: [inbox.push].
    inbox_entry* seen = head_.load(std::memory_order_relaxed);
    do {
      what.next_reply = seen == &asleep_ ? nullptr : seen;
      // [inbox.push] acq_rel: release of the call's result, to the runner that takes it; acquire of
      // waiter_, stored before the runner slept. Partners: [inbox.take], [inbox.sleep].
    } while (!head_.compare_exchange_weak(seen, &what, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
    if (seen == &asleep_) return {.runner = waiter_};
    return {.first = seen == nullptr};
  }

  /// The runner: all that was pushed, newest first.
  [[nodiscard]] inbox_entry* take() noexcept {
    // [inbox.take.look] relaxed: usually there is nothing, and then a later push tells the runner.
    // Partner: [inbox.push].
    if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    // [inbox.take] acquire: the results of the calls taken. Partner: [inbox.push].
    return head_.exchange(nullptr, std::memory_order_acquire);
  }

  /// The runner: awaitable, until something is there. It goes on wherever the pusher posts it.
  [[nodiscard]] auto wait() noexcept { return sleep(*this); }

  /// When no other thread comes here any more (all handlers have ended, or the threads been
  /// joined): who waits here; null: nobody.
  [[nodiscard]] continuation* sleeper() const noexcept {
    // [inbox.sleeper] relaxed: no other thread comes here. Partner: none (alone).
    return head_.load(std::memory_order_relaxed) == &asleep_ ? waiter_ : nullptr;
  }

 private:
  struct sleep : coroutine_waiter {
    explicit sleep(reply_inbox& in) noexcept : in_(in) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> waiting) noexcept {
      set(waiting);
      in_.waiter_ = this;
      inbox_entry* nothing = nullptr;
      // [inbox.sleep] release: a pusher that finds the runner asleep sees its frame. On failure
      // relaxed: take() acquires. Partner: [inbox.push].
      return in_.head_.compare_exchange_strong(nothing, &in_.asleep_, std::memory_order_release,
                                               std::memory_order_relaxed);
    }
    void await_resume() const noexcept {}

   private:
    reply_inbox& in_;
  };

  inbox_entry asleep_;  // its address alone
  std::atomic<inbox_entry*> head_{nullptr};
  continuation* waiter_ = nullptr;
};

}  // namespace bwos::server
