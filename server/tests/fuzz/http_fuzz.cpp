// SPDX-License-Identifier: Apache-2.0
// Bytes of one connection in, answers out, without a socket: the same bytes must give the same
// requests, answers and refusal however they are cut. The input's last two bytes say how.
//
// A second opinion on what was taken: between the requests' heads there is no byte that another
// reader could take for the end of a line.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>

#include "app/routes.hpp"
#include "http/h1/parser.hpp"
#include "http/h1/writer.hpp"
#include "tests/http/demo_site.hpp"
#include "tests/net/unlimited_memory.hpp"

namespace bwos::server::h1 {
namespace {

constexpr std::string_view date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
/// Small enough for the fuzzer to reach each.
constexpr http_limits limits{.header_bytes_max = 300, .body_bytes_max = 1000};

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

/// Every line of a head ends with CRLF, and nothing else in it is a control character.
bool has_clean_lines(std::string_view head) {
  for (std::size_t i = 0; i < head.size(); ++i) {
    const auto c = static_cast<unsigned char>(head[i]);
    const bool ends_line = c == '\r' && i + 1 < head.size() && head[i + 1] == '\n';
    if (ends_line) {
      ++i;
    } else if ((c < ' ' && c != '\t') || c == 0x7f) {
      return false;
    }
  }
  return true;
}

class connection {
 public:
  /// False: closed. The piece dies afterwards, so that a view kept by mistake is seen.
  bool receive(std::string_view piece) {
    const auto copy = std::make_unique<char[]>(piece.size());
    std::memcpy(copy.get(), piece.data(), piece.size());
    std::string_view rest(copy.get(), piece.size());
    while (!rest.empty()) {
      const auto [what, consumed] = parser_.feed(rest);
      expect(consumed <= rest.size(), "no more is consumed than there was");
      if (what == parser::outcome::refused) return answer(error_response(parser_.refusal()), false);
      if (what == parser::outcome::incomplete) {
        expect(consumed == rest.size(), "incomplete means that all is consumed");
        return true;
      }
      expect(consumed > 0, "a request ends with a byte");
      const request& asked = parser_.current();
      const bool keep = parser_.keep_alive();
      answer(site_.routes.respond(site_.routes.find(asked.path), asked, scratch_), keep);
      ++requests;
      parser_.release();
      if (!keep) return false;
      rest.remove_prefix(consumed);
    }
    return true;
  }

  [[nodiscard]] std::string_view output() const { return output_.view(); }
  [[nodiscard]] parser::phase where() const { return parser_.where(); }
  unsigned requests = 0;

 private:
  bool answer(const response& what, bool keep) {
    write_response(output_, what, {.keep_alive = keep, .http_1_0 = parser_.http_1_0()}, date);
    return false;
  }

  parser parser_{limits, test::unlimited_account()};
  test::demo_site site_{0};
  std::string scratch_;
  byte_buffer output_;
};

/// Heads of the requests taken, one feed a request.
void check_heads(std::string_view input) {
  parser reading(limits, test::unlimited_account());
  while (!input.empty()) {
    const auto [what, consumed] = reading.feed(input);
    if (what != parser::outcome::request) return;
    std::string_view taken = input.substr(0, consumed);
    while (taken.starts_with("\r\n")) taken.remove_prefix(2);
    const std::size_t end = taken.find("\r\n\r\n");
    expect(end != std::string_view::npos, "a head ends with an empty line");
    expect(has_clean_lines(taken.substr(0, end + 4)), "its lines are clean");
    expect(taken.find("\r\n ") >= end && taken.find("\r\n\t") >= end, "none is folded");
    input.remove_prefix(consumed);
    reading.release();
  }
}

void check(std::string_view input, std::uint16_t seed) {
  connection whole;
  const bool open = whole.receive(input);

  connection cut;
  std::minstd_rand random(seed);
  const std::size_t longest = 1 + random() % (seed % 3 == 0 ? 4 : 64);
  bool cut_open = true;
  for (std::string_view rest = input; cut_open && !rest.empty();) {
    const std::string_view piece = rest.substr(0, 1 + random() % longest);
    rest.remove_prefix(piece.size());
    cut_open = cut.receive(piece);
  }
  expect(open == cut_open, "it stays open however it is cut");
  expect(whole.requests == cut.requests, "as many requests however it is cut");
  expect(whole.output() == cut.output(), "the same answers however it is cut");
  if (open) expect(whole.where() == cut.where(), "it waits for the same however it is cut");
}

}  // namespace
}  // namespace bwos::server::h1

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size - 2);
  const auto seed = static_cast<std::uint16_t>(data[size - 2] << 8 | data[size - 1]);
  bwos::server::h1::check_heads(input);
  bwos::server::h1::check(input, seed);
  return 0;
}
