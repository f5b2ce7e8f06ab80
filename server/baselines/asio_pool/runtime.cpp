// SPDX-License-Identifier: Apache-2.0
#include "baselines/asio_pool/runtime.hpp"

#include <asio/defer.hpp>
#include <asio/thread_pool.hpp>
#include <bwos/handler_memory.hpp>
#include <bwos/io_threads.hpp>
#include <utility>

#include "net/stream_port.hpp"

namespace bwos::server {
namespace {

/// Recycles: Asio's own per-thread memory serves handlers that are posted and run by one thread
/// only, and nearly all of these are posted by a reactor thread.
template <class T>
struct recycling_allocator {
  using value_type = T;

  explicit recycling_allocator(io_threads& of) noexcept : where(&of) {}
  template <class Other>
  recycling_allocator(const recycling_allocator<Other>& other) noexcept : where(other.where) {}
  [[nodiscard]] T* allocate(std::size_t count) {
    return static_cast<T*>(allocate_handler(count * sizeof(T), *where));
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    deallocate_handler(memory, count * sizeof(T), *where);
  }
  friend bool operator==(const recycling_allocator&, const recycling_allocator&) = default;

  io_threads* where;
};

/// Runs a continuation, or discards it where Asio destroys it unrun.
class posted {
 public:
  using allocator_type = recycling_allocator<void>;

  posted(continuation& work, io_threads& io) noexcept : work_(&work), io_(&io) {}
  posted(posted&& other) noexcept : work_(std::exchange(other.work_, nullptr)), io_(other.io_) {}
  posted& operator=(posted&&) = delete;
  ~posted() {
    if (work_ != nullptr) work_->invoke(*work_, continuation::disposition::discard);
  }
  [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_type(*io_); }
  void operator()() noexcept { io_->run(*std::exchange(work_, nullptr)); }

 private:
  continuation* work_;
  io_threads* io_;
};

class asio_pool_runtime final : public runtime, executor {
 public:
  explicit asio_pool_runtime(const options& settings)
      : io_(settings, &post_on, this), pool_(settings.workers) {}
  ~asio_pool_runtime() override { stop(); }

  [[nodiscard]] executor& workers() noexcept override { return *this; }
  [[nodiscard]] std::unique_ptr<port> listen(const std::string& address, int backlog) override {
    return std::make_unique<stream_port>(io_, address, backlog);
  }
  [[nodiscard]] std::unique_ptr<port> listen(inherited_socket socket) override {
    return std::make_unique<stream_port>(io_, socket);
  }
  [[nodiscard]] runtime_facts facts() const override {
    return {.executor = "asio-pool", .reactor = io_.choice()};
  }
  void stop() override {
    pool_.stop();
    pool_.join();
    io_.stop();
  }

 private:
  /// From a thread of the pool, which runs nothing long behind a post: queued under one lock with
  /// all else that the handler at hand posts. From elsewhere asio::defer is asio::post.
  void post(continuation& work) noexcept override { asio::defer(pool_, posted(work, io_)); }
  /// Its threads look at no reactor: behind what is queued is behind what is ready.
  void yield(continuation& work) noexcept override { post(work); }
  void post_long(continuation& work, lane_entry& /*place*/) noexcept override { post(work); }
  /// Asio does not tell.
  [[nodiscard]] bool has_idle() const noexcept override { return false; }

  static void post_on(void* self, continuation& work) noexcept {
    static_cast<asio_pool_runtime*>(self)->post(work);
  }

  io_threads io_;           // reactors outlive what Asio discards
  asio::thread_pool pool_;  // of one thread: Asio gives its scheduler the hint that it is alone
};

}  // namespace

std::unique_ptr<runtime> make_asio_pool_runtime(const options& settings) {
  return std::make_unique<asio_pool_runtime>(settings);
}

}  // namespace bwos::server
