// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>

namespace bwos::server {

/// Tells whoever listens that the server drains: by a call, so that to wait for it takes no thread
/// and no look now and then. Any thread.
class drain_bell {
 public:
  /// Listens while it lives: `told` is called with `whom` by the thread that rings, under a lock
  /// that also the beginning and the end of a listener take.
  class listener {
   public:
    listener(drain_bell& to, void (*told)(void* whom) noexcept, void* whom)
        : bell_(to), told_(told), whom_(whom) {
      const std::lock_guard held(bell_.mutex_);
      next_ = bell_.first_;
      if (next_ != nullptr) next_->previous_ = this;
      bell_.first_ = this;
    }
    listener(const listener&) = delete;
    listener& operator=(const listener&) = delete;
    ~listener() {
      const std::lock_guard held(bell_.mutex_);
      if (next_ != nullptr) next_->previous_ = previous_;
      (previous_ != nullptr ? previous_->next_ : bell_.first_) = next_;
    }

   private:
    friend class drain_bell;
    drain_bell& bell_;
    void (*const told_)(void*) noexcept;
    void* const whom_;
    listener* next_ = nullptr;
    listener* previous_ = nullptr;
  };

  /// All that listen now.
  void ring() noexcept {
    const std::lock_guard held(mutex_);
    for (const listener* each = first_; each != nullptr; each = each->next_) {
      each->told_(each->whom_);
    }
  }

 private:
  std::mutex mutex_;
  listener* first_ = nullptr;
};

/// Whether the server drains. One for all transports; outlives them.
class drain_state {
 public:
  /// Any thread.
  [[nodiscard]] bool is_draining() const noexcept {
    // [drain.look] relaxed: it orders nothing. Partner: [drain.begin].
    return draining_.load(std::memory_order_relaxed);
  }
  /// The server is not ready any more. Once, by the thread that got the signal.
  void begin() noexcept {
    // [drain.begin] relaxed: whoever misses it sees it at its next request or wake-up, and whoever
    // listens to the bell by its lock. Partner: [drain.look].
    draining_.store(true, std::memory_order_relaxed);
    bell_.ring();
  }
  /// Rung once the drain has begun.
  [[nodiscard]] drain_bell& bell() const noexcept { return bell_; }

 private:
  std::atomic<bool> draining_{false};
  mutable drain_bell bell_;
};

}  // namespace bwos::server
