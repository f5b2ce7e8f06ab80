// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <bwos/base/cache_line.hpp>
#include <bwos/base/memory_order.hpp>
#include <bwos/queue/position.hpp>
#include <bwos/queue/steal.hpp>

// The deque of Arora, Blumofe and Plaxton, "Thread Scheduling for Multiprogrammed Multiprocessors"
// (SPAA '98), a peer of the LIFO queues. The paper's machine is sequentially consistent; the orders
// here are as weak as the arguments below allow.
//
// STATE  An array that is used from its beginning, without wrapping, and two words:
//   bottom_  where the owner puts next
//   age_     (tag : 32 | top : 32), the entry that a thief claims next. Each time that the owner
//            finds the deque empty it begins again at 0, and with another tag. So a thief that read
//            an older age fails to claim (no ABA until the tag wraps).
//
// INVARIANTS
// A1  The owner takes an entry above top without a claim. It stores bottom_ before it loads age_,
// and
//     a thief loads age_ before it loads bottom_. All four are sequentially consistent, so that
//     they have one order. If the owner reads an older age than the thief, its load comes first in
//     that order, and so does its store before the thief's load of bottom_: the thief finds the
//     entry taken. Else the owner sees the top that the thief has seen, and has to claim the entry
//     itself.
// A2  A claim succeeds on the very age that the thief has loaded, and the entry it has read
//     meanwhile is the one of that age. The owner puts another one there only after a take that A1
//     shows to the thief, or after it has stored a new age.
// A3  What a thief has claimed it has read before the owner puts anything there: the owner begins
//     again at 0 only after it has acquired all claims.

namespace bwos::bench {

template <class T, std::size_t Capacity>
class abp_deque {
 public:
  static constexpr std::size_t block_entries = 1;  // of which a steal gets one
  abp_deque& as_owner() { return *this; }
  abp_deque& as_thief() { return *this; }

  bool put(T value) {
    // [abp.own_bottom] relaxed: the owner's own last store to this word. Partner: none (own store).
    const std::uint32_t bottom = bottom_.load(relaxed);
    if (bottom == Capacity) return false;
    // [abp.write] relaxed: atomic as a thief may read it whose claim will fail. Partner:
    // [abp.read].
    entries_[bottom].store(value, relaxed);
    // [abp.publish] release: a thief that sees this bottom must see the entry below it, and the age
    // at which it was put there. Partner: [abp.steal_bottom].
    bottom_.store(bottom + 1, release);
    return true;
  }

  bool get(T& value) {
    // [abp.own_bottom_again] relaxed: as in put. Partner: none (own store).
    std::uint32_t bottom = bottom_.load(relaxed);
    if (bottom == 0) return false;
    --bottom;
    // [abp.take] seq_cst: must come before the load of age_ (A1). Partner: [abp.steal_bottom].
    bottom_.store(bottom, seq_cst);
    // [abp.take_look] seq_cst: must come behind the store of bottom_ (A1); it acquires the claims
    // that it sees (A3). Partner: [abp.claim].
    detail::position age = age_.load(seq_cst);
    // [abp.take_read] relaxed: the owner wrote it. Partner: none (own store).
    value = entries_[bottom].load(relaxed);
    if (bottom > detail::index_of(age)) return true;
    return begin_again(age, bottom);
  }

  bool sample() const {
    // [abp.sample_age] relaxed: a hint, steal() decides. Partner: [abp.claim].
    const std::uint32_t top = detail::index_of(age_.load(relaxed));
    // [abp.sample_bottom] relaxed: a hint, no entry is read. Partner: [abp.publish].
    return top < bottom_.load(relaxed);
  }

  /// Takes the oldest entry.
  steal_result steal(T* out, std::size_t /*one*/) {
    // [abp.steal_age] seq_cst: must come before the load of bottom_ (A1); it acquires the store of
    // bottom_ that came before a new age, without which the old bottom could be taken for a new
    // one. Partner: [abp.reset_last], [abp.reset], [abp.claim].
    detail::position age = age_.load(seq_cst);
    const std::uint32_t top = detail::index_of(age);
    // [abp.steal_bottom] seq_cst: must come behind the load of age_ (A1); it acquires the entry.
    // Partner: [abp.take], [abp.publish].
    if (bottom_.load(seq_cst) <= top) return {0, steal_status::empty};
    // [abp.read] relaxed: ordered by [abp.steal_bottom]. Partner: [abp.write].
    *out = entries_[top].load(relaxed);
    // [abp.claim] release/relaxed: the read above must be over before the owner sees the claim and
    // puts something else there (A3). Failed, what was read is nobody's. Partner: [abp.take_look],
    // [abp.reset_last].
    if (!age_.compare_exchange_strong(age, age + 1, release, relaxed)) {
      return {0, steal_status::conflict};
    }
    return {1, steal_status::ok};
  }

 private:
  /// The owner has lowered bottom_ to the last entry, which a thief may claim, or below. True: the
  /// last entry is the owner's.
  bool begin_again(detail::position age, std::uint32_t bottom) {
    // [abp.reset_bottom] relaxed: published by the new age, and harmless before it: no thief finds
    // anything below 0. Partner: [abp.steal_bottom].
    bottom_.store(0, relaxed);
    const detail::position empty = detail::make_position(detail::round_of(age) + 1, 0);
    // [abp.reset_last] release/acquire: a thief that sees the new age must see bottom_ at 0.
    // Failed, a thief was faster, and must have read the entry before the owner puts another one
    // there (A3). Partner: [abp.steal_age]; [abp.claim].
    if (bottom == detail::index_of(age) &&
        age_.compare_exchange_strong(age, empty, release, acquire)) {
      return true;
    }
    // [abp.reset] release: as above. No claim races it, for whoever could claim at this age finds
    // nothing below bottom_ (A1). Partner: [abp.steal_age].
    age_.store(empty, release);
    return false;
  }

  alignas(cache_line) std::atomic<std::uint32_t> bottom_{0};
  alignas(cache_line) std::atomic<detail::position> age_{0};
  alignas(cache_line) std::array<std::atomic<T>, Capacity> entries_{};
};

}  // namespace bwos::bench
