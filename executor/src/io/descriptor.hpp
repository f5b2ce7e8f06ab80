// SPDX-License-Identifier: Apache-2.0
// One socket as a reactor sees it, and the handshake between the coroutine that waits on it and
// those who end the wait.
//
// ROLES. The runner: the coroutine of the connection, on whichever worker runs it; one at a time.
// Notifiers: reactors that saw an event, the timer service when a deadline has passed, interrupt();
// any number, any thread.
//
// STATE. One word of bits. readable, writable, hangup, failed, expired, interrupted: what happened
// and was not consumed yet; unwanted: somebody wants its place. waiting_in, waiting_out: the runner
// is suspended and `waiter` is its continuation.
//
// INVARIANTS
// D1  The runner suspends only by a CAS from a word without any bit that would end its wait:
//     nothing that was notified before is slept over.
// D2  A notifier that ends a wait clears the waiting bits in the same CAS: a waiter is handed on
//     exactly once, and the runner alone sets it again.
// D3  A descriptor's memory lives as long as its reactor: it is recycled, never freed. So a late
//     event, fetched by another worker before the socket was closed, at worst ends a wait of the
//     next connection for nothing, which looks again and waits on. No proof of who may still hold
//     an event is needed.
// D4  `deadline_ms` only moves later by a plain store; earlier only under the timer lock, with the
//     entry re-armed. So the entry is always due no later than the word, or the deadline has been
//     notified.
// D5  `unwanted` is set only in the CAS that ends a wait of waiting_in by it: who is told to leave
//     waited, and had nothing else to look at. Bytes that come nevertheless take it back.
// Test: descriptor_test.cpp, contract_reactor.hpp
#pragma once

#include <bwos/continuation.hpp>
#include <bwos/timer_entry.hpp>
#include <cstdint>

#include <bwos/base/atomic.hpp>
#include "io/timer/wheel.hpp"

namespace bwos {

class reactor;

struct descriptor {
  enum bits : std::uint32_t {
    readable = 1,
    writable = 2,
    hangup = 4,   ///< The peer's end or an error, to be met by receiving until it shows.
    expired = 8,  ///< The deadline passed.
    interrupted = 16,
    waiting_in = 32,
    waiting_out = 64,
    unwanted = 128,  ///< Its listener has others that want its place.
    failed = 256,    ///< With hangup: an error, such as a reset by the peer.
    ends_in = readable | hangup | expired | interrupted,
    ends_out = writable | expired,  // not hangup: a peer that has half-closed may still read
  };

  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  explicit descriptor(reactor& owner) noexcept : home(owner), deadline_entry(*this) {}
  virtual ~descriptor() = default;  // a reactor's own kind lies in the slab too

