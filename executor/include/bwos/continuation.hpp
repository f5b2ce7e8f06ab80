// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace bwos {

/// One unit of work: what a pool queues, steals and runs. It is intrusive: it lives in a coroutine
/// frame, in a posted handler's allocation or in an object of the caller's, so that queueing it
/// allocates nothing.
///
/// Lifetime: from `pool::post` until `invoke` is called the continuation belongs to the pool and
/// must stay where it is. `invoke` is called exactly once per post. It may free the continuation,
/// or post it again, as its last act. Threads: `invoke` runs on a worker of the pool for
/// `disposition::run`; for `disposition::discard` (the pool ended before its turn came) it runs on
/// the thread that destroys the pool, and must only free.
struct continuation {
  enum class disposition : std::uint8_t { run, discard };
  using function = void (*)(continuation&, disposition) noexcept;

  constexpr explicit continuation(function on_invoke) noexcept : invoke(on_invoke) {}
  continuation(const continuation&) = delete;
  continuation& operator=(const continuation&) = delete;

  function invoke;
  continuation* next =
      nullptr;  ///< The pool's while queued: the link of every list that it stands in.
};

}  // namespace bwos
