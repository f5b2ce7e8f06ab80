// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <atomic>
#include <bwos/asio_handler.hpp>
#include <bwos/options.hpp>
#include <bwos/pool.hpp>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace bwos {

// Only this header, with the one it includes for it, includes Asio (standalone, 1.22 or later).

/// What asio::thread_pool is, on a bwos::pool: an execution context with threads of its own. Has
/// the members of Asio 1.22's, without scheduler() and the executor's sender and bulk members.
///
/// Asio's own timers and sockets work on it, but they are served by one thread that Asio starts for
/// them, which hands their handlers to this pool.
///
/// Where Asio's pool goes wrong silently, this one ends the process with a message: join(), wait()
/// and the end inside one of its own threads, use in a child of fork() (bwos::pool has the
/// details).
///
/// Exceptions, as in Asio's pool: one that leaves a handler is std::terminate, on attached threads
/// too. Of a handler that execute() calls in place it is kept until the handler around it has
/// ended, then std::terminate; TS-style dispatch() lets it through to its caller.
class thread_pool : public asio::execution_context {
 public:
  template <class Allocator, unsigned Bits>
  class basic_executor_type;
  using executor_type = basic_executor_type<std::allocator<void>, 0>;

  /// default_workers() threads.
  thread_pool() : thread_pool(options{}) {}
  /// `threads` threads; 0 leaves all running to threads that call attach(). Throws
  /// std::out_of_range above options::workers_max.
  explicit thread_pool(std::size_t threads) : thread_pool(options{.workers = checked(threads)}) {}
  /// Throws what bwos::pool's constructor throws.
  explicit thread_pool(const options& settings) : native_(settings), occupancy_(settings.workers) {}

  /// stop(), wait for the threads, destroy what never ran. Objects of Asio on this context give up
  /// their operations first; handlers may own such objects, so the services themselves go last.
  ~thread_pool() {
    if (native_.in_child()) return;
    native_.stop();
    native_.join();
    shutdown();
  }

  [[nodiscard]] executor_type get_executor() noexcept;
  [[nodiscard]] executor_type executor() noexcept;

  /// The threads leave after the handlers that they are running; the rest is never called.
  void stop() noexcept { native_.stop(); }

  /// Makes the calling thread one of the pool until the pool is stopped, or joined and out of work.
  /// Throws std::length_error when options::attached_max threads are attached.
  void attach() {
    // [asio.occupancy.count] relaxed: a number to show. Partner: none (statistics).
    occupancy_.fetch_add(1, std::memory_order_relaxed);
    native_.attach();
  }

  /// Waits until no work is left (not at all after stop()), then for the threads. A pool made with
  /// 0 threads has none to wait for: returns at once.
  void join() {
    if (native_.workers() != 0) native_.join();
  }
  /// As join(), and with 0 threads it waits until the attached ones have done all work, and lets
  /// them go.
  void wait() { native_.join(); }

  /// For what is not Asio's: posting continuations, spawning tasks, statistics.
  [[nodiscard]] pool& native() noexcept { return native_; }

 private:
  static unsigned checked(std::size_t threads) {
    if (threads <= options::workers_max) return static_cast<unsigned>(threads);
    throw std::out_of_range("bwos::thread_pool: " + std::to_string(threads) +
                            " threads, must be 0 to " + std::to_string(options::workers_max));
  }

  [[nodiscard]] bool running_here() noexcept {
    return native_.running_here() || detail::handler_frame::on_stack(native_);
  }

  template <class Function, class Allocator>
  void submit(Function&& function, const Allocator& allocator) {
    using posted = detail::posted_handler<std::decay_t<Function>, Allocator>;
    native_.post(posted::make(std::forward<Function>(function), allocator, native_));
  }

  pool native_;
  std::atomic<std::size_t> occupancy_;
};

/// A light handle that runs functions on a thread_pool. Copies are made by Asio's require and
/// prefer; all of them may be used from any thread while the pool lives. `Bits` holds what changes
/// the type (blocking.always, outstanding_work.tracked), a member the rest.
template <class Allocator, unsigned Bits>
class thread_pool::basic_executor_type {
  static constexpr unsigned blocking_never = 1;
  static constexpr unsigned blocking_always = 2;
  static constexpr unsigned blocking_mask = blocking_never | blocking_always;
  static constexpr unsigned continuation_hint = 4;
  static constexpr unsigned tracked = 8;

