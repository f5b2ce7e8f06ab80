// SPDX-License-Identifier: Apache-2.0
#include "baselines/asio_io_context/executor.hpp"

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

namespace bwos::server::asio_sockets {
namespace {

/// What Asio is told of the threads to come. One: its queue is locked all the same, for gRPC's
/// pollers and the thread that waits for signals post to it, but its sockets are not.
int concurrency_hint(unsigned workers, bool with_lane) noexcept {
  return workers == 1 && !with_lane ? ASIO_CONCURRENCY_HINT_UNSAFE_IO : static_cast<int>(workers);
}

/// Runs a continuation, or discards it where Asio destroys it unrun.
class posted {
 public:
  explicit posted(continuation& work) noexcept : work_(&work) {}
  posted(posted&& other) noexcept : work_(std::exchange(other.work_, nullptr)) {}
  posted& operator=(posted&&) = delete;
  ~posted() {
    if (work_ != nullptr) work_->invoke(*work_, continuation::disposition::discard);
  }
  void operator()() noexcept {
    continuation& work = *std::exchange(work_, nullptr);
    work.invoke(work, continuation::disposition::run);
  }

 private:
  continuation* work_;
};

}  // namespace

io_context_executor::io_context_executor(unsigned workers, bool with_lane)
    : threads_count_(workers),
      context_(concurrency_hint(workers, with_lane)),
      busy_(context_.get_executor()) {
  if (with_lane) lane_.emplace(std::max(1U, workers - 1));
  threads_.reserve(workers);
  try {
    for (unsigned i = 0; i < workers; ++i) threads_.emplace_back([this] { context_.run(); });
  } catch (...) {
    stop();
    throw;
  }
}

io_context_executor::~io_context_executor() {
  stop();
}

void io_context_executor::post(continuation& work) noexcept {
  asio::post(context_, posted(work));
}

void io_context_executor::post_long(continuation& work, lane_entry&) noexcept {
  if (lane_) {
    asio::post(*lane_, posted(work));
  } else {
    post(work);
  }
}

awaitable<void> io_context_executor::yield() {
  return asio::post(use_awaitable);
}

awaitable<void> io_context_executor::lane() {
  // [lane.count] relaxed: a number to show. Partner: none (statistics).
  lane_run_.fetch_add(1, std::memory_order_relaxed);
  // The handler's own executor, the io_context, is hidden from post(): it would take it there.
  return asio::async_initiate<decltype(use_awaitable), void()>(
      [this](auto handler) {
        asio::post(*lane_, [handler = std::move(handler)]() mutable { std::move(handler)(); });
      },
      use_awaitable);
}

std::optional<std::uint64_t> io_context_executor::lane_run() const noexcept {
  if (!lane_) return std::nullopt;
  // [lane.read] relaxed: a number to show. Partner: none (statistics).
  return lane_run_.load(std::memory_order_relaxed);
}

void io_context_executor::stop() {
  if (lane_) lane_->stop();
  context_.stop();
  if (lane_) lane_->join();
  for (std::thread& each : threads_) each.join();
  threads_.clear();
}

}  // namespace bwos::server::asio_sockets
