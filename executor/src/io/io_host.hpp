// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/continuation_chain.hpp"
#include "base/handler_depot.hpp"
#include "base/mutex.hpp"

namespace bwos {

class reactor;

/// What a host keeps until that has ended by itself, or the host ends.
class resident {
 public:
  /// The host ends before it: nothing runs any more, and the reactors still live. Once, on the
  /// thread that ends the host.
  virtual void host_ended() noexcept = 0;

 protected:
  resident() = default;
  ~resident() = default;
  resident(const resident&) = default;
  resident& operator=(const resident&) = default;
};

/// What sockets need of whoever runs their continuations. Any thread.
class io_host {
  using residents = std::unordered_map<const resident*, std::shared_ptr<resident>>;

 public:
  io_host(const io_host&) = delete;
  io_host& operator=(const io_host&) = delete;

  virtual void post(continuation& work) noexcept = 0;
  /// What a dedicated reactor thread has found ready, in its order; not empty.
  virtual void deliver(continuation_chain ready) noexcept = 0;
  /// A dedicated reactor thread begins; false: it shall not, as its host stops.
  virtual bool reactor_thread_begins() noexcept { return true; }
  /// It delivers nothing more.
  virtual void reactor_thread_left() noexcept {}
  virtual void work_started() noexcept = 0;
  virtual void work_finished() noexcept = 0;

  /// The reactors that connections are spread over; empty without descriptors.
  [[nodiscard]] const std::vector<reactor*>& homes() const noexcept { return homes_; }
  /// Keeps `what` until let_go() or the host's end. Throws std::bad_alloc.
  void keep(std::shared_ptr<resident> what) {
    const std::lock_guard guard(kept_lock_);
    const resident* const at = what.get();
    kept_.emplace(at, std::move(what));
  }
  /// Hands it back. Null: it is not kept, or the host is ending and tells it.
  std::shared_ptr<resident> let_go(const resident& what) noexcept {
    const std::lock_guard guard(kept_lock_);
    const auto found = kept_.find(&what);
    if (found == kept_.end()) return nullptr;
    std::shared_ptr<resident> kept = std::move(found->second);
    kept_.erase(found);
    return kept;
  }

  handler_depot handlers;

 protected:
  io_host() = default;
  ~io_host() = default;

  /// The last step of a host's end but for its reactors: when all that waited has been discarded.
  /// True: somebody was told, who may have posted something.
  bool end_residents() noexcept {
    residents last;
    {
      const std::lock_guard guard(kept_lock_);
      last.swap(kept_);
    }
    for (const auto& [at, each] : last) each->host_ended();
    return !last.empty();
  }

  std::vector<reactor*> homes_;

 private:
  mutex kept_lock_;
  residents kept_;
};

}  // namespace bwos
