// SPDX-License-Identifier: Apache-2.0
#include "app/grpc_cpp_services.hpp"

#include "baselines/grpc_cpp/methods.hpp"

namespace bwos::server {

std::unique_ptr<grpc_server> make_grpc_cpp_server(executor& workers, const grpc_options& settings,
                                                  const demo_services& services) {
  auto methods = std::make_unique<cpp_methods>(workers);
  add_services(*methods, services);
  return std::make_unique<grpc_server>(settings, std::move(methods));
}

}  // namespace bwos::server
