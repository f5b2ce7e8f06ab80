// SPDX-License-Identifier: Apache-2.0
#include "http/h1/writer.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace bwos::server::h1 {
namespace {

constexpr std::size_t status_line_size_max = 56;

struct status_line {
  std::array<char, status_line_size_max> text{};
  std::size_t size = 0;

  constexpr void add(std::string_view piece) noexcept {
    for (const char c : piece) text[size++] = c;
  }
};

constexpr auto status_lines = [] {
  std::array<status_line, status_count> lines;
  for (std::size_t i = 0; i < status_count; ++i) {
    const unsigned code = status_texts[i].code;
    const char digits[] = {static_cast<char>('0' + code / 100),
                           static_cast<char>('0' + code / 10 % 10),
                           static_cast<char>('0' + code % 10)};
    lines[i].add("HTTP/1.1 ");
    lines[i].add({digits, 3});
    lines[i].add(" ");
    lines[i].add(status_texts[i].reason);
    lines[i].add("\r\n");
  }
  return lines;
}();

constexpr std::string_view content_type_name = "Content-Type: ";
constexpr std::string_view content_length_name = "\r\nContent-Length: ";
constexpr std::string_view line_end = "\r\n";
constexpr std::string_view close_line = "\r\nConnection: close";
constexpr std::string_view keep_alive_line = "\r\nConnection: keep-alive";
constexpr std::string_view header_end = "\r\n\r\n";

/// Everything in a header but status line, date, content type and the line more, at its longest.
constexpr std::size_t fixed_size_max = content_type_name.size() + content_length_name.size() + 20 +
                                       line_end.size() + keep_alive_line.size() + header_end.size();

/// std::copy and not memcpy: an empty view may have no address.
char* put(char* to, std::string_view text) noexcept {
  return std::copy(text.begin(), text.end(), to);
}

}  // namespace

void write_response(byte_buffer& to, const response& what, framing how,
                    std::string_view date_line) {
  const status_line& line = status_lines[static_cast<std::size_t>(what.code)];
  const std::size_t body_bytes = how.head_only ? 0 : what.body.size();
  char* const begin = to.prepare(line.size + date_line.size() + fixed_size_max +
                                 what.content_type.size() + what.header.size() + body_bytes);
  char* at = put(begin, {line.text.data(), line.size});
  at = put(at, date_line);
  at = put(at, content_type_name);
  at = put(at, what.content_type);
  at = put(at, content_length_name);
  at = std::to_chars(at, at + 20, what.body.size()).ptr;
  if (!what.header.empty()) at = put(put(at, line_end), what.header);
  if (!how.keep_alive) {
    at = put(at, close_line);
  } else if (how.http_1_0) {
    at = put(at, keep_alive_line);
  }
  at = put(at, header_end);
  if (!how.head_only) at = put(at, what.body);
  to.advance(static_cast<std::size_t>(at - begin));
}

}  // namespace bwos::server::h1
