// SPDX-License-Identifier: Apache-2.0
#include "scheduler/fork_worker.hpp"

#include <memory>
#include <new>

#include "base/check.hpp"
#include "scheduler/scheduler.hpp"
#include "scheduler/worker.hpp"
#include "steal/policy.hpp"

namespace bwos {
namespace detail {

forks* forks::here(const pool_core& of) noexcept {
  forks* const mine = here();
  return mine != nullptr && static_cast<fork_worker*>(mine)->pool() == &of ? mine : nullptr;
}

forks::put_result forks::finish_put(forked& entry) noexcept {
  return static_cast<fork_worker*>(this)->finish_put(entry);
}

bool forks::finish_take(forked& entry, forked* other) noexcept {
  if (other == nullptr && !own().finish_get(other)) return false;
  if (other == &entry) return true;
  static_cast<fork_worker*>(this)->put_back(*other);
  return false;
}

bool forks::finish_take_below(forked& entry, const join_word& end, forked* other) noexcept {
  if (other == nullptr && !own().finish_get(other)) return false;
  while (other != &entry) {
    if (end.over()) {
      static_cast<fork_worker*>(this)->put_back(*other);
      return false;
    }
    run(*other);
    if (!own().get(other)) return false;
  }
  return true;
}

void forks::run_postponed() noexcept {
  static_cast<fork_worker*>(this)->run_postponed();
}

void forks::wait(join_word& end, waited_work work) noexcept {
  static_cast<fork_worker*>(this)->wait(end, work);
}

bool forks::try_run_one() noexcept {
  return static_cast<fork_worker*>(this)->try_run_one();
}

void forks::count_dropped_exceptions(std::size_t count) noexcept {
  static_cast<fork_worker*>(this)->counters_.exceptions_dropped.add(count);
}

}  // namespace detail

namespace {

/// Looks at others' queues before a worker goes on to sleep: an owner that forks all the time
/// answers within a few. Some 5 us. Measured on a prototype.
constexpr unsigned patient_looks = 64;
/// Workers looked at in one attempt, of those in use.
constexpr unsigned looked_at_max = 8;

void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace

/// Blocks that the queue has been given.
struct fork_worker::more_blocks {
  std::unique_ptr<queue_type::block[]> blocks;
  more_blocks* next;
};

fork_worker::fork_worker(scheduler& all, unsigned index, pool_core* pool, worker_counters& counters)
    : all_(all), index_(index), pool_(pool), counters_(counters), random_(index) {
  if (parker_.get() == nullptr) throw std::bad_alloc();
}

fork_worker::~fork_worker() {
  while (grown_ != nullptr) delete std::exchange(grown_, grown_->next);
}

bool fork_worker::grow() noexcept {
  const std::size_t count = own().growth();
  if (count == 0) return false;
  std::unique_ptr<queue_type::block[]> blocks(new (std::nothrow) queue_type::block[count]);
  if (!blocks) return false;
  auto* const kept = new (std::nothrow) more_blocks{std::move(blocks), grown_};
  if (kept == nullptr) return false;
  grown_ = kept;
  own().grow(kept->blocks.get());
  return true;
}

detail::forks::put_result fork_worker::finish_put(forked& entry) noexcept {
  if (!own().finish_put(&entry) && (!grow() || !own().put(&entry))) return put_result::refused;
  if (depth_ >= all_.settings.wait_depth && take(entry)) {
    own().suspend_puts();
    return put_result::refused;
  }
  if (!used_) begin_use();
  if (all_.steals && !all_.in_child()) all_.wake_for_forks(index_);
  return must_yield() ? put_result::yield : put_result::stored;
}

/// Who looked while it was out has not seen it (W2).
void fork_worker::put_back(forked& entry) noexcept {
  if (own().put_quickly(&entry)) return;
  detail::refuse(!own().finish_put(&entry),
                 "a fork queue has no room for what was just taken from it");
  if (depth_ >= all_.settings.wait_depth) own().suspend_puts();
  if (all_.steals && !all_.in_child()) all_.wake_for_forks(index_);
}

void fork_worker::begin_use() noexcept {
  used_ = true;
  // [forks.in_use] seq_cst: before the look who sleeps (W1). Partner: [forks.in_use.look].
  in_use_.store(true, std::memory_order_seq_cst);
  all_.watch.wake_for_forks();
}

void fork_worker::end_use() noexcept {
  own().suspend_puts();
  used_ = false;
  // [forks.unused] relaxed: who sees it late looks in vain. Partner: [forks.in_use.look].
  in_use_.store(false, std::memory_order_relaxed);
}

bool fork_worker::must_yield() const noexcept {
  // [forks.yield.look] seq_cst: behind the slow way's store to the limit: an asker's that it has
  // overwritten came with this. Partner: [forks.yield].
  return waits_ == 0 && yield_asked_.load(std::memory_order_seq_cst);
}

void fork_worker::ask_to_yield() noexcept {
  // [forks.yield] seq_cst: before the request. Partner: [forks.yield.look].
  yield_asked_.store(true, std::memory_order_seq_cst);
  thief().request();
}

void fork_worker::run_postponed() noexcept {
  while (next_ != nullptr && !must_yield()) {
    std::exchange(next_, nullptr).resume();
  }
}

bool fork_worker::run_all() noexcept {
  // [forks.yield.done] relaxed: a request that this overwrites comes anew after a slice. Partner:
  // [forks.yield].
  yield_asked_.store(false, std::memory_order_relaxed);
  forked* entry = nullptr;
  do {
    run_postponed();
    if (next_ == nullptr && !own().get(entry)) {
      end_use();
      return true;
    }
    if (next_ == nullptr) run(*entry);
  } while (!must_yield());
  return false;
}

void fork_worker::finish() noexcept {
  while (pending()) run_all();
}

template <class Holds>
bool fork_worker::any_other(const Holds& holds) const noexcept {
  const unsigned workers = all_.slots();
  for (unsigned i = 0; i < workers; ++i) {
    if (i == index_) continue;
    fork_worker& other = all_.slot(i).forks();
    if (other.in_use() && holds(other)) return true;
  }
  return false;
}

bool fork_worker::others_in_use() const noexcept {
  return any_other([](fork_worker&) { return true; });
}
bool fork_worker::others_have_granted() const noexcept {
  return any_other([](fork_worker& other) { return other.thief().sample(); });
}
bool fork_worker::others_have_some() const noexcept {
  return any_other(
      [](fork_worker& other) { return other.thief().sample() || other.thief().hides(); });
}

bool fork_worker::may_steal() const noexcept {
  return all_.steals && all_.slots() > 1 && depth_ < all_.settings.wait_depth && !all_.in_child();
}

detail::forked* fork_worker::steal() noexcept {
  const unsigned workers = all_.slots();
  unsigned victim = random_.below(workers);
  unsigned looked_at = 0;
  for (unsigned i = 0; i < workers && looked_at < looked_at_max; ++i) {
    if (++victim >= workers) victim = 0;
    if (victim == index_) continue;
    fork_worker& other = all_.slot(victim).forks();
    if (!other.in_use()) continue;
    ++looked_at;
    const queue_type::thief thief = other.thief();
    forked* entry = nullptr;
    for (unsigned tries = 0; tries < claims_per_block_max; ++tries) {
      const steal_result result = thief.steal(&entry, 1);
      if (result.count != 0) {
        counters_.fork_steal.add(1);
        return entry;
      }
      if (result.status != steal_status::conflict) break;
    }
    thief.request();
  }
  return nullptr;
}

detail::forked* fork_worker::steal_patiently() noexcept {
  forked* entry = nullptr;
  if (!may_steal() || !others_in_use()) return nullptr;
  for (unsigned i = 0; i < patient_looks && entry == nullptr && !all_.stopping(); ++i) {
    if (i != 0) pause();
    entry = steal();
  }
  return entry;
}

/// One fence for all of them. True: some were missed, as their owners or other thieves were at it.
bool fork_worker::expose_others() noexcept {
  using exposure = queue_type::thief::exposure;
  bool missed = false;
  unsigned from = 0;
  while (from < all_.slots()) {
    struct {
      fork_worker* victim;
      exposure begun;
    } begun[looked_at_max];
    unsigned count = 0;
    bool fence = false;
    for (; from < all_.slots() && count < looked_at_max; ++from) {
      if (from == index_) continue;
      fork_worker& other = all_.slot(from).forks();
      if (!other.in_use()) continue;
      other.thief().request();
      begun[count] = {&other, other.thief().begin_exposure()};
      fence = fence || begun[count].begun.needs_fence();
      ++count;
    }
    if (fence) {
      counters_.fork_expose.add(1);
      asymmetric_fence::heavy();
    }
    for (unsigned i = 0; i < count; ++i) {
      const steal_status exposed = begun[i].victim->thief().end_exposure(begun[i].begun);
      missed = missed || exposed == steal_status::conflict;
    }
  }
  return missed;
}

bool fork_worker::try_run_one() noexcept {
  if (depth_ >= all_.settings.wait_depth) return false;
  forked* entry = nullptr;
  if (!own().get(entry)) entry = may_steal() ? steal() : nullptr;
  if (entry == nullptr) return false;
  const std::uintptr_t outer = begin_stack();
  ++waits_;
  run_deeper(*entry);
  --waits_;
  end_stack(outer);
  return true;
}

void fork_worker::run_deeper(forked& entry) noexcept {
  if (++depth_ >= all_.settings.wait_depth) own().suspend_puts();
  run(entry);
  --depth_;
}

/// Runs an entry of its own queue, if there is one that the wait may run (W5).
bool fork_worker::run_own(waiting& now) noexcept {
  forked* entry = nullptr;
  if (now.own == waiting::entries::none || !own().get(entry)) return false;
  const bool counts =
      now.own == waiting::entries::older &&
      (now.work.is_forked == nullptr || !now.work.is_forked(*entry, now.work.whole));
  // A group's children may lie below: then there is no other way to them.
  if (counts && depth_ >= all_.settings.wait_depth && now.work.is_forked == nullptr) {
    put_back(*entry);
    now.own = waiting::entries::none;
    return false;
  }
  end_search();
  if (counts) {
    run_deeper(*entry);
  } else {
    run(*entry);
  }
  return true;
}

bool fork_worker::run_stolen_deeper() noexcept {
  forked* const entry = steal_patiently();
  if (entry == nullptr) return false;
  end_search();
  run_deeper(*entry);
  return true;
}

void fork_worker::wait(detail::join_word& end, detail::waited_work work) noexcept {
  const std::uintptr_t outer = begin_stack();
  ++waits_;
  waiting now{work};
  while (next_ != nullptr) run_postponed();
  now.own = own().empty() ? waiting::entries::younger : waiting::entries::older;
  while (!end.over()) {
    if (next_ != nullptr) {
      run_postponed();
    } else if (run_own(now) || run_stolen_deeper()) {
      continue;
    } else if (all_.stopping() && !all_.in_child() && pool_ != nullptr) {
      detail::outside_wait(*pool_).until(end, work);
    } else {
      sleep(end);
    }
  }
  end_search();
  --waits_;
  end_stack(outer);
}

void fork_worker::sleep(detail::join_word& end) noexcept {
  detail::refuse(
      all_.in_child(),
      "a wait for forked work in a child of fork(), where the thread that runs it is not");
  if (!end.announce(parker_.get())) return;
  const bool open = may_steal();
  if (open) {
    all_.waits.announce(word(), bit(), std::exchange(searches_, false));
    if (expose_others() || others_have_granted()) {
      end.retract(parker_.get());
      searches_ = all_.waits.leave(word(), bit(), false);
      return;
    }
  }
  counters_.fork_sleep.add(1);
  (*parker_).wait(-1);
  end.retract(parker_.get());
  if (open) searches_ = all_.waits.leave(word(), bit(), false);
}

/// As search::end(): the last searcher looks whether there is more, also what is hidden.
void fork_worker::end_search() noexcept {
  if (!std::exchange(searches_, false)) return;
  if (all_.waits.end_search(word()) && others_have_some()) all_.wake_for_forks(index_);
}

unsigned fork_worker::word() const noexcept {
  return index_ / idle_set::word_workers_max;
}
unsigned fork_worker::bit() const noexcept {
  return index_ % idle_set::word_workers_max;
}

}  // namespace bwos
