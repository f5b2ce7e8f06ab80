// SPDX-License-Identifier: Apache-2.0
// grpc.health.v1.Health as a client of gRPC C++ sees it, on both transports: gRPC C++'s own service
// is the measure of ours.
#include <gtest/gtest.h>
#include <health.grpc.pb.h>

#include <deque>
#include <memory>
#include <string>

#include "each_transport.hpp"

namespace bwos::server::test {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthCheckRequest asking_for(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

/// A stream of its own, read by whoever asks.
class watch {
 public:
  watch(const std::shared_ptr<grpc::Channel>& channel, const std::string& service)
      : stream_(Health::NewStub(channel)->Watch(&context_, asking_for(service))) {}
  ~watch() {
    context_.TryCancel();
    if (!ended_) (void)end();
  }
  /// -1: the stream has ended.
  int next() {
    HealthCheckResponse reply;
    return stream_->Read(&reply) ? reply.status() : -1;
  }
  grpc::Status end() {
    ended_ = true;
    HealthCheckResponse reply;
    while (stream_->Read(&reply)) {
    }
    return stream_->Finish();
  }
  void cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> stream_;
  bool ended_ = false;
};

class health : public each_transport {
 protected:
  grpc::StatusCode check(const std::string& service, HealthCheckResponse& reply) {
    grpc::ClientContext context;
    return Health::NewStub(channel_)->Check(&context, asking_for(service), &reply).error_code();
  }
  /// Native alone counts watches among its calls.
  [[nodiscard]] bool eventually_watching(std::uint64_t wanted) const {
    return !is_native() || eventually([&] {
      const grpc_statistics calls = server_->statistics();
      return calls.started - calls.ok - calls.failed - calls.cancelled == wanted;
    });
  }
};

INSTANTIATE_TEST_SUITE_P(on, health, all_transports, name_of_transport);

TEST_P(health, check_follows_readiness) {
  HealthCheckResponse reply;
  for (const char* service : {"", "helloworld.Greeter", "grpc.testing.TestService"}) {
    EXPECT_EQ(check(service, reply), grpc::StatusCode::OK) << service;
    EXPECT_EQ(reply.status(), HealthCheckResponse::SERVING) << service;
  }
  EXPECT_EQ(check("nobody.Knows", reply), grpc::StatusCode::NOT_FOUND);
  drain();
  EXPECT_EQ(check("helloworld.Greeter", reply), grpc::StatusCode::OK);
  EXPECT_EQ(reply.status(), HealthCheckResponse::NOT_SERVING);
}

TEST_P(health, a_watch_is_told_at_once_and_of_the_drain) {
  watch server(channel_, "");
  watch greeter(channel_, "helloworld.Greeter");
  EXPECT_EQ(server.next(), HealthCheckResponse::SERVING);
  EXPECT_EQ(greeter.next(), HealthCheckResponse::SERVING);
  drain();
  EXPECT_EQ(server.next(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(greeter.next(), HealthCheckResponse::NOT_SERVING);
  watch late(channel_, "");
  EXPECT_EQ(late.next(), HealthCheckResponse::NOT_SERVING);
}

TEST_P(health, a_watch_of_an_unknown_service_is_told_so_and_goes_on) {
  watch unknown(channel_, "nobody.Knows");
  EXPECT_EQ(unknown.next(), HealthCheckResponse::SERVICE_UNKNOWN);
  drain();
  EXPECT_EQ(unknown.next(), HealthCheckResponse::NOT_SERVING);
  watch late(channel_, "nobody.KnowsEither");
  EXPECT_EQ(late.next(), HealthCheckResponse::SERVICE_UNKNOWN);
}

TEST_P(health, watches_that_are_cancelled_go_and_the_others_stay) {
  std::deque<watch> watches;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(watches.emplace_back(channel_, "").next(), HealthCheckResponse::SERVING);
  }
  EXPECT_TRUE(eventually_watching(20));
  for (int i = 0; i < 10; ++i) watches.pop_front();
  EXPECT_TRUE(eventually_watching(10));
  drain();
  for (watch& each : watches) EXPECT_EQ(each.next(), HealthCheckResponse::NOT_SERVING);
}

TEST_P(health, watches_whose_connection_ends_go_and_the_others_stay) {
  auto other = connect();
  std::deque<watch> lost;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(lost.emplace_back(other, "").next(), HealthCheckResponse::SERVING);
  }
  watch stays(channel_, "");
  EXPECT_EQ(stays.next(), HealthCheckResponse::SERVING);
  EXPECT_TRUE(eventually_watching(11));
  lost.clear();
  other.reset();
  EXPECT_TRUE(eventually_watching(1));
  drain();
  EXPECT_EQ(stays.next(), HealthCheckResponse::NOT_SERVING);
}

TEST_P(health, a_deadline_ends_a_watch) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 2s);
  const auto stream = Health::NewStub(channel_)->Watch(&context, asking_for(""));
  HealthCheckResponse reply;
  EXPECT_TRUE(stream->Read(&reply));
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(eventually_watching(0));
}

TEST_P(health, watches_do_not_hold_a_stop_and_end_with_it) {
  watch told(channel_, "");
  watch also(connect(), "");
  EXPECT_EQ(told.next(), HealthCheckResponse::SERVING);
  EXPECT_EQ(also.next(), HealthCheckResponse::SERVING);
  drain();
  EXPECT_EQ(told.next(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(also.next(), HealthCheckResponse::NOT_SERVING);
  stop(3600s);  // ctest ends it if that is waited for
  EXPECT_EQ(told.next(), -1);
  EXPECT_EQ(told.end().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(also.end().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace bwos::server::test
