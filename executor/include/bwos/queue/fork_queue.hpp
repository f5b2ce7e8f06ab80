// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <bwos/base/asymmetric_fence.hpp>
#include <bwos/base/cache_line.hpp>
#include <bwos/queue/fork_block.hpp>
#include <bwos/queue/position.hpp>
#include <bwos/queue/steal.hpp>

// The LIFO work-stealing queue of fork-join: lifo_queue (Wang et al., OSDI '23) with three things
// more, as a fork-join queue seldom holds more entries than one block, and its owner may compute
// for long: thieves reach the entries of the owner's own block, the newest one as well, without
// waiting for its next operation; a part of that block may be granted while the owner works in the
// rest; and the queue grows.
//
// ROLES  The owner, one thread, does put, get and grow. Thieves, any number of threads, do sample,
// steal, request and expose.
//
// STATE  A stack that lies on a ring of blocks. A block's height is its place in the stack, counted
// in blocks; it is the lap of the block's words, and wraps. The owner works in the `top` block.
// What it holds lies in three parts, of which the first two may be empty:
//
//   top:  [ thieves' ones, claimed | granted, thieves may claim | private ][ free ]
//         0                        index                        end       cursor   Entries
//
// Blocks below are granted to their ends. Thieves take from the block at `bottom`, the lowest that
// may hold something. put compares the cursor with `high`, get with `low`; both are plain loads and
// stores as long as nobody wants anything. Who does, forbids the fast way by a limit that no cursor
// meets:
//
// - a request lets the owner's next put or get grant half of what is private;
// - an exposure grants all that is private, without the owner.
//
// INVARIANTS
// K1  Entries [index, end) are full, published by the exchange that granted them, and nobody has
//     read them. Those below the index have been claimed by thieves at this height, each once.
//       fork_queue_test: every_element_is_got_or_stolen_once
// K2  low is never below the end of what is granted, and high never beyond the end of the top
//     block, when the owner reads them in put or get: others store into them only what forbids.
//     Where the owner itself grants, it forbids gets; where it goes down, puts.
//       tests/simulation: fork_keeps_its_limit_when_it_grants
// K3  Each store of a limit that allows gets is followed, before the next get, by a
//     read-modify-write of the top block's word that takes the pending bit away. So an exposure
//     whose store to low the owner's has overwritten fails: its mark came before that
//     read-modify-write. Had it come later, it would have acquired the owner's store, and its own
//     would be the later one.
//       tests/simulation: fork_allows_gets_behind_its_take
// K4  A get lowers the cursor before it looks at low, and an exposure forbids gets before it looks
//     at the cursor, each with a fence between. So one of the two sees the other: the get goes the
//     slow way, whose read-modify-write either takes the mark away or finds the entry granted; or
//     the exposure leaves the entry alone. On the slow way the cursor is lowered before that
//     read-modify-write, and put back only where the queue is empty.
//       tests/model/fork_client.cpp; tests/simulation: fork_lowers_its_cursor_behind_its_take
// K5  A block is used at a new height only when thieves have taken, and finished reading, all its
//     entries of the last: nothing is overwritten while somebody reads it. Else the queue is full.
//     A block that the owner has left downwards, it enters again without that look: it was empty,
//     and no thief had claimed anything there.
//       tests/weaken: fork.steal_finish, fork.reuse
// K6  A thief leaves a block only when all of it is granted and claimed at that height, which stays
//     so, as the owner takes back only what is not claimed; and for the block above only when that
//     is at the height above. The owner moves bottom past a block before it uses it at another
//     height. So a thief that slept at a block finds bottom changed, whatever the block has become,
//     and moves nothing.
//       tests/simulation: fork_leaves_bottom_behind, fork_goes_to_a_block_that_is_not_above
// K7  When thieves have claimed an entry of a block, they have claimed all below it (K6). So the
//     owner, whose get finds that of its own block, is done: empty.
//       fork_queue_test: thieves_that_reach_the_top_leave_nothing_below
// K8  New blocks go into the ring between the highest that the owner has been at since the stack
//     was that low, and the lowest in use. Who stands at the former, all of which is claimed, finds
//     the block above at another height until the owner has entered one there, and the link does
//     not change from then on until bottom is past it.
//       tests/simulation: fork_grows_where_it_has_been
// K9  At most one thief exposes. One mark cannot be taken for another's.
//       tests/simulation: fork_exposes_by_two
// K10 A request is answered by the first put that begins behind it, or an entry that is there then
//     is granted already: request, then high; high, then request, all of it sequentially
//     consistent. A put looks at high behind its store of the cursor, and an exposure at the cursor
//     behind its thief's store of high, each with a fence between: what a put that was in progress
//     did, one of the two sees. So a thief that requests, exposes and looks misses nothing that is
//     put from then on, up to the put that answers it. The owner knows of that one (put_quickly),
//     and may wake the thief: it may get what it has granted itself, and what it puts next is
//     private again.
//       tests/simulation: fork_looks_at_the_request_first, fork_looks_at_high_before_it_puts
// K11 Heights wrap after 2^31 blocks; a thief would have to sleep for as long between its loads and
//     its claim to mistake one for another.
//       fork_queue_test: heights_wrap
//
// Where the kernel has no membarrier(2), no get is ever allowed by low, and no put by high: each
// takes the slow way, and its read-modify-write, or its store that is sequentially consistent, does
// what the fences do (K4, K10).

