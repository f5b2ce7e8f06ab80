// SPDX-License-Identifier: Apache-2.0
#include <bwos/task_group.hpp>
#include <system_error>

#include "pool/pool_core.hpp"

namespace bwos {

task_group::~task_group() {
  const std::exception_ptr failure = join();
  if (!failure) return;
  if (detail::forks* const here = detail::forks::here()) here->count_dropped_exceptions(thrown_);
}

void task_group::start(child_base& work) noexcept {
  // [group.begin] relaxed: who calls keeps the count above 0. Partner: [group.end].
  running_.fetch_add(1, relaxed);
  detail::forks* const here = detail::forks::here(pool_.core());
  if (here == nullptr) {
    pool_.post(work);
  } else if (here->put(work) == detail::forks::put_result::refused) {
    work.run_here();
  }
}

// All children are run by one function, and invoked by another, by which they are known.

void task_group::child_base::run_forked(detail::forked& self) noexcept {
  static_cast<child_base&>(self).run_here();
}

void task_group::child_base::posted(continuation& self, disposition how) noexcept {
  auto& mine = static_cast<child_base&>(self);
  if (how == disposition::run) {
    mine.run_here();
  } else {
    mine.discard();
  }
}

detail::waited_work task_group::children() const noexcept {
  return {[](const continuation& work, const void* group) noexcept {
            return work.invoke == &child_base::posted &&
                   &static_cast<const child_base&>(work).group == group;
          },
          [](const detail::forked& work, const void* group) noexcept {
            return work.run == &child_base::run_forked &&
                   &static_cast<const child_base&>(work).group == group;
          },
          this};
}

void task_group::child_ended(std::exception_ptr failure) noexcept {
  // [group.failed] relaxed: counts; the end of the child passes on the exception. Partner:
  // [group.failures].
  if (failure && failures_.fetch_add(1, relaxed) == 0) first_failure_ = std::move(failure);
  // [group.end] acq_rel: hands on what the child has done; the last takes over all of it, for the
  // waiter. Partner: [group.end], [group.wait].
  if (running_.fetch_sub(1, acq_rel) == 1) end_->end();
}

void task_group::child_discarded() noexcept {
  child_ended(
      std::make_exception_ptr(std::system_error(std::make_error_code(std::errc::operation_canceled),
                                                "bwos::task_group: the pool has ended")));
}

std::exception_ptr task_group::join() noexcept {
  // [group.wait] acq_rel: as the end of a child. Partner: [group.end].
  if (running_.fetch_sub(1, acq_rel) != 1) {
    if (detail::forks* const here = detail::forks::here(pool_.core())) {
      here->wait(*end_, children());
    } else {
      detail::outside_wait(pool_.core()).until(*end_, children());
    }
  }
  end_.emplace();
  // [group.again] relaxed: nobody else knows the group. Partner: none (one thread).
  running_.store(1, relaxed);
  // [group.failures] relaxed: behind the wait. Partner: [group.failed].
  thrown_ = failures_.exchange(0, relaxed);
  return std::exchange(first_failure_, nullptr);
}

void task_group::wait() {
  if (std::exception_ptr failure = join()) std::rethrow_exception(std::move(failure));
}

}  // namespace bwos
