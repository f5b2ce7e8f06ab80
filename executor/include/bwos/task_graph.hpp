// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <bwos/base/atomic.hpp>
#include <bwos/base/memory_order.hpp>
#include <bwos/pool.hpp>
#include <bwos/task_group.hpp>

namespace bwos {

/// Functions of which each begins when the last of its predecessors has ended.
///
///     bwos::task_graph build;
///     const auto parse = build.add([&] { ... });
///     const auto link = build.add([&] { ... });
///     build.precede(parse, link);
///     build.run(pool);
///
/// add() and precede() are for one thread, and not while it runs. It may run any number of times.
class task_graph {
 public:
  /// Names a function of this graph.
  enum class node : std::size_t {};

  /// Throws std::bad_alloc.
  node add(std::function<void()> work);
  /// `later` begins only after `earlier` has ended; said twice, it waits for both. Throws
  /// std::out_of_range where there is no such node, and std::bad_alloc.
  void precede(node earlier, node later);
  [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }

  /// Runs each function once, on the workers of `where`, and waits for all of them as
  /// task_group::wait does. Throws std::invalid_argument where a function precedes itself, through
  /// whatever others; then nothing has run. When functions throw, what they precede does not begin,
  /// the rest runs to its end, and then the first exception in time is thrown.
  void run(pool& where);

 private:
  struct entry {
    explicit entry(std::function<void()> what) : work(std::move(what)) {}
    std::function<void()> work;
    std::vector<entry*> successors;
    std::size_t predecessors = 0;
    atomic<std::size_t> missing{0};
  };

  entry& at(node which);
  [[nodiscard]] bool has_cycle() const;
  static void start(entry& which, task_group& group);

  std::deque<entry> nodes_;  // never move
};

}  // namespace bwos
