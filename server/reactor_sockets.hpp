// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/stream.hpp>
#include <bwos/task.hpp>

#include "executor.hpp"

namespace bwos::server {

/// What the life of a connection (http1, native) is a template over, for sockets on reactors of
/// ours.
struct reactor_sockets {
  using socket = stream;
  template <class T>
  using coroutine = task<T>;
  static auto yield(socket&, executor& where) noexcept { return where.yield(); }
  static auto lane(socket&, executor& where) noexcept { return where.lane(); }
};

}  // namespace bwos::server
