// SPDX-License-Identifier: Apache-2.0
// The soak's calls: each of random size, and right or wrong by what it answers.
#pragma once

#include <grpcpp/grpcpp.h>
#include <helloworld.grpc.pb.h>
#include <test_service.grpc.pb.h>
#include <work.grpc.pb.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace bwos::server::test {

enum class call_kind : std::uint8_t { hello, burn, unary, server_stream, client_stream, duplex };
inline constexpr std::array<const char*, 6> call_kinds{
    "SayHello", "Burn", "UnaryCall", "StreamingOutputCall", "StreamingInputCall", "FullDuplexCall"};

/// How a call ended.
struct call_end {
  grpc::Status status;
  std::string wrong{};  ///< What of an answer with status OK is not as it has to be.
};

class soak_calls {
 public:
  soak_calls(const std::shared_ptr<grpc::Channel>& channel, std::uint64_t seed)
      : random_(seed),
        greeter_(helloworld::Greeter::NewStub(channel)),
        work_(Work::NewStub(channel)),
        tested_(grpc::testing::TestService::NewStub(channel)) {}

  [[nodiscard]] int any(int least, int most) {
    return std::uniform_int_distribution(least, most)(random_);
  }
  /// As likely below 64 as above it, if `most` is its square.
  [[nodiscard]] int any_magnitude(int most) {
    return static_cast<int>(std::exp(
        std::uniform_real_distribution(0.0, std::log(static_cast<double>(most)))(random_)));
  }

  call_end make(call_kind kind, grpc::ClientContext& context) {
    switch (kind) {
      case call_kind::hello:
        return hello(context);
      case call_kind::burn:
        return burn(context);
      case call_kind::unary:
        return unary(context);
      case call_kind::server_stream:
        return server_stream(context);
      case call_kind::client_stream:
        return client_stream(context);
      case call_kind::duplex:
        return duplex(context);
    }
    return {};
  }

 private:
  static constexpr int message_bytes_max = 256 * 1024;
  static constexpr int messages_max = 12;

  static std::string zeros(int count) { return std::string(static_cast<std::size_t>(count), '\0'); }
  [[nodiscard]] int any_size() { return any_magnitude(message_bytes_max); }
  [[nodiscard]] bool one_in(int many) { return any(1, many) == 1; }
  void maybe_compress(grpc::ClientContext& context) {
    if (!one_in(3)) return;
    context.set_compression_algorithm(one_in(2) ? GRPC_COMPRESS_GZIP : GRPC_COMPRESS_DEFLATE);
  }
  static call_end judged(grpc::Status status, bool right, const std::string& otherwise) {
    return {.status = status, .wrong = !status.ok() || right ? "" : otherwise};
  }
  static std::string sizes(std::size_t got, std::size_t wanted) {
    return std::to_string(got) + " for " + std::to_string(wanted);
  }

  /// Nobody else's name.
  call_end hello(grpc::ClientContext& context) {
    helloworld::HelloRequest request;
    request.set_name(std::to_string(random_()));
    helloworld::HelloReply reply;
    const grpc::Status status = greeter_->SayHello(&context, request, &reply);
    return judged(status, reply.message() == "Hello " + request.name(),
                  "'" + reply.message() + "' for " + request.name());
  }

  /// Half of them take more than the 50 us above which a method goes to the lane, as then do all.
  call_end burn(grpc::ClientContext& context) {
    BurnRequest request;
    request.set_us(static_cast<std::uint64_t>(any_magnitude(2500)));
    BurnReply reply;
    const grpc::Status status = work_->Burn(&context, request, &reply);
    return judged(status, reply.us() == request.us(), sizes(reply.us(), request.us()));
  }

  call_end unary(grpc::ClientContext& context) {
    grpc::testing::SimpleRequest request;
    request.set_response_size(any_size());
    request.mutable_payload()->set_body(zeros(any_size()));
    request.mutable_response_compressed()->set_value(one_in(3));
    maybe_compress(context);
    grpc::testing::SimpleResponse reply;
    const grpc::Status status = tested_->UnaryCall(&context, request, &reply);
    return judged(
        status, reply.payload().body() == zeros(request.response_size()),
        sizes(reply.payload().body().size(), static_cast<std::size_t>(request.response_size())));
  }

  call_end server_stream(grpc::ClientContext& context) {
    grpc::testing::StreamingOutputCallRequest request;
    std::vector<std::size_t> wanted;
    for (int left = any(0, messages_max); left > 0; --left) {
      auto* const each = request.add_response_parameters();
      each->set_size(any_size());
      each->mutable_compressed()->set_value(one_in(4));
      wanted.push_back(static_cast<std::size_t>(each->size()));
    }
    const auto stream = tested_->StreamingOutputCall(&context, request);
    grpc::testing::StreamingOutputCallResponse reply;
    std::vector<std::size_t> got;
    while (stream->Read(&reply)) got.push_back(reply.payload().body().size());
    return judged(stream->Finish(), got == wanted, sizes(got.size(), wanted.size()));
  }

  call_end client_stream(grpc::ClientContext& context) {
    maybe_compress(context);
    grpc::testing::StreamingInputCallResponse reply;
    const auto stream = tested_->StreamingInputCall(&context, &reply);
    int sum = 0;
    for (int left = any(0, messages_max); left > 0; --left) {
      grpc::testing::StreamingInputCallRequest request;
      const int size = any_size();
      request.mutable_payload()->set_body(zeros(size));
      sum += size;
      if (!stream->Write(request)) break;
    }
    stream->WritesDone();
    const grpc::Status status = stream->Finish();
    return judged(status, reply.aggregated_payload_size() == sum,
                  sizes(static_cast<std::size_t>(reply.aggregated_payload_size()),
                        static_cast<std::size_t>(sum)));
  }

  /// Up to three requests ahead of their replies.
  call_end duplex(grpc::ClientContext& context) {
    maybe_compress(context);
    const auto stream = tested_->FullDuplexCall(&context);
    grpc::testing::StreamingOutputCallResponse reply;
    std::vector<std::size_t> wanted;
    std::vector<std::size_t> got;
    const std::size_t ahead = static_cast<std::size_t>(any(0, 3));
    const auto read = [&] {
      const bool is_one = stream->Read(&reply);
      if (is_one) got.push_back(reply.payload().body().size());
      return is_one;
    };
    bool well = true;
    for (int left = any(0, messages_max); well && left > 0; --left) {
      grpc::testing::StreamingOutputCallRequest request;
      auto* const each = request.add_response_parameters();
      each->set_size(any_size());
      each->mutable_compressed()->set_value(one_in(4));
      request.mutable_payload()->set_body(zeros(any_size()));
      wanted.push_back(static_cast<std::size_t>(each->size()));
      well = stream->Write(request) && (wanted.size() - got.size() <= ahead || read());
    }
    stream->WritesDone();
    while (read()) {
    }
    return judged(stream->Finish(), got == wanted, sizes(got.size(), wanted.size()));
  }

  std::mt19937_64 random_;
  std::unique_ptr<helloworld::Greeter::Stub> greeter_;
  std::unique_ptr<Work::Stub> work_;
  std::unique_ptr<grpc::testing::TestService::Stub> tested_;
};

}  // namespace bwos::server::test
