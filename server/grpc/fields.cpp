// SPDX-License-Identifier: Apache-2.0
#include "grpc/fields.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace bwos::server::rpc {
namespace {

constexpr std::string_view type = "application/grpc";

/// Its six bits; -1: not of the alphabet (RFC 4648, 4).
int value_of(char digit) noexcept {
  if (digit >= 'A' && digit <= 'Z') return digit - 'A';
  if (digit >= 'a' && digit <= 'z') return digit - 'a' + 26;
  if (digit >= '0' && digit <= '9') return digit - '0' + 52;
  if (digit == '+') return 62;
  return digit == '/' ? 63 : -1;
}

std::optional<std::chrono::nanoseconds> unit_of(char letter) noexcept {
  using namespace std::chrono_literals;
  switch (letter) {
    case 'H':
      return 1h;
    case 'M':
      return 1min;
    case 'S':
      return 1s;
    case 'm':
      return 1ms;
    case 'u':
      return 1us;
    case 'n':
      return 1ns;
    default:
      return std::nullopt;
  }
}

}  // namespace

bool is_grpc_content_type(std::string_view value) noexcept {
  if (!value.starts_with(type)) return false;
  return value.size() == type.size() || value[type.size()] == '+' || value[type.size()] == ';';
}

bool is_protobuf(std::string_view value) noexcept {
  const std::string_view format = value.substr(type.size(), value.find(';') - type.size());
  return format.empty() || format == "+proto";
}

std::optional<std::chrono::nanoseconds> parse_timeout(std::string_view value) noexcept {
  constexpr std::size_t digits_max = 8;
  constexpr std::chrono::nanoseconds year = std::chrono::hours(24 * 365);
  if (value.size() < 2 || value.size() > digits_max + 1) return std::nullopt;
  const auto unit = unit_of(value.back());
  value.remove_suffix(1);
  std::uint32_t count = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (!unit || error != std::errc() || end != value.data() + value.size()) return std::nullopt;
  if (count > year / *unit) return year;
  return count * *unit;
}

std::string percent_encode(std::string_view message) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(message.size());
  for (const char each : message) {
    if (each >= ' ' && each <= '~' && each != '%') {
      encoded += each;
    } else {
      const auto byte = static_cast<unsigned char>(each);
      encoded.append({'%', digits[byte >> 4], digits[byte & 15]});
    }
  }
  return encoded;
}

std::string encode_base64(std::string_view bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string encoded;
  encoded.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char each : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(each);
    for (count += 8; count >= 6; count -= 6) encoded += digits[bits >> (count - 6) & 63];
  }
  if (count > 0) encoded += digits[bits << (6 - count) & 63];
  return encoded;
}

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.ends_with('=') && text.size() % 4 != 0) return std::nullopt;
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string decoded;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : text) {
    const int value = value_of(digit);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    decoded += static_cast<char>(bits >> count & 255);
  }
  return decoded;
}

}  // namespace bwos::server::rpc
