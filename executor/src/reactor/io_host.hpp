// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/continuation_chain.hpp"
#include "base/handler_depot.hpp"

namespace bwos {

class reactor;

/// What sockets need of whoever runs their continuations. Any thread.
class io_host {
 public:
  io_host(const io_host&) = delete;
  io_host& operator=(const io_host&) = delete;

  virtual void post(continuation& work) noexcept = 0;
  /// What a dedicated reactor thread has found ready, in its order; not empty.
  virtual void deliver(continuation_chain ready) noexcept = 0;
  virtual void work_started() noexcept = 0;
  virtual void work_finished() noexcept = 0;

  /// The reactors that connections are spread over; empty without descriptors.
  [[nodiscard]] const std::vector<reactor*>& homes() const noexcept { return homes_; }
  /// Kept until the host is destroyed.
  void keep(std::shared_ptr<void> what) {
    const std::lock_guard guard(kept_lock_);
    kept_.push_back(std::move(what));
  }

  handler_depot handlers;

 protected:
  io_host() = default;
  ~io_host() = default;

  std::vector<reactor*> homes_;

 private:
  std::mutex kept_lock_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace bwos
