// SPDX-License-Identifier: Apache-2.0
// Who sleeps and who searches, and why no wake-up is lost.
//
// ROLES. A worker announces that it parks, looks everywhere once more, sleeps, and leaves. A poster
// publishes work and then claims at most one sleeper. A searcher is an awake worker that looks for
// work of others.
//
// STATE. One 64-bit word per group of workers; the searchers S are its bits 48 to 63. Two forms of
// the rest:
//   named    workers that can be woken by name (a futex or a reactor of their own): a mask of the
//            parked, bits 0 to 47.
//   counted  workers that share one epoll set, where a wake reaches any of them: parked P, bits 0
//            to 15, and claimed C, bits 16 to 31: workers that a poster asked for and that have not
//            yet returned.
//
// INVARIANTS
// I1  Work is published before the poster looks at the word; a worker announces itself (seq_cst)
//     before its last look at the work. In the inject queue and the lane work is published seq_cst,
//     so one of the two sees the other: the poster claims the sleeper, or the sleeper finds the
//     work. A worker that puts into its own queue does not pay for that order, and both may miss
//     each other while its store is on its way: the monitor closes that window (fifo_queue.hpp,
//     I7).
// I2  A poster that finds S > 0 may go: a searcher's next step is to announce itself and look
//     everywhere (I1), or to leave the search; the last to leave looks again, whatever it has
//     found, and claims another if it sees more (end_search). So does one that has announced
//     itself and stays awake for what it then saw (search.hpp, S3).
// I3  Claiming happens in the word, before the wake is sent: two posters never claim the same
//     sleeper, and a claimed one counts as a searcher from that moment, so a burst of posts wakes
//     one worker after the other.
// I4  counted: P + C is the number of workers between announce and leave. A wake's token is read
//     before the claim is taken: taken first, a late read would eat the token of a newer claim.
// I5  Looks for others' work pass over who is parked: named, whose bit is set; counted, all of a
//     group of which nobody is awake or claimed. Whatever such a worker has in its queue once it
//     leaves (seq_cst), it looks at the words (seq_cst) before it runs that: it sees who announced
//     itself before it was passed over, or it had left when it was looked at.
// tests/model/park_model.py explores every state of small pools, and shows that each of these is
// needed. Tests: idle_set_test.cpp, parking_test.cpp, tests/simulation
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <bwos/base/atomic.hpp>
#include <bwos/base/cache_line.hpp>

namespace bwos {

class idle_set {
 public:
  enum class form : std::uint8_t { named, counted };
  static constexpr unsigned word_workers_max = 48;

  /// `words` groups; `searchers_max` of each may search of their own accord at once.
  idle_set(form kind, unsigned words, unsigned searchers_max)
      : words_(std::make_unique<padded_word[]>(words)),
        count_(words),
        searchers_max_(searchers_max),
        form_(kind),
        parked_mask_(kind == form::named ? one_searcher - 1 : field) {}

  /// Cheap and possibly stale: claim() may find somebody.
  [[nodiscard]] bool may_claim() const noexcept {
    for (unsigned i = 0; i < count_; ++i) {
      // [idle.glance] seq_cst: a worker that has left its place sees who had announced itself
      // before it was passed over (I5); for others a hint. A plain load where that is cheap.
      // Partner: [idle.announce].
      const std::uint64_t value = words_[i].value.load(std::memory_order_seq_cst);
      if (value < one_searcher && (value & parked_mask_) != 0) return true;
    }
    return false;
  }

  /// Cheap and possibly stale: somebody sleeps or searches.
  [[nodiscard]] bool any_idle() const noexcept {
    for (unsigned i = 0; i < count_; ++i) {
      // [idle.any] relaxed: a hint, nothing is read on its strength. Partner: none (a hint).
      const std::uint64_t value = words_[i].value.load(std::memory_order_relaxed);
      if (value >= one_searcher || (value & parked_mask_) != 0) return true;
    }
    return false;
  }

  /// A worker that ran dry asks to search; false: enough do.
  [[nodiscard]] bool begin_search(unsigned word) noexcept {
    atomic<std::uint64_t>& value = words_[word].value;
    // [idle.begin.look] relaxed: the CAS decides. Partner: [idle.begin.claim].
    std::uint64_t seen = value.load(std::memory_order_relaxed);
    do {
      if (seen >> searcher_shift >= searchers_max_) return false;
      // [idle.begin.claim] seq_cst: a poster that is excused by this searcher (I2) is ordered
      // before its later looks. Partner: [idle.claim.look].
    } while (!value.compare_exchange_weak(seen, seen + one_searcher, std::memory_order_seq_cst,
                                          std::memory_order_relaxed));
    return true;
  }

  /// Returns whether it was the last searcher of its word: then, if may_claim(), it must look at
  /// the work once more and wake a sleeper if there is any (I2). One of its own word that an
  /// excused poster has seen is still there for may_claim(), unless it has left since.
  [[nodiscard]] bool end_search(unsigned word) noexcept {
    // [idle.end] seq_cst: ordered before the look that follows, against a poster that saw this
    // searcher. Partner: [idle.claim.look].
    return words_[word].value.fetch_sub(one_searcher, std::memory_order_seq_cst) >>
               searcher_shift ==
           1;
  }

  /// The worker parks: everything that it looks at from now on is newer than any post that did not
  /// see it.
  void announce(unsigned word, unsigned bit, bool searching) noexcept {
    const std::uint64_t parked = form_ == form::named ? std::uint64_t{1} << bit : one_parked;
    // [idle.announce] seq_cst: may not swap with the looks that follow (I1). Partner:
    // [idle.claim.look].
    words_[word].value.fetch_add(parked - (searching ? one_searcher : 0),
                                 std::memory_order_seq_cst);
  }