 public:
  basic_executor_type(const basic_executor_type& other) noexcept
      : basic_executor_type(other.pool_, other.allocator_, other.bits_) {}
  basic_executor_type(basic_executor_type&& other) noexcept
      : pool_(other.pool_), allocator_(std::move(other.allocator_)), bits_(other.bits_) {
    if constexpr (is_tracked) other.pool_ = nullptr;
  }
  basic_executor_type& operator=(const basic_executor_type& other) noexcept {
    if (this != &other) *this = basic_executor_type(other);
    return *this;
  }
  basic_executor_type& operator=(basic_executor_type&& other) noexcept {
    if (this == &other) return *this;
    end_work();
    pool_ = other.pool_;
    allocator_ = std::move(other.allocator_);
    bits_ = other.bits_;
    if constexpr (is_tracked) other.pool_ = nullptr;
    return *this;
  }
  ~basic_executor_type() { end_work(); }

  // For asio::require and asio::prefer. ---------------------------------------------------------

  [[nodiscard]] auto require(asio::execution::blocking_t::possibly_t /*property*/) const {
    return with < Bits & ~blocking_mask > (bits_ & ~blocking_mask);
  }
  [[nodiscard]] auto require(asio::execution::blocking_t::always_t /*property*/) const {
    return with < (Bits & ~blocking_mask) | blocking_always > (bits_ & ~blocking_mask);
  }
  [[nodiscard]] auto require(asio::execution::blocking_t::never_t /*property*/) const {
    return with < Bits & ~blocking_mask > ((bits_ & ~blocking_mask) | blocking_never);
  }
  [[nodiscard]] auto require(asio::execution::relationship_t::fork_t /*property*/) const {
    return with<Bits>(bits_ & ~continuation_hint);
  }
  [[nodiscard]] auto require(asio::execution::relationship_t::continuation_t /*property*/) const {
    return with<Bits>(bits_ | continuation_hint);
  }
  [[nodiscard]] auto require(asio::execution::outstanding_work_t::tracked_t /*property*/) const {
    return with < Bits | tracked > (bits_);
  }
  [[nodiscard]] auto require(asio::execution::outstanding_work_t::untracked_t /*property*/) const {
    return with < Bits & ~tracked > (bits_);
  }
  template <class Other>
  [[nodiscard]] auto require(asio::execution::allocator_t<Other> property) const {
    return basic_executor_type<Other, Bits>(pool_, property.value(), bits_);
  }
  [[nodiscard]] auto require(asio::execution::allocator_t<void> /*property*/) const {
    return basic_executor_type<std::allocator<void>, Bits>(pool_, {}, bits_);
  }

  // For asio::query. ----------------------------------------------------------------------------

  static constexpr asio::execution::mapping_t query(
      asio::execution::mapping_t /*property*/) noexcept {
    return asio::execution::mapping_t::thread_t();
  }
  static constexpr asio::execution::outstanding_work_t query(
      asio::execution::outstanding_work_t /*property*/) noexcept {
    if constexpr (is_tracked) return asio::execution::outstanding_work_t::tracked_t();
    return asio::execution::outstanding_work_t::untracked_t();
  }
  [[nodiscard]] thread_pool& query(asio::execution::context_t /*property*/) const noexcept {
    return *pool_;
  }
  [[nodiscard]] asio::execution::blocking_t query(
      asio::execution::blocking_t /*property*/) const noexcept {
    if ((bits_ & blocking_never) != 0) return asio::execution::blocking_t::never_t();
    if ((Bits & blocking_always) != 0) return asio::execution::blocking_t::always_t();
    return asio::execution::blocking_t::possibly_t();
  }
  /// A hint only: either way execute() queues behind what is queued.
  [[nodiscard]] asio::execution::relationship_t query(
      asio::execution::relationship_t /*property*/) const noexcept {
    if ((bits_ & continuation_hint) != 0) return asio::execution::relationship_t::continuation_t();
    return asio::execution::relationship_t::fork_t();
  }
  template <class Other>
  [[nodiscard]] Allocator query(asio::execution::allocator_t<Other> /*property*/) const noexcept {
    return allocator_;
  }
  /// Threads started plus threads that have attached.
  [[nodiscard]] std::size_t query(asio::execution::occupancy_t /*property*/) const noexcept {
    // [asio.occupancy.show] relaxed: a number to show. Partner: none (statistics).
    return pool_->occupancy_.load(std::memory_order_relaxed);
  }

