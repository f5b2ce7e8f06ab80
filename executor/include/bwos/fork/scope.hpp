// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <stop_token>
#include <utility>

#include <bwos/base/atomic.hpp>
#include <bwos/base/memory_order.hpp>
#include <bwos/fork/forks.hpp>
#include <bwos/fork/memory.hpp>
#include <bwos/task.hpp>

// How the coroutines of <bwos/fork_join.hpp> start, end and meet; not for use of its own.
//
// ROLES  The strand is what runs the parent: it starts one child after the other. Before each but
// the last it forks the parent's continuation, so that a thief may go on as the strand while this
// worker is in the child. A child that ends takes that continuation back and goes on as the strand;
// or it finds it gone, and arrives at the join.
//
// INVARIANTS
// J1  The plain members are the strand's. It moves from worker to worker by the queue only, whose
//     grants and claims order it.
// J2  taken_ counts the times that somebody else than an ending child has taken the continuation:
//     so many children arrive. outstanding_ goes down by one for each, and up by taken_ when the
//     last child, which nobody forked, has ended. Who brings it to 0 resumes the parent, once.
//     Where taken_ is 0 then, nobody arrives, and there is no read-modify-write at all.
// J3  Which child takes the continuation back does not matter: each that does leaves another one
//     outstanding in its place.
// J4  Behind its arrival a child does not touch the scope: the parent may have gone on and freed
//     it. Nor does the strand behind the fork: it may have been stolen.
// Tests: fork_join_test

namespace bwos::detail {

class fork_promise_base;

/// One fork-join of a parent; lies in its frame.
class fork_scope : public forked {
  static constexpr std::size_t child_size = sizeof(std::coroutine_handle<>);
  static constexpr std::uint32_t abandoned = std::uint32_t{1} << 31;  // in failures_

 public:
  fork_scope() noexcept : forked(&taken) {}

  /// Makes `count` (>= 1) suspended coroutines its children and starts the first. At `children`
  /// lies one after the other what consists of a coroutine's handle; it stays until the join.
  /// Returns what await_suspend returns.
  template <class Parent>
  std::coroutine_handle<> start(std::coroutine_handle<Parent> parent, const void* children,
                                std::size_t count) noexcept;

  /// A child's end.
  std::coroutine_handle<> forked_ended() noexcept {
    forks* const here = forks::here();
    if (here != nullptr && here->take(*this)) [[likely]] {
      return start_next();
    }
    // [scope.arrive] acq_rel: hands on the child's result; the last to arrive takes over all of
    // them, and the parent (J2). Partner: [scope.arrive], [scope.last].
    if (outstanding_.fetch_sub(1, acq_rel) != 1) return std::noop_coroutine();
    return all_arrived(here);
  }
  /// The end of the child that nobody forked.
  std::coroutine_handle<> last_ended() noexcept {
    const std::int32_t taken = taken_;
    if (taken != 0) [[unlikely]] {
      // [scope.last] acq_rel: as an arrival. Partner: [scope.arrive].
      if (outstanding_.fetch_add(taken, acq_rel) != -taken) return std::noop_coroutine();
      return all_arrived(forks::here());
    }
    return forks::transfer(forks::here(), parent_);
  }
  /// The strand goes on with the next child.
  std::coroutine_handle<> start_next() noexcept;

  /// In a child that throws.
  void child_failed() noexcept {
    // [scope.failed] relaxed: counts; the join passes on the exception. Partner: none (the join
    // orders it).
    if ((failures_.fetch_add(1, relaxed) & ~abandoned) != 0) return;
    ::new (first_failure_) std::exception_ptr(std::current_exception());
  }
  /// Behind the join.
  void rethrow_failure() {
    // [scope.failures] relaxed: behind the join. Partner: none (the join orders it).
    const std::uint32_t failures = failures_.load(relaxed);
    if (failures != 0) [[unlikely]] {
      rethrow(failures);
    }
  }

  /// A child that will never end. The link above where it was the last one; null where others are
  /// still to come.
  frame_link* child_abandoned(bool last) noexcept;
  [[nodiscard]] frame_link* link_above() const noexcept { return link_; }

 private:
  static void taken(forked& self) noexcept {
    auto& scope = static_cast<fork_scope&>(self);
    ++scope.taken_;
    scope.start_next().resume();
  }
  /// The parent goes on; or nobody, where a child was abandoned, as by the end of another pool that
  /// it was on.
  std::coroutine_handle<> all_arrived(forks* here) noexcept {
    // [scope.was_abandoned] relaxed: behind all arrivals. Partner: [scope.abandoned].
    if ((failures_.load(relaxed) & abandoned) != 0) [[unlikely]] {
      abandon_parent();
      return std::noop_coroutine();
    }
    return forks::transfer(here, parent_);
  }
  void abandon_parent() noexcept;
  void drop_failure() noexcept;
  [[noreturn]] void rethrow(std::uint32_t failures);
  std::exception_ptr take_failure() noexcept;
  static std::coroutine_handle<> child_at(const std::byte* where) noexcept {
    void* address;
    std::memcpy(static_cast<void*>(&address), where, child_size);
    return std::coroutine_handle<>::from_address(address);
  }

