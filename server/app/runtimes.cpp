// SPDX-License-Identifier: Apache-2.0
#include "app/runtimes.hpp"

#include <stdexcept>

#include "baselines/asio_io_context/runtime.hpp"
#include "baselines/asio_pool/runtime.hpp"

namespace bwos::server {

std::unique_ptr<runtime> make_runtime(const config& settings) {
  switch (settings.executor) {
    case executor_kind::bwos:
      return make_pool_runtime(settings.pool_options());
    case executor_kind::asio_pool:
      return make_asio_pool_runtime(settings.pool_options());
    case executor_kind::asio_io_context:
      return asio_sockets::make_runtime(settings.workers, settings.asio_lane);
  }
  throw std::invalid_argument("no such executor");
}

std::string_view name_of(executor_kind kind) noexcept {
  switch (kind) {
    case executor_kind::bwos:
      return "bwos";
    case executor_kind::asio_pool:
      return "asio-pool";
    case executor_kind::asio_io_context:
      return "asio-io-context";
  }
  return "bwos";
}

}  // namespace bwos::server