namespace bwos {

/// `Fence`: the two fences of K4; for tests and model checkers.
template <class T, std::size_t Entries = 64, std::size_t Blocks = 8, class Fence = asymmetric_fence>
class alignas(cache_line) fork_queue {
  static_assert(Blocks >= 2, "the owner needs a block to go up to");
  static_assert(Blocks <= 128, "the numbers of grown blocks have 32 bits");
  static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>);
  static_assert(sizeof(T) <= sizeof(void*), "queue pointers to larger things");

 public:
  using value_type = T;
  /// What grow() takes: storage that is the caller's.
  using block = detail::fork_block<T, Entries>;
  static constexpr std::size_t block_entries = Entries;
  /// Of the new queue; each grow() doubles it.
  static constexpr std::size_t block_count = Blocks;
  static constexpr std::size_t grow_max = 24;

  class owner;
  class thief;

  /// `fast`: whether Fence orders anything. `first_height` is for tests, which start just before
  /// heights wrap.
  explicit fork_queue(bool fast = Fence::available(), std::uint32_t first_height = 1) noexcept
      : owner_(*this, fast, first_height & detail::height_mask),
        bottom_(detail::make_position(first_height & detail::height_mask, 0)) {}
  fork_queue(const fork_queue&) = delete;
  fork_queue& operator=(const fork_queue&) = delete;

  /// The owner's side: for one thread at a time.
  owner& as_owner() noexcept { return owner_; }
  /// A thief's side: a handle for any thread, valid as long as the queue.
  thief as_thief() noexcept { return thief(*this); }

 private:
  static std::uint32_t above(std::uint32_t height) noexcept {
    return (height + 1) & detail::height_mask;
  }
  static std::uint32_t below(std::uint32_t height) noexcept {
    return (height - 1) & detail::height_mask;
  }

  block& block_at(std::uint32_t number) noexcept {
    if (number < Blocks) return blocks_[number];
    const auto part = static_cast<std::size_t>(std::bit_width(number / Blocks) - 1);
    return more_[part][number - (Blocks << part)];
  }

  std::array<block, Blocks> blocks_;
  std::array<block*, grow_max> more_{};  // the i-th has as many as there were before
  owner owner_;
  detail::fork_bottom bottom_;
  alignas(cache_line) detail::fork_exposer exposer_;
};

