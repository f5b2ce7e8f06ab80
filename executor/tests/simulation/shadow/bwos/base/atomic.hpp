// SPDX-License-Identifier: Apache-2.0
// Stands in front of executor/include/bwos/base/atomic.hpp: an atomic each access of which is a
// step of the simulated machine, which may look at what is touched, and how. What changes it is
// followed by a step as well, so that another thread may go on before the plain accesses behind it.
// Orders are taken and not looked at.
#pragma once

#include <atomic>
#include <cstdint>
#include <source_location>
#include <type_traits>
#include <utility>

#include "machine.hpp"

namespace bwos {

template <class T>
class atomic {
  using order = std::memory_order;
  using place = std::source_location;
  using access = simulation::access;

 public:
  constexpr atomic() noexcept = default;
  constexpr atomic(T first) noexcept : value_(first) {}  // NOLINT: as std::atomic
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;

  T load(order, place at = place::current()) const noexcept {
    before(access::load, "load", at);
    if (simulation::machine* const here = simulation::machine::current()) here->saw(number());
    return value_;
  }
  void store(T to, order, place at = place::current()) noexcept {
    before(access::store, "store", at);
    value_ = to;
    after();
  }
  T exchange(T to, order, place at = place::current()) noexcept {
    before(access::change, "exchange", at);
    return change(to);
  }
  bool compare_exchange_strong(T& expected, T to, order, order,
                               place at = place::current()) noexcept {
    before(access::change, "compare_exchange", at);
    return compare_exchange(expected, to);
  }
  bool compare_exchange_strong(T& expected, T to, order, place at = place::current()) noexcept {
    before(access::change, "compare_exchange", at);
    return compare_exchange(expected, to);
  }
  /// Fails though it could succeed, now and then.
  bool compare_exchange_weak(T& expected, T to, order, order,
                             place at = place::current()) noexcept {
    before(access::change, "compare_exchange", at);
    simulation::machine* const here = simulation::machine::current();
    if (here != nullptr && here->fails_spuriously()) {
      expected = value_;
      return false;
    }
    return compare_exchange(expected, to);
  }
  T fetch_add(T by, order, place at = place::current()) noexcept {
    before(access::change, "fetch_add", at);
    return change(static_cast<T>(value_ + by));
  }
  T fetch_sub(T by, order, place at = place::current()) noexcept {
    before(access::change, "fetch_sub", at);
    return change(static_cast<T>(value_ - by));
  }
  T fetch_and(T with, order, place at = place::current()) noexcept {
    before(access::change, "fetch_and", at);
    return change(static_cast<T>(value_ & with));
  }
  T fetch_or(T with, order, place at = place::current()) noexcept {
    before(access::change, "fetch_or", at);
    return change(static_cast<T>(value_ | with));
  }

 private:
  void before(access how, const char* what, place at) const noexcept {
    simulation::touch(this, how, what, at);
  }
  void after() const noexcept {
    simulation::machine* const here = simulation::machine::current();
    if (here != nullptr) here->changed(number());
  }
  [[nodiscard]] std::uint64_t number() const noexcept {
    if constexpr (std::is_pointer_v<T>) {
      return reinterpret_cast<std::uintptr_t>(value_);
    } else {
      return static_cast<std::uint64_t>(value_);
    }
  }
  T change(T to) noexcept {
    const T former = std::exchange(value_, to);
    after();
    return former;
  }
  bool compare_exchange(T& expected, T to) noexcept {
    if (value_ != expected) {
      expected = value_;
      return false;
    }
    change(to);
    return true;
  }

  T value_{};
};

}  // namespace bwos
