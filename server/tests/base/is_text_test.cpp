// SPDX-License-Identifier: Apache-2.0
#include "base/is_text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace bwos::server {
namespace {

TEST(is_text, is_true_of_the_same_bytes_alone) {
  const std::string text = "grpc-timeout, and more";
  EXPECT_TRUE(is_text(std::string_view(text).substr(0, 12), "grpc-timeout"));
  EXPECT_FALSE(is_text(text, "grpc-timeout"));
  EXPECT_FALSE(is_text(std::string_view(text).substr(0, 11), "grpc-timeout"));
  EXPECT_FALSE(is_text("grpc-timeouT", "grpc-timeout"));
  EXPECT_TRUE(is_text("", ""));
  EXPECT_TRUE(is_text({}, ""));
  static_assert(is_text("te", "te") && !is_text("te", "TE"));
}

}  // namespace
}  // namespace bwos::server
