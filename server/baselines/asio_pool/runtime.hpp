// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/options.hpp>
#include <memory>

#include "net/runtime.hpp"

namespace bwos::server {

/// asio::thread_pool behind dedicated reactor threads, which post each ready continuation to it:
/// the baseline that has our sockets and coroutines, and Asio's queue. Of `settings` counts what
/// io_threads and an Asio pool have: workers, reactor and reactor_threads, receive_bytes, rings.
/// Throws std::system_error.
std::unique_ptr<runtime> make_asio_pool_runtime(const options& settings);

}  // namespace bwos::server
