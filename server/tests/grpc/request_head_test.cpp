// SPDX-License-Identifier: Apache-2.0
#include "grpc/request_head.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grpc/methods.hpp"

namespace bwos::server::rpc {
namespace {

using namespace std::chrono_literals;
using fields = std::vector<std::pair<std::string_view, std::string_view>>;
constexpr request_head::clock::time_point now{1h};

/// Of a call that is there, with `more` read behind what each call has.
request_head head(const fields& more, bool is_called = true) {
  static const method some{};
  request_head made;
  made.called = is_called ? &some : nullptr;
  made.read(":method", "POST", now);
  made.read("content-type", "application/grpc", now);
  made.read("te", "trailers", now);
  for (const auto& [name, value] : more) made.read(name, value, now);
  return made;
}

struct judged {
  const char* what;
  fields more;
  std::string_view http_status;
  rpc::code code;
  bool is_called = true;
  bool too_large = false;
  bool hosts_differ = false;
};

TEST(request_head, each_fault_has_its_answer) {
  const std::vector<judged> table{
      {"nothing", {}, "", code::ok},
      {"another method", {{":method", "PUT"}}, "405", code::ok},
      {"another type", {{"content-type", "text/plain"}}, "415", code::ok},
      {"a format of its own", {{"content-type", "application/grpc+json"}}, "", code::unimplemented},
      {"protobuf by name", {{"content-type", "application/grpc+proto"}}, "", code::ok},
      {"an unknown method", {}, "", code::unimplemented, false},
      {"a timeout", {{"grpc-timeout", "1S"}}, "", code::ok},
      {"a timeout without a unit", {{"grpc-timeout", "1"}}, "", code::internal},
      {"gzip", {{"grpc-encoding", "gzip"}}, "", code::ok},
      {"deflate", {{"grpc-encoding", "deflate"}}, "", code::ok},
      {"identity", {{"grpc-encoding", "identity"}}, "", code::ok},
      {"another encoding", {{"grpc-encoding", "br"}}, "", code::unimplemented},
      {"another host", {}, "400", code::ok, true, false, true},
      {"too large a header", {}, "", code::resource_exhausted, true, true},
      // The first that applies: whoever speaks no gRPC is told so by HTTP.
      {"too large, by no gRPC",
       {{":method", "GET"}},
       "",
       code::resource_exhausted,
       true,
       true,
       true},
      {"two hosts, by GET", {{":method", "GET"}}, "400", code::ok, true, false, true},
      {"no gRPC at an unknown path", {{"content-type", "text/html"}}, "415", code::ok, false},
      {"a bad timeout of an unknown method",
       {{"grpc-timeout", "x"}},
       "",
       code::unimplemented,
       false},
  };
  for (const judged& one : table) {
    const verdict found = head(one.more, one.is_called).judge(one.too_large, one.hosts_differ);
    EXPECT_EQ(found.http_status, one.http_status) << one.what;
    EXPECT_EQ(found.what, one.code) << one.what;
  }
}

TEST(request_head, a_timeout_begins_when_it_is_read) {
  EXPECT_EQ(head({{"grpc-timeout", "250m"}}).deadline, now + 250ms);
  EXPECT_EQ(head({}).deadline, request_head::clock::time_point::max());
}

TEST(request_head, knows_how_messages_are_packed) {
  EXPECT_EQ(head({}).sent, encoding::identity);
  EXPECT_EQ(head({{"grpc-encoding", "gzip"}}).sent, encoding::gzip);
  EXPECT_EQ(head({{"grpc-encoding", "deflate"}}).sent, encoding::deflate);
  EXPECT_EQ(head({}).accepted, encoding::identity);
  EXPECT_EQ(head({{"grpc-accept-encoding", "identity"}}).accepted, encoding::identity);
  EXPECT_EQ(head({{"grpc-accept-encoding", "gzip"}}).accepted, encoding::gzip);
  EXPECT_EQ(head({{"grpc-accept-encoding", "identity, gzip, deflate"}}).accepted,
            encoding::deflate);
}

TEST(request_head, metadata_is_what_is_not_the_protocols) {
  const request_head read = head({{":scheme", "http"},
                                  {"grpc-previous-rpc-attempts", "1"},
                                  {"content-length", "5"},
                                  {"user-agent", "a"},
                                  {"x-id", "7"},
                                  {"x-id", "8"},
                                  {"trace-bin", "AA"}});
  const std::vector<std::pair<std::string, std::string>> wanted{
      {"user-agent", "a"}, {"x-id", "7"}, {"x-id", "8"}, {"trace-bin", "AA"}};
  EXPECT_EQ(read.metadata, wanted);
}

}  // namespace
}  // namespace bwos::server::rpc
