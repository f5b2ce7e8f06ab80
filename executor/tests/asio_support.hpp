// SPDX-License-Identifier: Apache-2.0
// What asio_test.cpp needs besides Asio: an allocator that counts, handlers that are awkward.
#pragma once

#include <asio.hpp>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>

namespace asio_support {

using namespace std::chrono_literals;

struct allocation_counts {
  std::atomic<std::size_t> allocated{0};
  std::atomic<std::size_t> freed{0};
  std::atomic<std::ptrdiff_t> live_bytes{0};
  std::atomic<bool> refuse{false};
};

/// Counts in bytes, by the type it was rebound to: freeing with another type shows in live_bytes.
template <class T>
struct counting_allocator {
  using value_type = T;
  explicit counting_allocator(allocation_counts& where) noexcept : counts(&where) {}
  template <class U>
  counting_allocator(const counting_allocator<U>& other) noexcept : counts(other.counts) {}

  T* allocate(std::size_t count) {
    if (counts->refuse) throw std::bad_alloc();
    ++counts->allocated;
    counts->live_bytes += static_cast<std::ptrdiff_t>(count * sizeof(T));
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    ++counts->freed;
    counts->live_bytes -= static_cast<std::ptrdiff_t>(count * sizeof(T));
    std::allocator<T>().deallocate(memory, count);
  }
  template <class U>
  bool operator==(const counting_allocator<U>& other) const noexcept {
    return counts == other.counts;
  }

  allocation_counts* counts;
};

/// A handler whose associated allocator is a counting one.
template <class Function>
struct allocating_handler {
  using allocator_type = counting_allocator<char>;
  [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator; }
  void operator()() { function(); }

  allocator_type allocator;
  Function function;
};
template <class Function>
allocating_handler(counting_allocator<char>, Function) -> allocating_handler<Function>;

/// Counts in `count` when the last of its moves is destroyed.
class counts_its_end {
 public:
  explicit counts_its_end(std::atomic<int>& count)
      : at_end_(&count, [](std::atomic<int>* ends) { ++*ends; }) {}

 private:
  std::unique_ptr<std::atomic<int>, void (*)(std::atomic<int>*)> at_end_;
};

/// Copying it throws: what a post must survive without losing memory.
struct throws_when_copied {
  throws_when_copied() = default;
  throws_when_copied(const throws_when_copied&) { throw std::runtime_error("copied"); }
  void operator()() const {}
};

/// A service that notes when Asio ends it.
class noting_service : public asio::execution_context::service {
 public:
  using key_type = noting_service;
  static inline asio::execution_context::id id;

  struct notes {
    std::atomic<bool> shut_down{false};
    std::atomic<bool> destroyed{false};
  };
  explicit noting_service(asio::execution_context& context, notes* where = nullptr)
      : service(context), notes_(where) {}
  ~noting_service() override {
    if (notes_ != nullptr) notes_->destroyed = true;
  }

 private:
  void shutdown() override {
    if (notes_ != nullptr) notes_->shut_down = true;
  }
  notes* notes_;
};

/// Runs `function` on a thread of the pool and waits for its end.
template <class Pool, class Function>
auto on(Pool& pool, Function function) {
  using result = std::invoke_result_t<Function>;
  return asio::post(pool, std::packaged_task<result()>(std::move(function))).get();
}

inline bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 20'000 && !holds(); ++i) std::this_thread::sleep_for(1ms);
  return holds();
}

}  // namespace asio_support
