// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "connection.hpp"

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
