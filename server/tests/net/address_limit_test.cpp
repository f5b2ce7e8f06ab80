// SPDX-License-Identifier: Apache-2.0
#include "net/address_limit.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>
#include <thread>
#include <vector>

namespace bwos::server {
namespace {

sockaddr_storage address(const std::string& text) {
  sockaddr_storage result{};
  if (text.find(':') == std::string::npos) {
    result.ss_family = AF_INET;
    EXPECT_EQ(::inet_pton(AF_INET, text.c_str(), &reinterpret_cast<sockaddr_in&>(result).sin_addr),
              1);
  } else {
    result.ss_family = AF_INET6;
    EXPECT_EQ(
        ::inet_pton(AF_INET6, text.c_str(), &reinterpret_cast<sockaddr_in6&>(result).sin6_addr), 1);
  }
  return result;
}

class limited_to_two : public testing::Test {
 protected:
  bool enter(const std::string& from) {
    address_limit::place taken;
    const bool admitted = limit.admit(address(from), taken);
    if (admitted) places.push_back(std::move(taken));
    return admitted;
  }
  address_limit limit{2};
  std::vector<address_limit::place> places;
};

TEST_F(limited_to_two, each_address_has_as_many_and_no_more) {
  EXPECT_TRUE(enter("192.0.2.1"));
  EXPECT_TRUE(enter("192.0.2.1"));
  EXPECT_FALSE(enter("192.0.2.1"));
  EXPECT_FALSE(enter("192.0.2.1"));
  EXPECT_TRUE(enter("192.0.2.2"));
  EXPECT_EQ(limit.refused(), 2U);
}

TEST_F(limited_to_two, a_place_comes_back_with_its_connection) {
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(enter("192.0.2.1"));
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(enter("192.0.2.1"));
    places.pop_back();
    EXPECT_TRUE(enter("192.0.2.1"));
  }
  places.clear();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(enter("192.0.2.1"));
}

TEST_F(limited_to_two, a_place_that_moves_is_one) {
  address_limit::place first;
  ASSERT_TRUE(limit.admit(address("192.0.2.1"), first));
  address_limit::place second(std::move(first));
  first = std::move(second);
  EXPECT_TRUE(enter("192.0.2.1"));
  EXPECT_FALSE(enter("192.0.2.1"));
  first = {};
  EXPECT_TRUE(enter("192.0.2.1"));
}

TEST_F(limited_to_two, the_former_place_goes_before_the_next_is_taken) {
  EXPECT_TRUE(enter("192.0.2.1"));
  address_limit::place held;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limit.admit(address("192.0.2.1"), held));
}

TEST_F(limited_to_two, ipv6_counts_by_its_64) {
  EXPECT_TRUE(enter("2001:db8:0:1::1"));
  EXPECT_TRUE(enter("2001:db8:0:1:ffff::2"));
  EXPECT_FALSE(enter("2001:db8:0:1::3"));
  EXPECT_TRUE(enter("2001:db8:0:2::1"));
  EXPECT_TRUE(enter("::1"));
}

TEST_F(limited_to_two, ipv4_that_ipv6_carries_is_the_same) {
  EXPECT_TRUE(enter("::ffff:192.0.2.1"));
  EXPECT_TRUE(enter("192.0.2.1"));
  EXPECT_FALSE(enter("::ffff:192.0.2.1"));
  EXPECT_FALSE(enter("192.0.2.1"));
  EXPECT_TRUE(enter("::ffff:192.0.2.2"));
  EXPECT_TRUE(enter("::c000:201"));  // not carried, though it ends with the same bytes
}

TEST_F(limited_to_two, who_has_no_address_is_let_in) {
  address_limit::place none;
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(limit.admit(sockaddr_storage{}, none));
    EXPECT_TRUE(limit.admit(-1, none));
  }
  EXPECT_EQ(limit.refused(), 0U);
}

TEST(address_limit, threads_lose_no_place) {
  address_limit limit(1000);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&limit, t] {
        for (int i = 0; i < 2000; ++i) {
          const std::string from = "10.0." + std::to_string(t % 2) + "." + std::to_string(i % 50);
          address_limit::place held;
          EXPECT_TRUE(limit.admit(address(from), held));
        }
      });
    }
  }
  std::vector<address_limit::place> places(1000);
  for (auto& each : places) EXPECT_TRUE(limit.admit(address("10.0.0.1"), each));
  address_limit::place above;
  EXPECT_FALSE(limit.admit(address("10.0.0.1"), above));
}

}  // namespace
}  // namespace bwos::server