  std::coroutine_handle<> parent_;
  frame_link* link_ = nullptr;  // of the parent
  const std::byte* next_child_ = nullptr;
  const std::byte* last_child_ = nullptr;
  std::int32_t taken_ = 0;
  atomic<std::int32_t> outstanding_{0};
  atomic<std::uint32_t> failures_{0};
  // Made by the first child that fails, and ended by rethrow().
  alignas(std::exception_ptr) unsigned char first_failure_[sizeof(std::exception_ptr)];
};

/// One call of a coroutine; lies in its caller's frame.
class fork_call {
 public:
  template <class Parent>
  void set(std::coroutine_handle<Parent> parent) noexcept {
    parent_ = parent;
    if constexpr (std::derived_from<Parent, frame_link>) link_ = &parent.promise();
  }
  [[nodiscard]] std::coroutine_handle<> parent() const noexcept { return parent_; }
  [[nodiscard]] frame_link* link_above() const noexcept { return link_; }

  void failed() noexcept { failure_ = std::current_exception(); }
  void rethrow_failure() {
    if (failure_ != nullptr) [[unlikely]] {
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
  }

 private:
  std::coroutine_handle<> parent_;
  frame_link* link_ = nullptr;
  std::exception_ptr failure_;
};

/// Of every coroutine that forks, or is forked.
class fork_promise_base : public frame_link {
  struct final_awaiter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
      return ended.promise().ended();
    }
    void await_resume() const noexcept {}
  };

 public:
  static void* operator new(std::size_t size) { return fork_memory::allocate(size); }
  static void operator delete(void* memory, std::size_t size) noexcept {
    fork_memory::deallocate(memory, size);
  }

  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] final_awaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept {
    if (up_kind() == kind::called) {
      up<fork_call>()->failed();
    } else {
      up<fork_scope>()->child_failed();
    }
  }

  /// Before it starts.
  template <class Parent>
  void called_by(std::coroutine_handle<Parent> parent, fork_call& call) noexcept {
    call.set(parent);
    inherit_stop(parent);
    set_up(kind::called, &call);
  }
  void forked_from(fork_scope& scope) noexcept { set_up(kind::forked, &scope); }
  void last_of(fork_scope& scope) noexcept { set_up(kind::last, &scope); }
  void run_alone() noexcept { set_up(kind::unqueued, up<fork_scope>()); }
  template <class Parent>
  void inherit_stop([[maybe_unused]] std::coroutine_handle<Parent> parent) noexcept {
    if constexpr (std::derived_from<Parent, fork_promise_base>) stop_ = parent.promise().stop_;
  }

  /// Of the nearest with_stop() above; null: there is none.
  [[nodiscard]] const std::stop_token* stop() const noexcept { return stop_; }
  void set_stop(const std::stop_token* to) noexcept { stop_ = to; }

  static fork_promise_base& of(std::coroutine_handle<> child) noexcept {
    return std::coroutine_handle<fork_promise_base>::from_address(child.address()).promise();
  }

 private:
  std::coroutine_handle<> ended() noexcept {
    switch (up_kind()) {
      case kind::forked:
        return up<fork_scope>()->forked_ended();
      case kind::last:
        return up<fork_scope>()->last_ended();
      case kind::unqueued:
        return up<fork_scope>()->start_next();
      default:
        break;
    }
    return forks::transfer(forks::here(), up<fork_call>()->parent());
  }

  const std::stop_token* stop_ = nullptr;
};

template <class Parent>
std::coroutine_handle<> fork_scope::start(std::coroutine_handle<Parent> parent,
                                          const void* children, std::size_t count) noexcept {
  parent_ = parent;
  if constexpr (std::derived_from<Parent, frame_link>) link_ = &parent.promise();
  next_child_ = static_cast<const std::byte*>(children);
  last_child_ = next_child_ + (count - 1) * child_size;
  for (const std::byte* at = next_child_; at <= last_child_; at += child_size) {
    fork_promise_base& child = fork_promise_base::of(child_at(at));
    child.inherit_stop(parent);
    child.forked_from(*this);
  }
  fork_promise_base::of(child_at(last_child_)).last_of(*this);
  return start_next();
}

inline std::coroutine_handle<> fork_scope::start_next() noexcept {
  forks* const here = forks::here();
  const std::coroutine_handle<> child = child_at(next_child_);
  if (next_child_ == last_child_) return forks::transfer(here, child);
  next_child_ += child_size;
  if (here == nullptr) {
    fork_promise_base::of(child).run_alone();
    return child;
  }
  switch (here->put(*this)) {  // behind it, J4
    case forks::put_result::stored:
      [[likely]] return here->transfer(child);
    case forks::put_result::yield:
      return here->postpone(child);
    case forks::put_result::refused:
      fork_promise_base::of(child).run_alone();
      break;
  }
  return here->transfer(child);
}

}  // namespace bwos::detail
