// SPDX-License-Identifier: Apache-2.0
#include "app/demo.hpp"

#include <utility>

#include "app/baselines.hpp"
#include "app/routes.hpp"
#include "app/services.hpp"
#include "base/start_error.hpp"

namespace bwos::server {

std::unique_ptr<server> make_demo(const config& settings, service_manager manager,
                                  inherited_sockets given) {
  if (settings.grpc_test_service && !given.grpc && settings.grpc_listen.empty()) {
    throw start_error(
        "--grpc-test-service true: must be left out with --grpc-listen '': nobody serves gRPC");
  }
  server_settings own = settings;
  own.http.lane_threshold = own.calls.lane_threshold = settings.lane_threshold();
  const demo_services services{.work_us_max = settings.work_us_max,
                               .has_test_service = settings.grpc_test_service};
  server_parts parts;
  parts.threads = make_runtime(settings);
  parts.routes = demo_routes(settings.work_us_max);
  parts.version = version();
  if (settings.grpc_by == grpc_kind::native) {
    add_services(parts.methods, services);
  } else {
    parts.other_grpc = [by = settings.grpc, services](executor& workers) {
      return make_grpc_cpp_server(workers, by, services);
    };
  }
  return std::make_unique<server>(own, std::move(parts), std::move(manager), given);
}

}  // namespace bwos::server
