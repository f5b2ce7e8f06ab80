// SPDX-License-Identifier: Apache-2.0
#include "http/h1/syntax.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace bwos::server::h1 {
namespace {

enum class_bits : std::uint8_t {
  token_char = 1,
  name_char = 2,  // of a registered name or an IPv4 address, but for %
  hex_digit = 4,
};

constexpr auto classes = [] {
  std::array<std::uint8_t, 256> table{};
  const auto add = [&](std::string_view chars, unsigned bits) {
    for (const char c : chars) {
      auto& entry = table[static_cast<unsigned char>(c)];
      entry = static_cast<std::uint8_t>(entry | bits);
    }
  };
  add("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'*+",
      token_char | name_char);
  add("#%^`|", token_char);
  add("(),;=", name_char);
  add("0123456789abcdefABCDEF", hex_digit);
  return table;
}();

bool is(char c, unsigned bits) noexcept {
  return (classes[static_cast<unsigned char>(c)] & bits) != 0;
}

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// How many bytes of the name come before a port or the end; npos if it is no name.
std::size_t name_size(std::string_view text) noexcept {
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {  // ends: every turn takes a byte
    while (at != end && is(*at, name_char)) ++at;
    if (at == end || *at == ':') return static_cast<std::size_t>(at - text.data());
    if (*at != '%' || end - at < 3 || !is(at[1], hex_digit) || !is(at[2], hex_digit))
      return std::string_view::npos;
    at += 3;
  }
}

/// The same of "[::1]" and its like.
std::size_t literal_size(std::string_view text) noexcept {
  const std::size_t end = text.find(']');
  if (end == std::string_view::npos || end == 1) return std::string_view::npos;
  const std::string_view inside = text.substr(1, end - 1);
  const bool fits = std::all_of(inside.begin(), inside.end(),
                                [](char c) { return is(c, name_char) || c == ':'; });
  return fits ? end + 1 : std::string_view::npos;
}

bool is_version(std::string_view text) noexcept {
  return text.size() == 8 && text.starts_with("HTTP/") && is_digit(text[5]) && text[6] == '.' &&
         is_digit(text[7]);
}

}  // namespace

bool is_token(char c) noexcept {
  return is(c, token_char);
}

bool is_host(std::string_view text) noexcept {
  const std::size_t size = text.starts_with('[') ? literal_size(text) : name_size(text);
  if (size == std::string_view::npos) return false;
  if (size == text.size()) return true;
  const std::string_view port = text.substr(size + 1);
  return size > 0 && text[size] == ':' && std::all_of(port.begin(), port.end(), is_digit);
}

bool is_known_method(std::string_view method) noexcept {
  constexpr std::array<std::string_view, 8> known{"GET",    "HEAD",    "POST",  "PUT",
                                                  "DELETE", "OPTIONS", "TRACE", "PATCH"};
  return std::find(known.begin(), known.end(), method) != known.end();
}

status judge_request_line(std::string_view line) noexcept {
  line.remove_suffix(2);
  const std::size_t method_end = line.find(' ');
  const std::size_t target_end = line.rfind(' ');
  if (method_end == std::string_view::npos || method_end == 0 || target_end - method_end < 2)
    return status::bad_request;
  const std::string_view method = line.substr(0, method_end);
  const std::string_view target = line.substr(method_end + 1, target_end - method_end - 1);
  const std::string_view version = line.substr(target_end + 1);
  if (!std::all_of(method.begin(), method.end(), is_token) || !is_version(version) ||
      target.find(' ') != std::string_view::npos)
    return status::bad_request;
  if (version[5] != '1') return status::version_not_supported;
  if (method == "CONNECT") return status::method_not_allowed;
  return is_known_method(method) ? status::ok : status::not_implemented;
}

}  // namespace bwos::server::h1
