// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <conformance.pb.h>
#include <helloworld.pb.h>
#include <reflection_v1.pb.h>
#include <test_service.pb.h>
#include <work.pb.h>

#include <cstdint>

#include "app/services/burn.hpp"
#include "app/services/conformance_service.hpp"
#include "app/services/hello.hpp"
#include "app/services/test_service.hpp"
#include "grpc/handlers.hpp"
#include "grpc/reflection.hpp"

namespace bwos::server {

struct demo_services {
  std::uint64_t work_us_max = 10'000;  ///< The most that Burn burns; 0: it is turned off.
  /// grpc.testing.TestService and connectrpc.conformance.v1.ConformanceService are served.
  bool has_test_service = false;
};

/// The demo's methods, for either transport (a rpc::method_adder). To add one: its contract in
/// proto/, a coroutine in app/services/, a line here.
template <class Transport>
void add_services(Transport& to, const demo_services& of) {
  to.unary("/helloworld.Greeter/SayHello", &handlers::say_hello);
  to.unary("/bwos.Work/Burn", rpc::unary_handler<BurnRequest, BurnReply>(
                                  [us_max = of.work_us_max](
                                      rpc::context&, const BurnRequest& request, BurnReply& reply) {
                                    return handlers::burn(us_max, request, reply);
                                  }));
  if (of.has_test_service) {
    to.unary("/grpc.testing.TestService/EmptyCall", &handlers::empty_call);
    to.unary("/grpc.testing.TestService/UnaryCall", &handlers::unary_call);
    to.server_stream("/grpc.testing.TestService/StreamingOutputCall",
                     &handlers::streaming_output_call);
    to.client_stream("/grpc.testing.TestService/StreamingInputCall",
                     &handlers::streaming_input_call);
    to.both_streams("/grpc.testing.TestService/FullDuplexCall", &handlers::full_duplex_call);
    to.both_streams("/grpc.testing.TestService/HalfDuplexCall", &handlers::half_duplex_call);
    to.unary("/connectrpc.conformance.v1.ConformanceService/Unary", &handlers::conformance_unary);
    to.unary("/connectrpc.conformance.v1.ConformanceService/IdempotentUnary",
             &handlers::conformance_idempotent_unary);
    to.server_stream("/connectrpc.conformance.v1.ConformanceService/ServerStream",
                     &handlers::conformance_server_stream);
    to.client_stream("/connectrpc.conformance.v1.ConformanceService/ClientStream",
                     &handlers::conformance_client_stream);
    to.both_streams("/connectrpc.conformance.v1.ConformanceService/BidiStream",
                    &handlers::conformance_bidi_stream);
  }
  rpc::add_reflection(to);
}

}  // namespace bwos::server
