// SPDX-License-Identifier: Apache-2.0
#include <bwos/fork/scope.hpp>
#include <utility>

namespace bwos::detail {

void frame_link::abandon() noexcept {
  frame_link* at = this;
  // Ends: a parent was suspended before its child started, so that links form no cycle.
  while (at != nullptr) {
    switch (at->up_kind()) {
      case kind::none:
        return;
      case kind::awaited:
        at = at->up<frame_link>();
        break;
      case kind::called:
        at = at->up<fork_call>()->link_above();
        break;
      case kind::root:
        static_cast<root_link*>(at)->destroy();
        return;
      case kind::forked:
        at = at->up<fork_scope>()->child_abandoned(false);
        break;
      case kind::last:
      case kind::unqueued:  // the strand, too: what it has not begun will not begin
        at = at->up<fork_scope>()->child_abandoned(true);
        break;
    }
  }
}

/// As an arrival, but nobody goes on.
frame_link* fork_scope::child_abandoned(bool last) noexcept {
  // [scope.abandoned] relaxed: the arrival passes it on. Partner: [scope.was_abandoned].
  failures_.fetch_or(abandoned, relaxed);
  // [scope.abandon_last] acq_rel: as an arrival. Partner: [scope.arrive].
  // [scope.abandon] acq_rel: as an arrival. Partner: [scope.arrive], [scope.last].
  const bool others_come = last ? outstanding_.fetch_add(taken_, acq_rel) != -taken_
                                : outstanding_.fetch_sub(1, acq_rel) != 1;
  if (others_come) return nullptr;
  drop_failure();
  return link_;
}

/// Behind the arrival of a child that has ended.
void fork_scope::abandon_parent() noexcept {
  drop_failure();
  if (link_ != nullptr) link_->abandon();
}

void fork_scope::drop_failure() noexcept {
  // [scope.failed_before] relaxed: behind all arrivals. Partner: [scope.failures].
  if ((failures_.load(relaxed) & ~abandoned) != 0) static_cast<void>(take_failure());
}

/// Of the first child that failed.
std::exception_ptr fork_scope::take_failure() noexcept {
  auto& kept = *std::launder(reinterpret_cast<std::exception_ptr*>(first_failure_));
  std::exception_ptr failure = std::exchange(kept, nullptr);
  kept.~exception_ptr();
  return failure;
}

void fork_scope::rethrow(std::uint32_t failures) {
  forks* const here = forks::here();
  if (here != nullptr && failures > 1) here->count_dropped_exceptions(failures - 1);
  std::rethrow_exception(take_failure());
}

}  // namespace bwos::detail
