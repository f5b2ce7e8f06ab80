// SPDX-License-Identifier: Apache-2.0
// connectrpc.conformance.v1.ConformanceService by a client of gRPC C++, against both transports:
// what its definitions ask for, and its limits. The suite itself: tests/conformance/connect.py.
#include <conformance.grpc.pb.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "app/services/conformance_service.hpp"
#include "each_transport.hpp"

namespace bwos::server::test {
namespace {

using namespace connectrpc::conformance::v1;
using request_info = ConformancePayload::RequestInfo;
using clock = std::chrono::steady_clock;

class conformance : public each_transport {
 protected:
  conformance() : stub_(ConformanceService::NewStub(channel_)) {}
  ~conformance() override { stub_.reset(); }

  grpc::Status unary(const UnaryRequest& request, UnaryResponse& reply,
                     const std::chrono::milliseconds& patience = 20s) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    return stub_->Unary(&context, request, &reply);
  }

  std::unique_ptr<ConformanceService::Stub> stub_;
};

INSTANTIATE_TEST_SUITE_P(on, conformance, all_transports, name_of_transport);

void set(Header& header, const std::string& name, const std::vector<std::string>& values) {
  header.set_name(name);
  header.mutable_value()->Assign(values.begin(), values.end());
}

std::vector<std::string> header_of(const request_info& info, const std::string& name) {
  for (const Header& each : info.request_headers()) {
    if (each.name() == name) return {each.value().begin(), each.value().end()};
  }
  return {};
}

std::vector<std::string> values_of(const std::multimap<grpc::string_ref, grpc::string_ref>& all,
                                   const std::string& name) {
  std::vector<std::string> found;
  const auto [first, last] = all.equal_range(name);
  for (auto each = first; each != last; ++each) {
    found.emplace_back(each->second.data(), each->second.size());
  }
  return found;
}

/// Of each request that was seen, its padding.
template <class Request>
std::vector<std::string> seen_in(const request_info& info) {
  std::vector<std::string> all;
  for (const auto& each : info.requests()) {
    Request request;
    EXPECT_TRUE(each.UnpackTo(&request));
    all.push_back(request.request_data());
  }
  return all;
}

using texts = std::vector<std::string>;

TEST_P(conformance, a_unary_call_is_told_what_was_seen_of_it) {
  UnaryRequest request;
  request.set_request_data("padding");
  auto& wanted = *request.mutable_response_definition();
  wanted.set_response_data("data");
  set(*wanted.add_response_headers(), "X-First", {"1", "2"});
  set(*wanted.add_response_headers(), "x-first-bin", {"AP8="});
  set(*wanted.add_response_trailers(), "x-last", {"3"});
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 20s);
  context.AddMetadata("x-a", "a");
  context.AddMetadata("x-b-bin", std::string("\0\xff", 2));
  context.AddMetadata("x-a", "again");
  UnaryResponse reply;
  const grpc::Status status = stub_->Unary(&context, request, &reply);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(reply.payload().data(), "data");
  const request_info& seen = reply.payload().request_info();
  EXPECT_EQ(header_of(seen, "x-a"), (texts{"a", "again"}));
  EXPECT_EQ(header_of(seen, "x-b-bin"), texts{"AP8"});
  EXPECT_GT(seen.timeout_ms(), 10'000);
  EXPECT_LE(seen.timeout_ms(), 20'000);
  EXPECT_EQ(seen_in<UnaryRequest>(seen), texts{"padding"});
  EXPECT_EQ(values_of(context.GetServerInitialMetadata(), "x-first"), (texts{"1", "2"}));
  EXPECT_EQ(values_of(context.GetServerInitialMetadata(), "x-first-bin"),
            texts{std::string("\0\xff", 2)});
  EXPECT_EQ(values_of(context.GetServerTrailingMetadata(), "x-last"), texts{"3"});
}

TEST_P(conformance, without_a_definition_or_a_deadline_a_call_is_told_so) {
  grpc::ClientContext context;
  IdempotentUnaryResponse reply;
  ASSERT_TRUE(stub_->IdempotentUnary(&context, {}, &reply).ok());
  EXPECT_EQ(reply.payload().data(), "");
  EXPECT_FALSE(reply.payload().request_info().has_timeout_ms());
  EXPECT_EQ(seen_in<IdempotentUnaryRequest>(reply.payload().request_info()), texts{""});
  grpc::ClientContext other;
  UnimplementedResponse none;
  EXPECT_EQ(stub_->Unimplemented(&other, {}, &none).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_P(conformance, an_error_carries_its_details_and_what_was_seen_and_its_metadata) {
  UnaryRequest request;
  auto& wanted = *request.mutable_response_definition();
  wanted.mutable_error()->set_code(5);
  wanted.mutable_error()->set_message("not here");
  Header detail;
  set(detail, "a detail", {});
  wanted.mutable_error()->add_details()->PackFrom(detail);
  set(*wanted.add_response_headers(), "x-first", {"1"});
  set(*wanted.add_response_trailers(), "x-last", {"3"});
  grpc::ClientContext context;
  UnaryResponse reply;
  const grpc::Status status = stub_->Unary(&context, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "not here");
  StatusDetails details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), 5);
  EXPECT_EQ(details.message(), "not here");
  ASSERT_EQ(details.details_size(), 2);
  EXPECT_TRUE(details.details(0).Is<Header>());
  request_info seen;
  ASSERT_TRUE(details.details(1).UnpackTo(&seen));
  EXPECT_EQ(seen.requests_size(), 1);
  EXPECT_EQ(values_of(context.GetServerInitialMetadata(), "x-first"), texts{"1"});
  EXPECT_EQ(values_of(context.GetServerTrailingMetadata(), "x-last"), texts{"3"});
}

TEST_P(conformance, details_that_are_too_large_are_left_out) {
  UnaryRequest request;
  request.mutable_response_definition()->mutable_error()->set_code(99);
  request.set_request_data(std::string(100'000, 'x'));
  UnaryResponse reply;
  const grpc::Status status = unary(request, reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNKNOWN);
  EXPECT_EQ(status.error_details(), "");
}

TEST_P(conformance, what_cannot_be_followed_is_said) {
  UnaryRequest request;
  UnaryResponse reply;
  request.mutable_response_definition()->set_response_delay_ms(10'001);
  EXPECT_EQ(unary(request, reply).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  for (const auto& [name, value] : {std::pair{"x-a", "\n"}, {"x a", "1"}, {"x-bin", "#"}}) {
    request.Clear();
    set(*request.mutable_response_definition()->add_response_trailers(), name, {value});
    EXPECT_EQ(unary(request, reply).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << name;
  }
}

TEST_P(conformance, replies_come_one_by_one_and_say_once_what_was_seen) {
  ServerStreamRequest request;
  auto& wanted = *request.mutable_response_definition();
  for (const char* each : {"a", "b"}) wanted.add_response_data(each);
  wanted.mutable_error()->set_code(8);
  grpc::ClientContext context;
  const auto stream = stub_->ServerStream(&context, request);
  ServerStreamResponse reply;
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.payload().data(), "a");
  EXPECT_EQ(reply.payload().request_info().requests_size(), 1);
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.payload().data(), "b");
  EXPECT_FALSE(reply.payload().has_request_info());
  EXPECT_FALSE(stream->Read(&reply));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_details(), "");
}

TEST_P(conformance, a_stream_without_replies_has_its_header_all_the_same) {
  ServerStreamRequest request;
  auto& wanted = *request.mutable_response_definition();
  set(*wanted.add_response_headers(), "x-first", {"1"});
  grpc::ClientContext context;
  const auto stream = stub_->ServerStream(&context, request);
  ServerStreamResponse reply;
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(values_of(context.GetServerInitialMetadata(), "x-first"), texts{"1"});
}

TEST_P(conformance, the_first_request_of_a_stream_defines_the_reply) {
  grpc::ClientContext context;
  ClientStreamResponse reply;
  const auto stream = stub_->ClientStream(&context, &reply);
  for (const char* each : {"a", "b"}) {
    ClientStreamRequest request;
    request.mutable_response_definition()->set_response_data(each);
    request.set_request_data(each);
    EXPECT_TRUE(stream->Write(request));
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(reply.payload().data(), "a");
  EXPECT_EQ(seen_in<ClientStreamRequest>(reply.payload().request_info()), (texts{"a", "b"}));
}

BidiStreamRequest both_ways(bool full_duplex, const std::string& padding) {
  BidiStreamRequest request;
  request.set_full_duplex(full_duplex);
  request.set_request_data(padding);
  for (const char* each : {"1", "2", "3"}) {
    request.mutable_response_definition()->add_response_data(each);
  }
  return request;
}

TEST_P(conformance, full_duplex_answers_each_request) {
  grpc::ClientContext context;
  const auto stream = stub_->BidiStream(&context);
  BidiStreamResponse reply;
  for (const char* each : {"a", "b"}) {
    ASSERT_TRUE(stream->Write(both_ways(true, each)));
    ASSERT_TRUE(stream->Read(&reply));
    EXPECT_EQ(seen_in<BidiStreamRequest>(reply.payload().request_info()), texts{each});
  }
  EXPECT_EQ(reply.payload().data(), "2");
  stream->WritesDone();
  ASSERT_TRUE(stream->Read(&reply));  // what is left
  EXPECT_EQ(reply.payload().data(), "3");
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_P(conformance, full_duplex_ends_when_there_is_no_reply_left) {
  grpc::ClientContext context;
  const auto stream = stub_->BidiStream(&context);
  BidiStreamRequest request;
  request.set_full_duplex(true);
  request.mutable_response_definition()->mutable_error()->set_code(10);
  ASSERT_TRUE(stream->Write(request));
  BidiStreamResponse reply;
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::ABORTED);
}

TEST_P(conformance, half_duplex_answers_when_all_have_come) {
  grpc::ClientContext context;
  const auto stream = stub_->BidiStream(&context);
  for (const char* each : {"a", "b"}) ASSERT_TRUE(stream->Write(both_ways(false, each)));
  stream->WritesDone();
  BidiStreamResponse reply;
  for (const std::string each : {"1", "2", "3"}) {
    ASSERT_TRUE(stream->Read(&reply));
    EXPECT_EQ(reply.payload().data(), each);
    EXPECT_EQ(seen_in<BidiStreamRequest>(reply.payload().request_info()),
              each == "1" ? (texts{"a", "b"}) : texts{});
  }
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_P(conformance, requests_above_their_number_or_bytes_are_not_remembered) {
  const std::size_t above = handlers::conformance_request_bytes_max + 1;
  struct kind {
    std::size_t requests;
    std::size_t bytes;
  };
  for (const kind each : {kind{handlers::conformance_requests_max + 1, 0}, {3, above / 3}}) {
    grpc::ClientContext context;
    const auto stream = stub_->BidiStream(&context);
    BidiStreamRequest request;
    request.set_request_data(std::string(each.bytes, 'x'));
    for (std::size_t i = 0; i < each.requests; ++i) {
      if (!stream->Write(request)) break;
    }
    BidiStreamResponse reply;
    EXPECT_FALSE(stream->Read(&reply));
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
}

TEST_P(conformance, a_delay_holds_no_worker) {
  ServerStreamRequest request;
  request.mutable_response_definition()->set_response_delay_ms(300);
  request.mutable_response_definition()->add_response_data("late");
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<ServerStreamResponse>>> streams;
  const auto began = clock::now();
  for (int i = 0; i < 50; ++i) {  // one after the other they would take 7 s
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    streams.push_back(stub_->ServerStream(contexts.back().get(), request));
  }
  ServerStreamResponse reply;
  for (const auto& each : streams) {
    ASSERT_TRUE(each->Read(&reply));
    EXPECT_GE(clock::now() - began, 300ms);
    EXPECT_FALSE(each->Read(&reply));
    EXPECT_TRUE(each->Finish().ok());
  }
  EXPECT_LT(clock::now() - began, 5s);
}

TEST_P(conformance, a_delay_ends_with_its_call) {
  UnaryRequest request;
  request.mutable_response_definition()->set_response_delay_ms(10'000);
  UnaryResponse reply;
  const auto began = clock::now();
  EXPECT_EQ(unary(request, reply, 100ms).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  expect_all_ended();
  EXPECT_LT(clock::now() - began, 5s);
}

}  // namespace
}  // namespace bwos::server::test
