// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "http1_connection.hpp"

namespace {

using namespace bwos::load;

TEST(load_options, a_class_is_read_whole) {
  const request_class slow =
      parse_class("name=slow,connections=6,path=/work?us=200,rate=2625.5,burst=16,length=13");
  EXPECT_EQ(slow.name, "slow");
  EXPECT_EQ(slow.connections, 6U);
  EXPECT_EQ(slow.path, "/work?us=200");
  EXPECT_DOUBLE_EQ(slow.rate, 2625.5);
  EXPECT_EQ(slow.burst, 16U);
  EXPECT_EQ(slow.length_bytes, 13);
  EXPECT_EQ(slow.post_bytes, -1);
}

TEST(load_options, a_class_without_a_name_is_called_by_its_path) {
  EXPECT_EQ(parse_class("path=/plaintext").name, "/plaintext");
}

TEST(load_options, bad_classes_are_refused) {
  for (const char* bad :
       {"", "connections", "connections=0", "connections=70000", "rate=0", "rate=nan", "rate=12x",
        "path=plaintext", "color=red", "post=-1", "burst=0"}) {
    EXPECT_THROW(parse_class(bad), std::invalid_argument) << bad;
  }
}

TEST(load_options, a_class_of_grpc_without_a_rate_is_a_closed_loop) {
  const request_class call = parse_class(
      "protocol=grpc,path=/a.B/C,connections=10,streams=100,window=70000,message=0a00ff,reply=");
  EXPECT_EQ(call.protocol, protocol_kind::grpc);
  EXPECT_EQ(call.rate, 0);
  EXPECT_EQ(call.streams, 100U);
  EXPECT_EQ(call.window_bytes, 70'000U);
  EXPECT_EQ(call.message, std::string("\x0a\0\xff", 3));
  EXPECT_EQ(call.reply, "");
  EXPECT_EQ(parse_class("protocol=h2").streams, 1U);
  EXPECT_EQ(parse_class("protocol=h2,rate=5").streams, 0U);
  EXPECT_EQ(parse_class("path=/plaintext").rate, 1000);
}

TEST(load_options, what_a_protocol_has_no_use_for_is_refused) {
  for (const char* bad :
       {"protocol=http2", "streams=2", "window=5", "over=x", "message=00", "reply=00",
        "protocol=h2,message=00", "protocol=h2,reply=00", "protocol=grpc,post=1",
        "protocol=grpc,streams=0", "protocol=grpc,streams=100001", "protocol=grpc,window=0",
        "protocol=grpc,window=2147483648", "protocol=grpc,message=0", "protocol=grpc,message=0g",
        "protocol=grpc,burst=2", "protocol=grpc,over=x", "protocol=grpc,rate=1,over=x,streams=2",
        "protocol=grpc,rate=1,over=x,connections=2"}) {
    EXPECT_THROW(parse_class(bad), std::invalid_argument) << bad;
  }
}

TEST(load_options, a_class_goes_over_the_connections_of_another) {
  const std::vector<request_class> classes = {
      parse_class("name=a,protocol=grpc,rate=5"),      parse_class("protocol=grpc,rate=5,over=a"),
      parse_class("protocol=grpc,rate=5,over=none"),   parse_class("name=closed,protocol=grpc"),
      parse_class("protocol=grpc,rate=5,over=closed"), parse_class("name=old"),
      parse_class("protocol=grpc,rate=5,over=old")};
  EXPECT_EQ(carrier_of(classes, 0), 0U);
  EXPECT_EQ(carrier_of(classes, 1), 0U);
  for (const std::size_t bad : {2U, 4U, 6U}) {
    EXPECT_THROW(carrier_of(classes, bad), std::invalid_argument) << bad;
  }
}

TEST(load_options, a_target_needs_an_address_and_a_port) {
  EXPECT_EQ(ntohs(parse_target("127.0.0.1:8080").sin_port), 8080);
  for (const char* bad : {"", "127.0.0.1", "localhost:80", "127.0.0.1:0", "127.0.0.1:70000"}) {
    EXPECT_THROW(parse_target(bad), std::invalid_argument) << bad;
  }
}

TEST(load_options, the_request_says_what_the_class_asks) {
  const sockaddr_in target = parse_target("127.0.0.1:81");
  EXPECT_EQ(request_text(parse_class("path=/a"), target),
            "GET /a HTTP/1.1\r\nHost: localhost:81\r\n\r\n");
  EXPECT_EQ(request_text(parse_class("path=/echo,post=3"), target),
            "POST /echo HTTP/1.1\r\nHost: localhost:81\r\nContent-Type: text/plain\r\n"
            "Content-Length: 3\r\n\r\nxxx");
  EXPECT_EQ(request_text(parse_class("path=/a,burst=2"), target),
            "GET /a HTTP/1.1\r\nHost: localhost:81\r\n\r\n"
            "GET /a HTTP/1.1\r\nHost: localhost:81\r\n\r\n");
}

}  // namespace