template <class T, std::size_t Entries, std::size_t Blocks, class Fence>
class fork_queue<T, Entries, Blocks, Fence>::thief {
 public:
  /// Whether there was something to steal a moment ago. Writes nothing, so it does not look beyond
  /// the block where thieves are: steal() may find something where this said no.
  bool sample() const noexcept {
    const detail::position at = queue_->bottom_.look();
    const std::uint32_t height = detail::round_of(at);
    const block& here = queue_->block_at(detail::index_of(at));
    return here.stealable(height) || (here.may_leave(height) && here.above()->is_at(above(height)));
  }

  /// Takes up to `max` (>= 1) of the oldest entries that are granted into `out`, all of one block.
  /// `conflict`: another thief or the owner was faster.
  steal_result steal(T* out, std::size_t max) const noexcept {
    for (;;) {  // ends: each turn but the last, bottom goes up or has gone up, and the top is not
                // left
      const detail::position at = queue_->bottom_.look();
      const std::uint32_t height = detail::round_of(at);
      block& here = queue_->block_at(detail::index_of(at));
      const steal_result result = here.steal(height, out, max);
      if (result.status != steal_status::empty) return result;
      if (!here.may_leave(height)) {
        if (here.is_at(height)) return result;
        continue;  // slept; bottom is elsewhere (K6)
      }
      block* const next = here.above();
      if (!next->is_at(above(height))) return result;
      queue_->bottom_.move(at, detail::make_position(above(height), next->number));
    }
  }

  /// Lets the owner's next put() or get() grant half of what is private, at least one entry. One
  /// that is in progress may pass by it; then an exposure that follows sees what it did (K10).
  void request() const noexcept {
    detail::fork_request& request = queue_->owner_.request_;
    detail::fork_limits<T>& limits = queue_->owner_.limits_;
    // Somebody has asked, and need not go on for the owner to see it.
    if (request.pending() && limits.puts_are_forbidden()) return;
    request.ask();
    limits.forbid_puts();
    limits.forbid_gets();
  }

  /// Grants all that is private in the owner's block, whatever the owner does meanwhile: of entries
  /// that come or go in that time, it may miss some. `empty`: nothing is private. `conflict`: the
  /// owner has come in between, or another thief is at it. Where Fence is membarrier(2), a system
  /// call of some 10 us.
  steal_status expose() const noexcept {
    exposure begun = begin_exposure();
    if (begun.needs_fence()) Fence::heavy();  // K4, K10
    return end_exposure(begun);
  }

  /// An exposure in two halves, between which one heavy fence serves for those of several queues.
  class exposure {
   public:
    /// Whether the fence is needed.
    [[nodiscard]] bool needs_fence() const noexcept { return fenced_; }

   private:
    friend thief;
    block* top_ = nullptr;  // null: another thief is at it
    detail::position marked_ = 0;
    bool fenced_ = false;
  };
  /// The first half, which the same thread must end soon.
  exposure begin_exposure() const noexcept {
    exposure begun;
    if (!queue_->exposer_.try_begin()) return begun;
    owner& victim = queue_->owner_;
    begun.top_ = victim.top_.look();
    begun.marked_ = begun.top_->begin_exposure();
    begun.fenced_ = begun.marked_ != 0 && victim.fast_;
    if (begun.fenced_) victim.limits_.forbid_gets();
    return begun;
  }
  /// The second half, behind Fence::heavy() if the first wants one (K4, K10). As expose().
  steal_status end_exposure(const exposure& begun) const noexcept {
    if (begun.top_ == nullptr) return steal_status::conflict;
    steal_status exposed = steal_status::empty;
    if (begun.marked_ != 0) {
      // Of a top that has been left since, the cursor is outside: then nothing is granted.
      exposed = begun.top_->expose(begun.marked_, private_end(*begun.top_));
    }
    queue_->exposer_.end();
    return exposed;
  }

  /// Whether the owner seems to hold entries that are not granted. A hint; costs the owner a cache
  /// miss.
  bool hides() const noexcept {
    const block* const top = queue_->owner_.top_.look();
    const std::ptrdiff_t count = private_end(*top);
    return count != 0 && count != std::ptrdiff_t{detail::grant_end(top->look())};
  }

