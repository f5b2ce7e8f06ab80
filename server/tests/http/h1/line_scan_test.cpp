// SPDX-License-Identifier: Apache-2.0
#include "http/h1/line_scan.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>

namespace bwos::server::h1 {
namespace {

using outcome = line_scan::outcome;

struct verdict {
  outcome what = outcome::incomplete;
  std::size_t used = 0;  // for complete: up to the empty line's end
  std::size_t first_line = 0;

  bool operator==(const verdict&) const = default;
};

/// The same, a byte after the other, as one would say it.
verdict expected(std::string_view text) {
  verdict result;
  std::size_t line = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == line && (text[i] == ' ' || text[i] == '\t' || text[i] == ':'))
      return {outcome::malformed, 0, result.first_line};
    if (text[i] != '\n') continue;
    if (i == line || text[i - 1] != '\r') return {outcome::malformed, 0, result.first_line};
    if (i - line == 1) return {outcome::complete, i + 1, result.first_line};
    if (result.first_line == 0) result.first_line = i + 1;
    line = i + 1;
  }
  return result;
}

/// Each piece in memory of its own, so that the address sanitizer sees a look beyond its end.
verdict scanned(std::string_view text, std::size_t cut) {
  line_scan lines;
  std::size_t before = 0;
  for (const std::string_view piece : {text.substr(0, cut), text.substr(cut)}) {
    const auto copy = std::make_unique<char[]>(piece.size());
    std::memcpy(copy.get(), piece.data(), piece.size());
    const auto [what, used] = lines.scan({copy.get(), piece.size()});
    if (what == outcome::complete) return {what, before + used, lines.first_line()};
    if (what == outcome::malformed) return {what, 0, lines.first_line()};
    before += piece.size();
  }
  return {outcome::incomplete, 0, lines.first_line()};
}

TEST(line_scan, ends_with_the_empty_line_wherever_lines_end_and_pieces_are_cut) {
  for (std::size_t size = 1; size < 100; ++size) {
    const std::string head = std::string(size, 'x') + "\r\nHost: a\r\n\r\n";
    const verdict whole{outcome::complete, head.size(), size + 2};
    for (std::size_t cut = 0; cut <= head.size(); ++cut)
      EXPECT_EQ(scanned(head + "behind\n", cut), whole) << size << " cut at " << cut;
  }
}

TEST(line_scan, agrees_with_a_slow_reading_of_anything) {
  std::minstd_rand random(1);
  constexpr std::string_view pieces[] = {"\r\n", "\r\n", "\r\n",       "a",
                                         "bc",   "\n",   "\r",         " ",
                                         "\t",   ":",    "0123456789", "0123456789abcdef"};
  for (int round = 0; round < 100'000; ++round) {
    std::string text = "a";
    for (std::size_t count = random() % 12; count > 0; --count) {
      const std::size_t which = random() % (round % 2 == 0 ? std::size(pieces) : 5);
      text += pieces[which];
    }
    const std::size_t cut = random() % (text.size() + 1);
    ASSERT_EQ(scanned(text, cut), expected(text))
        << testing::PrintToString(text) << " cut at " << cut;
  }
}

}  // namespace
}  // namespace bwos::server::h1
