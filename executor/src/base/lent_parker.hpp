// SPDX-License-Identifier: Apache-2.0
// Parkers that are never freed: who ends a wait may come to the waiter's parker when the wait, its
// thread and its pool are gone. All that it does then is to wake somebody early, who looks again.
//
// STATE  A stack of those that nobody has (Treiber, RJ 5118, 1986). Its head is an address, 48
// bits, and a tag that grows with each change: a head that has come back has another tag, so that
// who slept between its load and its exchange fails. No lock, which a child of fork() could find
// taken. Beside it a list of all, by plain pointers, by which a leak checker finds them.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>

#include "base/futex_parker.hpp"

namespace bwos {

/// One that nobody else has meanwhile.
class lent_parker {
 public:
  lent_parker() noexcept : mine_(take()) {}
  lent_parker(const lent_parker&) = delete;
  lent_parker& operator=(const lent_parker&) = delete;
  ~lent_parker() { give_back(mine_); }

  [[nodiscard]] futex_parker& operator*() const noexcept { return *mine_; }
  /// Null: there was no memory for it.
  [[nodiscard]] futex_parker* get() const noexcept { return mine_; }

  // Any thread.

  static futex_parker* take() noexcept {
    // [lent.take.look] acquire: the link of the first was written by who gave it back. Partner:
    // [lent.give_back].
    std::uint64_t seen = head.load(std::memory_order_acquire);
    for (;;) {  // ends: another thread has taken or given back
      kept* const first = address_of(seen);
      if (first == nullptr) return make();
      // [lent.next] relaxed: of one that somebody else has taken meanwhile it may be anything, and
      // then the exchange fails. Partner: [lent.link].
      kept* const next = first->next.load(std::memory_order_relaxed);
      // [lent.take] acquire/acquire: as the look. Partner: [lent.give_back].
      if (head.compare_exchange_weak(seen, changed(seen, next), std::memory_order_acquire,
                                     std::memory_order_acquire)) {
        first->forget();
        return first;
      }
    }
  }

  static void give_back(futex_parker* parker) noexcept {
    if (parker == nullptr) return;
    auto* const mine = static_cast<kept*>(parker);
    // [lent.look] relaxed: decided by the exchange. Partner: [lent.give_back].
    std::uint64_t seen = head.load(std::memory_order_relaxed);
    do {
      // [lent.link] relaxed: published by the exchange. Partner: [lent.next].
      mine->next.store(address_of(seen), std::memory_order_relaxed);
      // [lent.give_back] release/relaxed: publishes the link. Partner: [lent.take].
    } while (!head.compare_exchange_weak(seen, changed(seen, mine), std::memory_order_release,
                                         std::memory_order_relaxed));
  }

 private:
  struct kept : futex_parker {
    std::atomic<kept*> next{nullptr};
    kept* made_before = nullptr;
  };

  static kept* make() noexcept {
    auto* const made = new (std::nothrow) kept;
    if (made == nullptr) return nullptr;
    // [lent.all] relaxed: nobody follows the list. Partner: none (a number).
    kept* before = all.load(std::memory_order_relaxed);
    do {
      made->made_before = before;
      // [lent.make] relaxed/relaxed: as the load. Partner: none (a number).
    } while (!all.compare_exchange_weak(before, made, std::memory_order_relaxed,
                                        std::memory_order_relaxed));
    return made;
  }

  static constexpr unsigned address_bits = 48;  // of user space, where nobody asks for more
  static kept* address_of(std::uint64_t word) noexcept {
    return reinterpret_cast<kept*>(word & ((std::uint64_t{1} << address_bits) - 1));
  }
  static std::uint64_t changed(std::uint64_t word, kept* first) noexcept {
    return (((word >> address_bits) + 1) << address_bits) | reinterpret_cast<std::uintptr_t>(first);
  }

  // std::atomic: no step of a simulated schedule.
  inline static constinit std::atomic<std::uint64_t> head{0};
  inline static constinit std::atomic<kept*> all{nullptr};

  futex_parker* mine_;
};

}  // namespace bwos