 private:
  friend fork_queue;
  explicit thief(fork_queue& queue) noexcept : queue_(&queue) {}

  /// How many entries of `top`, thieves' ones included, end at the cursor.
  std::ptrdiff_t private_end(const block& top) const noexcept {
    return distance(top.begin(), queue_->owner_.limits_.cursor_seen());
  }

  /// In entries; they may lie in different blocks.
  static std::ptrdiff_t distance(const T* from, const T* to) noexcept {
    const auto bytes = static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(to) -
                                                   reinterpret_cast<std::uintptr_t>(from));
    return bytes / static_cast<std::ptrdiff_t>(sizeof(T));
  }

  fork_queue* queue_;
};

template <class T, std::size_t Entries, std::size_t Blocks, class Fence>
class alignas(cache_line) fork_queue<T, Entries, Blocks, Fence>::owner {
 public:
  owner(const owner&) = delete;
  owner& operator=(const owner&) = delete;

  /// False: full. That may be for a moment only, while a thief is still reading the block to be
  /// used next; put never waits for it. After grow() it will succeed.
  bool put(T value) noexcept { return put_quickly(value) || finish_put(value); }

  /// put() in two steps, for callers who have something to do when it goes the slow way, as then
  /// somebody may have asked for entries. False: finish_put() must follow at once.
  bool put_quickly(T value) noexcept {
    T* const at = limits_.cursor();
    *at = value;  // there is room behind the last entry for one that cannot stay
    limits_.set_cursor(at + 1);
    Fence::light();  // K10
    return limits_.has_room(at);
  }
  /// As put(). `value` is what put_quickly() was given.
  [[gnu::noinline]] bool finish_put(T value) noexcept {
    return put_slow(limits_.cursor() - 1, value);
  }

  /// The next put goes the slow way.
  void suspend_puts() noexcept { limits_.suspend_puts(); }

  /// What was put last and no thief has claimed; false: empty.
  bool get(T& value) noexcept { return get_quickly(value) || finish_get(value); }

  /// get() in two steps, for callers whose fast way shall need few registers. False: finish_get()
  /// must follow at once.
  bool get_quickly(T& value) noexcept {
    T* const at = limits_.cursor() - 1;
    limits_.set_cursor(at);
    Fence::light();  // K4
    if (!limits_.owns(at)) [[unlikely]] {
      return false;
    }
    value = *at;
    return true;
  }
  /// As get().
  [[gnu::noinline]] bool finish_get(T& value) noexcept { return get_slow(limits_.cursor(), value); }

  /// Whether get() would find nothing. "True" stays so until the next put; "false" lasts until
  /// thieves come.
  bool empty() const noexcept {
    const auto count = limits_.cursor() - here_->begin();
    return count == detail::grant_index(here_->look()) && (count != 0 || nothing_below());
  }

  /// How many blocks grow() takes; 0: the queue is as large as it can be.
  std::size_t growth() const noexcept { return parts_ == grow_max ? 0 : Blocks << parts_; }

  /// Adds growth() blocks, which are not 0, from `first` on. They must outlive the queue.
  void grow(block* first) noexcept {
    block* at = here_;
    for (block* up = at->above(); up->height == above(at->height); up = at->above()) at = up;
    const std::size_t count = growth();
    block* const next = at->above();
    for (std::size_t i = 0; i < count; ++i) {
      first[i].construct(static_cast<std::uint32_t>(count + i), at->height);
      first[i].below = i == 0 ? at : first + i - 1;
      first[i].link_above(i + 1 == count ? next : first + i + 1);
    }
    next->below = first + count - 1;
    queue_.more_[parts_++] = first;
    at->link_above(first);
  }

 private:
  friend fork_queue;

  owner(fork_queue& queue, bool fast, std::uint32_t height) noexcept
      : queue_(queue), here_(queue.blocks_.data()), fast_(fast) {
    block* const blocks = here_;
    for (std::size_t i = 0; i < Blocks; ++i) {
      blocks[i].construct(static_cast<std::uint32_t>(i), below(height));
      blocks[i].below = blocks + (i == 0 ? Blocks : i) - 1;
      blocks[i].link_above(blocks + (i + 1 == Blocks ? 0 : i + 1));
    }
    here_->begin_height(height);
    stand_at(here_);
  }

