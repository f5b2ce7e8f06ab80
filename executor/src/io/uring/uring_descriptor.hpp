// SPDX-License-Identifier: Apache-2.0
// One socket of a ring: what the ring's thread has received for it, and what its runner asks of
// that thread.
//
// ROLES. The owner: the ring's thread, which alone knows what the kernel has in hand. The runner:
// the coroutine of the connection, on whichever worker runs it.
//
// INVARIANTS
// U1  Elements are pushed by the owner in the order in which they were received, and taken whole by
//     the runner. Behind `paused` or `end` the owner pushes nothing until the runner, who has
//     reached it, asks for `receive` anew. So there is at most one of them, and it lies in here.
// U2  Requests are the runner's, one at a time. A descriptor stands in the mailbox exactly while
//     its requests are not zero.
// U3  From `close` on it is the owner's; it is recycled when the kernel has nothing in hand.
// U4  While the kernel has nothing in hand that receives (between U1's element and the next
//     request), the runner may receive by itself.
// Test: contract_reactor.hpp
#pragma once

#include <cstdint>
#include <utility>

#include <bwos/base/atomic.hpp>
#include "io/descriptor.hpp"
#include "io/uring/buffer_ring.hpp"

namespace bwos {

struct uring_descriptor final : descriptor {
  enum request : std::uint32_t {
    receive = 1,     ///< Notify of what can be received (accepted), and receive it.
    watch_send = 2,  ///< Notify once when there is room for sending.
    close = 4,
  };

  explicit uring_descriptor(reactor& owner) noexcept : descriptor(owner) {}

  /// The creator, before the first request of a new socket.
  void begin(bool is_listener) noexcept {
    kernel = {};
    kernel.listening = is_listener;
    runner = {};
    // [uring.taken.reset] relaxed: the mailbox publishes it with all the rest. Partner:
    // [mail.push].
    taken.store(0, std::memory_order_relaxed);
  }

  // The owner.

  void push(chunk& received) noexcept {
    // [uring.push.look] relaxed: the CAS decides. Partner: [uring.push].
    chunk* top = filled.load(std::memory_order_relaxed);
    do {
      received.next = top;
      // [uring.push] release: the runner sees the element and the bytes. Partner: [uring.take].
    } while (!filled.compare_exchange_weak(top, &received, std::memory_order_release,
                                           std::memory_order_relaxed));
  }
  void push_last(chunk::kind what, int error) noexcept {
    last.what = what;
    last.error = error;
    push(last);
  }
  [[nodiscard]] std::uint32_t unread() const noexcept {
    // [uring.taken.read] relaxed: a limit that may be late. Partner: [uring.taken.write].
    return kernel.pushed - taken.load(std::memory_order_relaxed);
  }

  /// It stands in the mailbox. Asked when the runner is gone, so that only the owner puts it there.
  [[nodiscard]] bool mailed() const noexcept {
    // [uring.mailed] relaxed: the owner's own last change. Partner: none, one thread is left.
    return requests.load(std::memory_order_relaxed) != 0;
  }

  // The runner; the owner after `close`.

  /// Everything received, oldest first.
  [[nodiscard]] chunk* take() noexcept {
    // [uring.take] acquire: the elements and their bytes. Partner: [uring.push].
    chunk* each = filled.exchange(nullptr, std::memory_order_acquire);
    chunk* ordered = nullptr;
    while (each != nullptr) {
      chunk* const next = each->next;
      each->next = ordered;
      ordered = std::exchange(each, next);
    }
    return ordered;
  }
  void count_taken() noexcept {
    // [uring.taken.own] relaxed: the runner's own last value. Partner: none, one writes at a time.
    // [uring.taken.write] relaxed: a limit that may be late. Partner: [uring.taken.read].
    taken.store(taken.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// What the kernel has in hand: the owner's.
  struct {
    bool listening = false;
    bool receiving = false;
    bool cancelled = false;  ///< ... and has been asked to stop that.
    bool watching_send = false;
    bool unwatched_send = false;  ///< ... and has been asked to stop that.
    bool watching_reset = false;
    bool unwatched_reset = false;  ///< ... and has been asked to stop that.
    bool reset_watched = false;    ///< It has been asked to watch for it.
    bool closing = false;
    std::uint32_t pushed = 0;
  } kernel;

  struct {
    chunk* current = nullptr;  ///< Whose bytes the coroutine has.
    chunk* rest = nullptr;     ///< Taken, not yet handed out.
    bool by_itself = false;    ///< It receives without the kernel's buffers (U4).
    bool ended = false;
    int error = 0;  ///< ... with.
  } runner;

  atomic<chunk*> filled{nullptr};
  atomic<std::uint32_t> taken{0};
  atomic<std::uint32_t> requests{0};
  uring_descriptor* next_mail = nullptr;
  chunk last;  ///< The `paused` or `end` behind what was received.
};

}  // namespace bwos
