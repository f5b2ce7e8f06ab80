// SPDX-License-Identifier: Apache-2.0
// Parkers that are never freed: who ends a wait may come to the waiter's parker when the wait, its
// thread and its pool are gone. All that it does then is to wake somebody early, who looks again.
//
// STATE  A list of those that nobody has. Who takes one takes the whole list for a moment, and puts
// back the rest; who meets nothing there makes a new one. So there is no lock that a child of
// fork() could find taken, and no ABA.
#pragma once

#include <atomic>
#include <new>
#include <utility>

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
    // [lent.take] acquire: the links were written by those who gave them back. Partner:
    // [lent.give_back].
    kept* const all = free.exchange(nullptr, std::memory_order_acquire);
    if (all == nullptr) return new (std::nothrow) kept;
    put_back(std::exchange(all->next, nullptr));
    all->forget();
    return all;
  }
  static void give_back(futex_parker* parker) noexcept {
    if (parker != nullptr) put_back(static_cast<kept*>(parker));
  }

 private:
  struct kept : futex_parker {
    kept* next = nullptr;
  };

  static void put_back(kept* first) noexcept {
    if (first == nullptr) return;
    kept* last = first;
    while (last->next != nullptr) last = last->next;
    // [lent.look] relaxed: decided by the compare-exchange. Partner: [lent.give_back].
    kept* seen = free.load(std::memory_order_relaxed);
    do {
      last->next = seen;
      // [lent.give_back] release/relaxed: publishes the links. Partner: [lent.take].
    } while (!free.compare_exchange_weak(seen, first, std::memory_order_release,
                                         std::memory_order_relaxed));
  }

  inline static constinit std::atomic<kept*> free{nullptr};  // no step of a simulated schedule

  futex_parker* mine_;
};

}  // namespace bwos