  // The order of the steps in these functions is the protocol.

  /// `value` has been put at `at`, which may be behind the last entry.
  bool put_slow(T* at, T value) noexcept {
    const bool fits = at != here_->end() || put_above(value);
    if (!fits) limits_.set_cursor(at);
    limits_.allow_puts(fast_ ? here_->end() : nullptr);
    if (request_.pending()) answer();  // K10
    return fits;
  }

  bool put_above(T value) noexcept {
    if (!go_up()) return false;
    T* const at = here_->begin();
    *at = value;
    limits_.set_cursor(at + 1);
    return true;
  }

  bool go_up() noexcept {
    block* const next = here_->above();
    const std::uint32_t height = above(here_->height);
    if (next->height != height) {
      if (!next->all_stolen()) return false;  // K5
      queue_.bottom_.move(detail::make_position(next->height, next->number),
                          detail::make_position(above(next->height), next->above()->number));  // K6
      next->begin_height(height);
    }
    grant_up_to(Entries);
    stand_at(next);
    return true;
  }

  /// At the beginning of an empty block.
  void stand_at(block* where) noexcept {
    here_ = where;
    top_.set(where);
    allow_gets(where->begin());
    where->enter();  // K3
    limits_.set_cursor(where->begin());
  }

  bool get_slow(T* at, T& value) noexcept {
    for (;;) {
      const detail::position word = here_->look();
      const std::uint32_t end = detail::grant_end(word);
      const std::uint32_t index = detail::grant_index(word);
      const auto count = static_cast<std::uint32_t>(at + 1 - here_->begin());
      std::uint32_t to = end;  // the entry is private
      if (count == end) {
        if (index == end) {
          if (count == 0 && go_down()) {
            at = limits_.cursor();
            continue;
          }
          limits_.set_cursor(at + 1);
          limits_.forbid_gets();
          return false;  // K7
        }
        to = index;
      }
      allow_gets(here_->begin() + to);
      if (!here_->take(word, to)) continue;  // K3, K4
      value = *at;
      if (request_.noticed()) answer();
      return true;
    }
  }

  /// To the last entry of the block below, as a get that has lowered the cursor; false: nothing is
  /// there.
  bool go_down() noexcept {
    if (nothing_below()) return false;
    here_ = here_->below;
    top_.set(here_);
    limits_.set_cursor(here_->end() - 1);
    limits_.suspend_puts();  // K2
    return true;
  }

  /// Once true, true until the next block is entered: what thieves have claimed they keep.
  bool nothing_below() const noexcept {
    const block* const next = here_->below;
    return next->height != below(here_->height) || detail::grant_index(next->look()) == Entries;
  }

  /// Grants half of what is private, at least one entry. Where nothing is, the next put does.
  void answer() noexcept {
    const auto count = static_cast<std::uint32_t>(limits_.cursor() - here_->begin());
    const std::uint32_t end = detail::grant_end(here_->look());
    if (count <= end) {
      limits_.suspend_puts();
      return;
    }
    request_.answer();
    grant_up_to(end + (count - end + 1) / 2);
  }

  void grant_up_to(std::uint32_t count) noexcept {
    detail::position word = here_->look();
    // A thief may expose more meanwhile.
    while (detail::grant_end(word) < count && !here_->grant(word, count)) {
    }
    limits_.forbid_gets();  // K2
  }

  void allow_gets(T* from) noexcept {
    if (fast_) limits_.allow_gets(from);
  }

  // One cache line for all that put and get touch besides the entries.
  detail::fork_limits<T> limits_;
  detail::fork_request request_;
  detail::fork_top<block> top_;
  fork_queue& queue_;
  block* here_;  // the top block
  const bool fast_;
  std::uint8_t parts_ = 0;  // of more_
};

}  // namespace bwos
