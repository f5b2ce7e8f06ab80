// SPDX-License-Identifier: Apache-2.0
#include "app/baselines.hpp"

#include <stdexcept>
#include <utility>

#include "baselines/asio_io_context/runtime.hpp"
#include "baselines/asio_pool/runtime.hpp"
#include "baselines/grpc_cpp/methods.hpp"
#include "baselines/grpc_cpp/server.hpp"

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

std::unique_ptr<grpc_transport> make_grpc_cpp_server(executor& workers,
                                                     const grpc_options& settings,
                                                     const demo_services& services) {
  auto methods = std::make_unique<cpp_methods>(workers);
  add_services(*methods, services);
  return std::make_unique<grpc_server>(settings, std::move(methods));
}

}  // namespace bwos::server