  /// A notifier reports `what`. Returns the waiter if that ended its wait: the caller must queue
  /// it, exactly once.
  [[nodiscard]] continuation* notify(std::uint32_t what) noexcept {
    // [descriptor.notify.look] relaxed: the CAS decides. Partner: [descriptor.notify].
    std::uint32_t seen = state.load(std::memory_order_relaxed);
    for (;;) {
      const bool ends = ((seen & waiting_in) != 0 && (what & ends_in) != 0) ||
                        ((seen & waiting_out) != 0 && (what & ends_out) != 0);
      // Readiness that resumes its reader is consumed by that: the reader tries at once, and what
      // comes later is notified anew. All else stays until consumed.
      const std::uint32_t kept =
          ends && (seen & waiting_in) != 0 ? what & ~std::uint32_t{readable | writable} : what;
      const std::uint32_t next =
          ends ? (seen | kept) & ~std::uint32_t{waiting_in | waiting_out} : seen | kept;
      // [descriptor.notify] acq_rel: acquire for the waiter's frame, stored before the wait began;
      // release for what the notifier did before (filled buffers). Partner: [descriptor.wait].
      if (state.compare_exchange_weak(seen, next, std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
        return ends ? waiter : nullptr;
      }
    }
  }

  /// The runner suspends for `direction` (waiting_in or waiting_out), continued by `work`. False:
  /// something has happened that would end the wait, look again. True: `work` may be running
  /// elsewhere already; touch nothing of its frame.
  [[nodiscard]] bool wait(std::uint32_t direction, continuation& work) noexcept {
    waiter = &work;
    const std::uint32_t ends = direction == waiting_in ? ends_in : ends_out;
    // [descriptor.wait.look] relaxed: the CAS decides. Partner: [descriptor.wait].
    std::uint32_t seen = state.load(std::memory_order_relaxed);
    do {
      if ((seen & ends) != 0) return false;
      // [descriptor.wait] release: a notifier that ends the wait sees the waiter and its frame.
      // Partner: [descriptor.notify].
    } while (!state.compare_exchange_weak(seen, seen | direction, std::memory_order_release,
                                          std::memory_order_relaxed));
    return true;
  }

  /// Tells a runner that waits to receive, and has nothing else to look at, to leave. Returns the
  /// waiter as notify() does; null: it does not wait so.
  [[nodiscard]] continuation* tell_unwanted() noexcept {
    // [descriptor.tell.look] relaxed: the CAS decides. Partner: [descriptor.tell].
    std::uint32_t seen = state.load(std::memory_order_relaxed);
    do {
      if ((seen & waiting_in) == 0 || (seen & ends_in) != 0) return nullptr;
      // [descriptor.tell] acq_rel: acquire for the waiter's frame, stored before the wait began;
      // release as all that resumes a runner. Partner: [descriptor.wait].
    } while (!state.compare_exchange_weak(seen, (seen & ~std::uint32_t{waiting_in}) | unwanted,
                                          std::memory_order_acq_rel, std::memory_order_relaxed));
    return waiter;
  }

  [[nodiscard]] std::uint32_t look() const noexcept {
    // [descriptor.look] acquire: what a notifier did before is seen with its bit. Partner:
    // [descriptor.notify].
    return state.load(std::memory_order_acquire);
  }

  /// The runner takes `what` back before it tries the operation: an event from now on is set anew.
  /// A plain store would not do: it may sink below the system call and wipe an event out. Returns
  /// what there was: more may have been notified since look(), and is not notified again.
  std::uint32_t consume(std::uint32_t what) noexcept {
    // [descriptor.consume] acq_rel: acquire as in look(); release so that it is not overtaken.
    // Partner: [descriptor.notify].
    return state.fetch_and(~what, std::memory_order_acq_rel);
  }

  /// By the reactor, for a new socket.
  void reset(int socket) noexcept {
    fd = socket;
    more = ending = is_shared = false;
    waiter = nullptr;
    store_idle_since(wheel::never);
    // [descriptor.reset] release: a notifier with a late event of the former socket sees a whole
    // descriptor. Partner: [descriptor.notify].
    state.store(0, std::memory_order_release);
  }

  [[nodiscard]] std::int64_t deadline() const noexcept {
    // [descriptor.deadline.read] relaxed: the runner's own last store, or, in the timer, some
    // recent value: a later one that it misses is met by re-arming (D4), an earlier one takes the
    // lock. Partner: [descriptor.deadline.store].
    return deadline_ms.load(std::memory_order_relaxed);
  }
  void store_deadline(std::int64_t when_ms) noexcept {
    // [descriptor.deadline.store] relaxed: publishes nothing but itself. Partner:
    // [descriptor.deadline.read].
    deadline_ms.store(when_ms, std::memory_order_relaxed);
  }

  [[nodiscard]] std::int64_t idle_since() const noexcept {
    // [descriptor.idle.read] relaxed: a guess, whose connection says itself whether it holds.
    // Partner: [descriptor.idle.store].
    return idle_since_ms.load(std::memory_order_relaxed);
  }
  void store_idle_since(std::int64_t since_ms) noexcept {
    // [descriptor.idle.store] relaxed: publishes nothing but itself. Partner:
    // [descriptor.idle.read].
    idle_since_ms.store(since_ms, std::memory_order_relaxed);
  }

  atomic<std::uint32_t> state{0};
  int fd = -1;
  /// Runner's: the socket is owed a look without a new notification, as the last receive filled its
  /// buffer, or was interrupted on its way to what it had been notified of.
  bool more = false;
  bool ending = false;            ///< Runner's: `hangup` was seen, and the end not met yet.
  bool is_shared = false;         ///< Runner's: a listening socket that other processes have.
  bool open = false;              ///< Under the reactor's slab lock: in use.
  std::uint64_t accepted_by = 0;  ///< Under the reactor's slab lock: its listener; 0: none.
  reactor& home;
  continuation* waiter = nullptr;
  /// Milliseconds of steady_clock. Written by the runner, read by whoever fires (D4).
  atomic<std::int64_t> deadline_ms{wheel::never};
  /// The same; wheel::never: something is open on it. Written by the runner, read by its listener.
  atomic<std::int64_t> idle_since_ms{wheel::never};
  struct deadline_timer : timer_entry {
    explicit deadline_timer(descriptor& of) noexcept : timer_entry(&on_due), socket(of) {}
    static void on_due(timer_entry& self) noexcept;  // under the timer lock
    descriptor& socket;
  } deadline_entry;
};

}  // namespace bwos
