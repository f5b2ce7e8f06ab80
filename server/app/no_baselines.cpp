// SPDX-License-Identifier: Apache-2.0
// In place of baselines.cpp: -DBWOS_BASELINES=OFF.
#include "app/baselines.hpp"
#include "base/start_error.hpp"

namespace bwos::server {
namespace {

[[noreturn]] void refuse(const std::string& choice, const char* only) {
  throw start_error(choice + ": must be " + only +
                    " in this build, which has no baselines (-DBWOS_BASELINES=ON)");
}

}  // namespace

std::unique_ptr<runtime> make_runtime(const config& settings) {
  if (settings.executor != executor_kind::bwos) {
    refuse("--executor " + std::string(name_of(settings.executor)), "bwos");
  }
  return make_pool_runtime(settings.pool_options());
}

std::unique_ptr<grpc_transport> make_grpc_cpp_server(executor& /*workers*/,
                                                     const grpc_options& /*settings*/,
                                                     const demo_services& /*services*/) {
  refuse("--grpc grpc++", "native");
}

}  // namespace bwos::server