  /// The worker is awake again. `token`: counted form, it read a wake's token. True: it was claimed
  /// and is a searcher.
  [[nodiscard]] bool leave(unsigned word, unsigned bit, bool token) noexcept {
    return form_ == form::named ? leave_named(word, bit) : leave_counted(word, token);
  }

  struct claim_result {
    bool claimed = false;
    unsigned word = 0;
    unsigned bit = 0;  ///< named form: whom to wake.
  };

  /// A poster, after publishing: claims one sleeper, of `first` if possible. Words whose workers
  /// already search are passed over; others are still looked at.
  [[nodiscard]] claim_result claim(unsigned first) noexcept {
    for (unsigned i = 0; i < count_; ++i) {
      const unsigned word = first + i < count_ ? first + i : first + i - count_;
      unsigned bit = 0;
      if (claim_in(word, bit)) return {.claimed = true, .word = word, .bit = bit};
    }
    return {};
  }

  /// A worker that need not be looked at (I5). counted: `group_size` workers share its word.
  [[nodiscard]] bool is_parked(unsigned word, unsigned bit, unsigned group_size) const noexcept {
    // [idle.parked.look] seq_cst: part of the look before parking, so not before the announcement
    // (I1). Partner: [idle.leave.named], [idle.leave.counted].
    const std::uint64_t value = words_[word].value.load(std::memory_order_seq_cst);
    return form_ == form::named ? (value >> bit & 1) != 0 : (value & field) == group_size;
  }

  [[nodiscard]] unsigned parked() const noexcept { return sum(parked_mask_); }
  [[nodiscard]] unsigned searching() const noexcept {
    return sum(~std::uint64_t{0} << searcher_shift);
  }
  [[nodiscard]] unsigned words() const noexcept { return count_; }

 private:
  static constexpr unsigned searcher_shift = 48;
  static constexpr std::uint64_t one_searcher = std::uint64_t{1} << searcher_shift;
  static constexpr std::uint64_t one_parked = 1;
  static constexpr std::uint64_t one_claimed = std::uint64_t{1} << 16;
  static constexpr std::uint64_t field = 0xffff;

  bool claim_in(unsigned word, unsigned& bit) noexcept {
    atomic<std::uint64_t>& value = words_[word].value;
    // [idle.claim.look] seq_cst: may not be taken before the work was published (I1). Partner:
    // [idle.announce].
    std::uint64_t seen = value.load(std::memory_order_seq_cst);
    for (;;) {
      const std::uint64_t parked = seen & parked_mask_;
      if (parked == 0 || seen >= one_searcher) return false;
      std::uint64_t next = seen + one_searcher;
      if (form_ == form::named) {
        bit = static_cast<unsigned>(__builtin_ctzll(parked));
        next -= std::uint64_t{1} << bit;
      } else {
        next += one_claimed - one_parked;
      }
      // [idle.claim.take] seq_cst: the failed look must obey the same order as the first. Partner:
      // [idle.announce].
      if (value.compare_exchange_weak(seen, next, std::memory_order_seq_cst,
                                      std::memory_order_seq_cst))
        return true;
    }
  }

  bool leave_named(unsigned word, unsigned bit) noexcept {
    const std::uint64_t mine = std::uint64_t{1} << bit;
    // [idle.leave.named] seq_cst: one order with claims, so that exactly one side owns the bit.
    // Partner: [idle.claim.take].
    return (words_[word].value.fetch_and(~mine, std::memory_order_seq_cst) & mine) == 0;
  }

  bool leave_counted(unsigned word, bool token) noexcept {
    atomic<std::uint64_t>& value = words_[word].value;
    // [idle.leave.look] relaxed: the CAS decides. Partner: [idle.leave.counted].
    std::uint64_t seen = value.load(std::memory_order_relaxed);
    for (;;) {
      const bool any_claimed = (seen / one_claimed & field) != 0;
      const bool any_parked = (seen & field) != 0;
      const bool claimed = token ? any_claimed : !any_parked;
      const std::uint64_t next = seen - (claimed ? one_claimed : one_parked);
      // [idle.leave.counted] seq_cst: one order with claims, so that P and C stay exact (I4).
      // Partner: [idle.claim.take].
      if (value.compare_exchange_weak(seen, next, std::memory_order_seq_cst,
                                      std::memory_order_relaxed))
        return claimed;
    }
  }

  [[nodiscard]] unsigned sum(std::uint64_t mask) const noexcept {
    unsigned total = 0;
    for (unsigned i = 0; i < count_; ++i) {
      // [idle.sum] seq_cst: join()'s proof of quiescence orders it against announce and leave.
      // Partner: [idle.announce].
      const std::uint64_t value = words_[i].value.load(std::memory_order_seq_cst) & mask;
      if (mask >> searcher_shift != 0) {
        total += static_cast<unsigned>(value >> searcher_shift);
      } else {
        total += form_ == form::named ? static_cast<unsigned>(__builtin_popcountll(value))
                                      : static_cast<unsigned>(value);
      }
    }
    return total;
  }

  struct alignas(cache_line) padded_word {
    atomic<std::uint64_t> value{0};
  };

  std::unique_ptr<padded_word[]> words_;
  unsigned count_;
  unsigned searchers_max_;
  form form_;
  std::uint64_t parked_mask_;
};

}  // namespace bwos
