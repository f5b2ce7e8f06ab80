// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/base/atomic.hpp>
#include <bwos/base/memory_order.hpp>

namespace bwos {

/// A number that any thread reads and that orders nothing: a counter, a hint, a time. So a tag at
/// an access says that it does order something. One thread writes it at a time.
template <class T>
class relaxed_value {
 public:
  constexpr relaxed_value() noexcept = default;
  constexpr explicit relaxed_value(T first) noexcept : value_(first) {}

  /// Some recent value; the writer's own last one.
  [[nodiscard]] T get() const noexcept {
    // [relaxed_value.get] relaxed: a reader needs some recent value and reads nothing else on its
    // strength. Partner: [relaxed_value.set].
    return value_.load(relaxed);
  }
  void set(T to) noexcept {
    // [relaxed_value.set] relaxed: publishes nothing but itself. Partner: [relaxed_value.get].
    value_.store(to, relaxed);
  }
  /// No read-modify-write: its writer alone may call it.
  void add(T n) noexcept { set(get() + n); }

 private:
  atomic<T> value_{};
};

}  // namespace bwos
