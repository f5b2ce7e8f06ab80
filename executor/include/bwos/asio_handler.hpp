// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/detail/call_stack.hpp>
#include <asio/detail/thread_context.hpp>
#include <asio/detail/thread_info_base.hpp>
#include <bwos/continuation.hpp>
#include <bwos/handler_memory.hpp>
#include <bwos/pool.hpp>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

// How <bwos/asio.hpp> queues and runs a handler; not for use of its own.
//
// A posted handler is one allocation: a continuation, which the pool queues, with the handler
// behind it. The memory comes from the handler's associated allocator, or without one from the
// thread's own handler memory, and is given back before the handler is called, so that what the
// handler posts can reuse it.
//
// While a handler runs, a frame on Asio's own per-thread call stack says which pool runs it. Three
// things hang on that frame: dispatch() knows that it may call in place; what Asio itself allocates
// meanwhile (coroutine frames, operations, type-erased functions) is recycled per thread, as on
// Asio's own pool; and an exception of a handler called in place by execute() is kept until the
// handler around it has ended.

namespace bwos::detail {

class handler_frame {
  using key = asio::detail::thread_context;
  using stack = asio::detail::call_stack<key, asio::detail::thread_info_base>;

 public:
  /// On a worker, of whose pool it is.
  handler_frame() : context_(key_of(pool::here()), thread_memory()) {}

  [[nodiscard]] static bool on_stack(pool& where) noexcept {
    return stack::contains(key_of(&where.core())) != nullptr;
  }
  /// In a catch block. Without a frame of that pool nobody would ever see the exception.
  static void keep_exception(pool& where) noexcept {
    asio::detail::thread_info_base* const frame = stack::contains(key_of(&where.core()));
    if (frame == nullptr) std::terminate();
    frame->capture_current_exception();
  }
  static void rethrow_kept_exception() { thread_memory().rethrow_pending_exception(); }

 private:
  /// Asio compares keys and never looks behind them: any address that is the pool's own will do.
  static key* key_of(pool_core* core) noexcept { return reinterpret_cast<key*>(core); }

  // Not inlined: a coroutine that was resumed on another thread must not go on with this one's.
  [[gnu::noinline]] static asio::detail::thread_info_base& thread_memory() {
    static thread_local asio::detail::thread_info_base memory;
    return memory;
  }

  stack::context context_;
};

/// Terminates while the exception is being handled, so that std::terminate can still tell which one
/// it was; noexcept alone may forget it.
template <class Function>
void call_or_terminate(Function&& function) noexcept {
  try {
    function();
  } catch (...) {
    std::terminate();
  }
}

/// The memory of one T that a pool will run: from an allocator, and without one of the handler's
/// own (std::allocator) from handler memory.
template <class Allocator, class T>
class memory_for {
  using allocator = typename std::allocator_traits<Allocator>::template rebind_alloc<T>;
  using traits = std::allocator_traits<allocator>;
  using pointer = typename traits::pointer;

 public:
  explicit memory_for(const Allocator& from) : from_(from) {}
  [[nodiscard]] T* allocate(pool& /*of*/) { return std::to_address(traits::allocate(from_, 1)); }
  void deallocate(T* memory) noexcept {
    traits::deallocate(from_, std::pointer_traits<pointer>::pointer_to(*memory), 1);
  }

 private:
  [[no_unique_address]] allocator from_;
};

template <class U, class T>
class memory_for<std::allocator<U>, T> {
 public:
  explicit memory_for(const std::allocator<U>& /*stateless*/) noexcept {}
  [[nodiscard]] T* allocate(pool& of) {
    if constexpr (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
      return std::allocator<T>().allocate(1);
    } else {
      return static_cast<T*>(allocate_handler(sizeof(T), of));
    }
  }
  void deallocate(T* memory) noexcept {
    if constexpr (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
      std::allocator<T>().deallocate(memory, 1);
    } else {
      deallocate_handler(memory, sizeof(T));
    }
  }
};

template <class Handler, class Allocator>
class posted_handler final : public continuation {
  using memory = memory_for<Allocator, posted_handler>;

 public:
  template <class Function>
  static posted_handler& make(Function&& handler, const Allocator& allocator, pool& of) {
    memory storage(allocator);
    posted_handler* const place = storage.allocate(of);
    try {
      return *::new (static_cast<void*>(place))
          posted_handler(std::forward<Function>(handler), storage);
    } catch (...) {
      storage.deallocate(place);
      throw;
    }
  }

 private:
  template <class Function>
  posted_handler(Function&& handler, const memory& storage)
      : continuation(&finish), handler_(std::forward<Function>(handler)), storage_(storage) {}

  static void finish(continuation& self, disposition how) noexcept {
    auto& posted = static_cast<posted_handler&>(self);
    if (how == disposition::discard) {
      [[maybe_unused]] const Handler dropped(take(posted));
      return;
    }
    const handler_frame frame;
    call_or_terminate([&posted] {
      {
        Handler handler(take(posted));
        handler();
      }
      handler_frame::rethrow_kept_exception();
    });
  }

  /// Out of the memory, which is free afterwards. Whatever owns the memory may be part of the
  /// handler and lives on in what is returned.
  static Handler take(posted_handler& posted) {
    struct release {
      posted_handler& posted;
      ~release() {
        memory storage(std::move(posted.storage_));
        posted.~posted_handler();
        storage.deallocate(&posted);
      }
    };
    const release at_return{posted};
    return std::move(posted.handler_);
  }

  Handler handler_;
  [[no_unique_address]] memory storage_;
};

/// The caller's function, on the caller's stack, while the caller waits.
template <class Function>
class waiting_call final : public continuation {
 public:
  explicit waiting_call(Function& function) noexcept : continuation(&finish), function_(function) {}
  void wait() {
    std::unique_lock guard(lock_);
    over_.wait(guard, [this] { return done_; });
  }

 private:
  static void finish(continuation& self, disposition how) noexcept {
    auto& call = static_cast<waiting_call&>(self);
    if (how == disposition::run) {
      const handler_frame frame;
      call_or_terminate([&call] {
        call.function_();
        handler_frame::rethrow_kept_exception();
      });
    }
    const std::lock_guard guard(call.lock_);
    call.done_ = true;
    call.over_
        .notify_one();  // under the lock: the caller ends this object as soon as it sees done_
  }

  Function& function_;
  std::mutex lock_;
  std::condition_variable over_;
  bool done_ = false;
};

}  // namespace bwos::detail
