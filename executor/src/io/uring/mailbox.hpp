// SPDX-License-Identifier: Apache-2.0
// What the runners of a ring's sockets ask of its thread. Any thread posts, the owner takes all.
//
// INVARIANTS
// M1  A descriptor is linked by the request that found none pending, and unlinked before its
//     requests are taken: it stands here at most once (uring_descriptor.hpp, U2).
// M2  Who finds the box empty wakes the owner after posting; all who come until the owner has
//     emptied it are covered by that wake.
// Test: contract_reactor.hpp
#pragma once

#include <cstdint>

#include <bwos/base/atomic.hpp>
#include "io/uring/uring_descriptor.hpp"

namespace bwos {

class mailbox {
 public:
  /// True: the box was empty, the owner must be woken.
  [[nodiscard]] bool post(uring_descriptor& to, std::uint32_t what) noexcept {
    // [mail.request] acq_rel: release for what the runner did before; acquire so that the link is
    // free again after the owner took the last request. Partner: [mail.take_request].
    if (to.requests.fetch_or(what, std::memory_order_acq_rel) != 0) return false;
    // [mail.push.look] relaxed: the CAS decides. Partner: [mail.push].
    uring_descriptor* top = top_.load(std::memory_order_relaxed);
    do {
      to.next_mail = top;
      // [mail.push] release: the owner sees the descriptor and its link. Partner: [mail.take].
    } while (!top_.compare_exchange_weak(top, &to, std::memory_order_release,
                                         std::memory_order_relaxed));
    return top == nullptr;
  }

  /// The owner: calls `handle(descriptor, requests)` for each; what it posts itself stays for the
  /// next time.
  template <class Function>
  void take_all(Function handle) noexcept {
    if (empty()) return;
    // [mail.take] acquire: the posted descriptors and their links. Partner: [mail.push].
    uring_descriptor* each = top_.exchange(nullptr, std::memory_order_acquire);
    while (each != nullptr) {
      uring_descriptor* const next = each->next_mail;
      // [mail.take_request] acq_rel: acquire for what the runner did before; release because the
      // link has been read. Partner: [mail.request].
      handle(*each, each->requests.exchange(0, std::memory_order_acq_rel));
      each = next;
    }
  }

  [[nodiscard]] bool empty() const noexcept {
    // [mail.empty] relaxed: what it misses comes with a wake (M2). Partner: none, take_all
    // acquires.
    return top_.load(std::memory_order_relaxed) == nullptr;
  }

 private:
  atomic<uring_descriptor*> top_{nullptr};
};

}  // namespace bwos
