// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include <bwos/pool.hpp>
#include <bwos/sync_wait.hpp>
#include <bwos/task_group.hpp>

// Loops over invoke(): a range is halved until the pieces are small, and thieves take the largest
// pieces first.

namespace bwos {

/// How a loop is divided.
struct loop_options {
  /// Turns that one piece has at most, at least 1. 0: as many that each worker gets some 16 pieces.
  std::size_t grain = 0;
  /// Pieces that have not begun when it is stopped are left out; the loop returns as if it had
  /// ended.
  std::stop_token stop = {};
};

namespace detail {

/// Turns from `first` to `last`, whatever the sign and width of `Index`.
template <std::integral Index>
constexpr std::size_t turns(Index first, Index last) noexcept {
  using number = std::make_unsigned_t<Index>;
  return first < last ? static_cast<std::size_t>(static_cast<number>(static_cast<number>(last) -
                                                                     static_cast<number>(first)))
                      : 0;
}

template <std::integral Index>
constexpr Index advance(Index from, std::size_t by) noexcept {
  using number = std::make_unsigned_t<Index>;
  return static_cast<Index>(static_cast<number>(from) + static_cast<number>(by));
}

constexpr std::size_t grain_of(const loop_options& how, std::size_t turns,
                               std::size_t workers) noexcept {
  constexpr std::size_t pieces_per_worker = 16;
  if (how.grain != 0) return how.grain;
  return std::max<std::size_t>(1, turns / (pieces_per_worker * std::max<std::size_t>(1, workers)));
}

template <class Index, class Body>
void for_piece(Index first, std::size_t count, std::size_t grain, const std::stop_token& stop,
               Body& body) {
  if (stop.stop_requested()) return;
  if (count > grain) {
    const std::size_t half = count / 2;
    invoke([&] { for_piece(first, half, grain, stop, body); },
           [&] { for_piece(advance(first, half), count - half, grain, stop, body); });
    return;
  }
  for (std::size_t i = 0; i < count; ++i) body(advance(first, i));
}

template <class Value, class Index, class Body, class Combine>
Value reduce_piece(Index first, std::size_t count, std::size_t grain, const std::stop_token& stop,
                   const Value& identity, Body& body, Combine& combine) {
  if (stop.stop_requested()) return identity;
  if (count > grain) {
    const std::size_t half = count / 2;
    std::optional<Value> left;
    std::optional<Value> right;
    invoke(
        [&] {
          left.emplace(reduce_piece<Value>(first, half, grain, stop, identity, body, combine));
        },
        [&] {
          right.emplace(reduce_piece<Value>(advance(first, half), count - half, grain, stop,
                                            identity, body, combine));
        });
    return combine(*std::move(left), *std::move(right));
  }
  Value result = identity;
  for (std::size_t i = 0; i < count; ++i) {
    result = combine(std::move(result), body(advance(first, i)));
  }
  return result;
}

}  // namespace detail

/// Calls `body(i)` for each i from `first` up to `last`, which is not among them, on the workers of
/// `where`, in any order and at the same time; returns when all have ended. Nothing where `last` is
/// not above `first`. On a worker of that pool the caller takes part; any other thread sleeps.
///
/// Exceptions: a body that throws ends its piece; the other pieces run, then one of the exceptions
/// is thrown.
template <std::integral Index, std::invocable<Index> Body>
void parallel_for(pool& where, Index first, Index last, Body&& body, const loop_options& how = {}) {
  const std::size_t count = detail::turns(first, last);
  if (count == 0) return;
  const std::size_t grain = detail::grain_of(how, count, where.workers());
  sync_wait(where, [&] { detail::for_piece(first, count, grain, how.stop, body); });
}

/// The sum, in the sense of `combine`, of `identity` and of `body(i)` for each i from `first` up to
/// `last`. `combine(Value, Value)` must be associative, with `identity` as its neutral element:
/// values come in the order of their indices, but grouped in any way. As parallel_for otherwise;
/// what a stop leaves out counts as `identity`.
template <class Value, std::integral Index, std::invocable<Index> Body, class Combine = std::plus<>>
[[nodiscard]] Value parallel_reduce(pool& where, Index first, Index last, Value identity,
                                    Body&& body, Combine&& combine = {},
                                    const loop_options& how = {}) {
  const std::size_t count = detail::turns(first, last);
  if (count == 0) return identity;
  const std::size_t grain = detail::grain_of(how, count, where.workers());
  return sync_wait(where, [&] {
    return detail::reduce_piece<Value>(first, count, grain, how.stop, identity, body, combine);
  });
}

}  // namespace bwos