  // What executors do. --------------------------------------------------------------------------

  [[nodiscard]] bool running_in_this_thread() const noexcept { return pool_->running_here(); }

  friend bool operator==(const basic_executor_type& a, const basic_executor_type& b) noexcept {
    return a.pool_ == b.pool_ && a.allocator_ == b.allocator_ && a.bits_ == b.bits_;
  }
  friend bool operator!=(const basic_executor_type& a, const basic_executor_type& b) noexcept {
    return !(a == b);
  }

  /// blocking.always: returns when `function` has run; in place on a thread of the pool.
  /// blocking.never: queues it. blocking.possibly: in place on a thread of the pool, else queues
  /// it.
  template <class Function>
  void execute(Function&& function) const {
    if constexpr ((Bits & blocking_always) != 0) {
      run_and_wait(std::forward<Function>(function));
    } else if ((bits_ & blocking_never) == 0 && pool_->running_here()) {
      run_in_place(std::forward<Function>(function));
    } else {
      pool_->submit(std::forward<Function>(function), allocator_);
    }
  }

#if !defined(ASIO_NO_TS_EXECUTORS)
  [[nodiscard]] thread_pool& context() const noexcept { return *pool_; }
  void on_work_started() const noexcept { pool_->native_.work_started(); }
  void on_work_finished() const noexcept { pool_->native_.work_finished(); }

  template <class Function, class OtherAllocator>
  void dispatch(Function&& function, const OtherAllocator& allocator) const {
    if (pool_->running_here()) {
      std::decay_t<Function> handler(std::forward<Function>(function));
      handler();
    } else {
      pool_->submit(std::forward<Function>(function), allocator);
    }
  }
  template <class Function, class OtherAllocator>
  void post(Function&& function, const OtherAllocator& allocator) const {
    pool_->submit(std::forward<Function>(function), allocator);
  }
  template <class Function, class OtherAllocator>
  void defer(Function&& function, const OtherAllocator& allocator) const {
    pool_->submit(std::forward<Function>(function), allocator);
  }
#endif

 private:
  friend class thread_pool;
  template <class, unsigned>
  friend class basic_executor_type;

  static constexpr bool is_tracked = (Bits & tracked) != 0;

  basic_executor_type(thread_pool* pool, const Allocator& allocator, unsigned bits) noexcept
      : pool_(pool), allocator_(allocator), bits_(bits) {
    if constexpr (is_tracked) {
      if (pool_ != nullptr) pool_->native_.work_started();
    }
  }
  void end_work() noexcept {
    if constexpr (is_tracked) {
      if (pool_ != nullptr) pool_->native_.work_finished();
    }
  }

  template <unsigned NewBits>
  [[nodiscard]] auto with(unsigned bits) const {
    return basic_executor_type<Allocator, NewBits>(pool_, allocator_, bits);
  }

  template <class Function>
  void run_in_place(Function&& function) const {
    std::decay_t<Function> handler(std::forward<Function>(function));
    try {
      handler();
    } catch (...) {
      detail::handler_frame::keep_exception(pool_->native_);
    }
  }

  template <class Function>
  void run_and_wait(Function&& function) const {
    using given = std::remove_reference_t<Function>;
    std::conditional_t<std::is_const_v<given>, std::remove_const_t<given>, given&> callable(
        function);
    if (pool_->running_here()) {
      detail::call_or_terminate(callable);
      return;
    }
    detail::waiting_call call(callable);
    pool_->native_.post(call);
    call.wait();
  }

  thread_pool* pool_;
  [[no_unique_address]] Allocator allocator_;
  unsigned bits_;
};

inline thread_pool::executor_type thread_pool::get_executor() noexcept {
  return executor_type(this, {}, 0);
}
inline thread_pool::executor_type thread_pool::executor() noexcept {
  return executor_type(this, {}, 0);
}

}  // namespace bwos

template <>
struct asio::execution::is_executor<bwos::thread_pool> : asio::false_type {};
