// SPDX-License-Identifier: Apache-2.0
#include "base/throw_log.hpp"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

namespace bwos::server {
namespace {

using namespace std::chrono_literals;

TEST(throw_log, has_a_line_a_second_and_counts_the_rest) {
  throw_log log;
  const auto begun = throw_log::clock::now();
  EXPECT_EQ(log.note("/a", "first", begun), "the handler of /a threw: first");
  EXPECT_EQ(log.note("/b", "second", begun + 1ms), std::nullopt);
  EXPECT_EQ(log.note("/a", "third", begun + 999ms), std::nullopt);
  EXPECT_EQ(log.note("/b", "fourth", begun + 1s),
            "the handler of /b threw: fourth (2 more had thrown since the line before)");
  EXPECT_EQ(log.note("/b", "fifth", begun + 1999ms), std::nullopt);
  EXPECT_EQ(log.note("/b", "sixth", begun + 9s),
            "the handler of /b threw: sixth (1 more had thrown since the line before)");
  EXPECT_EQ(log.note("/b", "seventh", begun + 10s), "the handler of /b threw: seventh");
}

TEST(throw_log, keeps_what_a_peer_may_have_written_on_one_short_line) {
  throw_log log;
  const std::string what = "a\nb\x1b\x7f\xff{}" + std::string(1000, 'x');
  EXPECT_EQ(log.note("/a", what, {}),
            "the handler of /a threw: a?b???{}" + std::string(throw_log::what_bytes_max - 8, 'x'));
}

TEST(throw_log, says_what_was_thrown_whatever_it_was) {
  const auto before = spdlog::default_logger();
  std::ostringstream written;
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(written)));
  try {
    throw std::runtime_error("{not a format}");
  } catch (...) {
    log_thrown("/a");
  }
  try {
    throw 1;  // within the second
  } catch (...) {
    log_thrown("/b");
  }
  spdlog::set_default_logger(before);
  EXPECT_NE(written.str().find("[error] the handler of /a threw: {not a format}\n"),
            std::string::npos)
      << written.str();
}

}  // namespace
}  // namespace bwos::server
