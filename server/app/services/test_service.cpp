// SPDX-License-Identifier: Apache-2.0
#include "app/services/test_service.hpp"

#include <test_service.pb.h>

#include <string>
#include <vector>

namespace bwos::server::handlers {
namespace {

using grpc::testing::EchoStatus;
using grpc::testing::StreamingInputCallRequest;
using grpc::testing::StreamingInputCallResponse;
using grpc::testing::StreamingOutputCallRequest;
using grpc::testing::StreamingOutputCallResponse;

/// Case custom_metadata.
void echo_metadata(rpc::context& call) {
  constexpr std::string_view initial = "x-grpc-test-echo-initial";
  constexpr std::string_view trailing = "x-grpc-test-echo-trailing-bin";
  for (const std::string& each : call.metadata(initial)) call.add_initial_metadata(initial, each);
  for (const std::string& each : call.metadata(trailing)) {
    call.add_trailing_metadata(trailing, each);
  }
}

rpc::status status_of(const EchoStatus& wanted) {
  constexpr int last = static_cast<int>(rpc::code::unauthenticated);
  const bool known = wanted.code() >= 0 && wanted.code() <= last;
  return {known ? static_cast<rpc::code>(wanted.code()) : rpc::code::unknown, wanted.message()};
}

bool is_size(std::int32_t bytes) noexcept {
  return bytes >= 0 && static_cast<std::size_t>(bytes) <= test_reply_bytes_max;
}

rpc::status too_large() {
  return {rpc::code::invalid_argument, "no such size of a reply"};
}

bool are_sizes(const StreamingOutputCallRequest& request) noexcept {
  for (const auto& each : request.response_parameters()) {
    if (!is_size(each.size())) return false;
  }
  return true;
}

void ask_for_compression(rpc::context& call, const StreamingOutputCallRequest& request) {
  for (const auto& each : request.response_parameters()) {
    if (each.compressed().value()) return call.compress_replies();
  }
}

void fill(grpc::testing::Payload& what, std::int32_t bytes) {
  what.mutable_body()->assign(static_cast<std::size_t>(bytes), '\0');
}

/// What a request asks for. False: nobody wants it any more.
task<bool> answer(const StreamingOutputCallRequest& request,
                  rpc::writer<StreamingOutputCallResponse>& replies) {
  StreamingOutputCallResponse reply;
  for (const auto& each : request.response_parameters()) {
    fill(*reply.mutable_payload(), each.size());
    if (!co_await replies.write(reply, each.compressed().value())) co_return false;
  }
  co_return true;
}

}  // namespace

task<rpc::status> empty_call(rpc::context& call, const grpc::testing::Empty& /*request*/,
                             grpc::testing::Empty& /*reply*/) {
  echo_metadata(call);
  co_return rpc::status{};
}

task<rpc::status> unary_call(rpc::context& call, const grpc::testing::SimpleRequest& request,
                             grpc::testing::SimpleResponse& reply) {
  echo_metadata(call);
  if (request.has_response_status() && request.response_status().code() != 0) {
    co_return status_of(request.response_status());
  }
  if (!is_size(request.response_size())) co_return too_large();
  if (request.response_compressed().value()) call.compress_replies();
  fill(*reply.mutable_payload(), request.response_size());
  co_return rpc::status{};
}

task<rpc::status> streaming_output_call(rpc::context& call, StreamingOutputCallRequest& request,
                                        rpc::writer<StreamingOutputCallResponse>& replies) {
  echo_metadata(call);
  if (!are_sizes(request)) co_return too_large();
  ask_for_compression(call, request);
  co_await answer(request, replies);
  co_return status_of(request.response_status());
}

task<rpc::status> streaming_input_call(rpc::context& call,
                                       rpc::reader<StreamingInputCallRequest>& requests,
                                       StreamingInputCallResponse& reply) {
  echo_metadata(call);
  StreamingInputCallRequest request;
  std::size_t sum = 0;
  while (co_await requests.read(request)) sum += request.payload().body().size();
  reply.set_aggregated_payload_size(static_cast<std::int32_t>(sum));
  co_return rpc::status{};
}

task<rpc::status> full_duplex_call(rpc::context& call,
                                   rpc::reader<StreamingOutputCallRequest>& requests,
                                   rpc::writer<StreamingOutputCallResponse>& replies) {
  echo_metadata(call);
  StreamingOutputCallRequest request;
  while (co_await requests.read(request)) {
    if (request.has_response_status() && request.response_status().code() != 0) {
      co_return status_of(request.response_status());
    }
    if (!are_sizes(request)) co_return too_large();
    ask_for_compression(call, request);
    if (!co_await answer(request, replies)) break;
  }
  co_return rpc::status{};
}

task<rpc::status> half_duplex_call(rpc::context& call,
                                   rpc::reader<StreamingOutputCallRequest>& requests,
                                   rpc::writer<StreamingOutputCallResponse>& replies) {
  constexpr std::size_t requests_max = 1000;
  echo_metadata(call);
  std::vector<StreamingOutputCallRequest> all(1);
  std::size_t kept = 0;
  while (co_await requests.read(all.back())) {
    if (!are_sizes(all.back())) co_return too_large();
    kept += all.back().SpaceUsedLong();
    if (all.size() > requests_max || !call.keep(kept)) {
      co_return rpc::status{rpc::code::resource_exhausted, "too many requests to remember"};
    }
    all.emplace_back();
  }
  all.pop_back();
  for (const StreamingOutputCallRequest& each : all) {
    ask_for_compression(call, each);
    if (!co_await answer(each, replies)) break;
  }
  co_return rpc::status{};
}

}  // namespace bwos::server::handlers
