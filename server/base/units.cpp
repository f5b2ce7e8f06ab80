// SPDX-License-Identifier: Apache-2.0
#include "base/units.hpp"

#include <array>
#include <charconv>
#include <limits>

namespace bwos::server {
namespace {

struct unit {
  std::string_view name;
  std::uint64_t factor;
};

// Largest first: formatting takes the first that divides.
constexpr std::array<unit, 5> duration_units{
    {{"h", 3'600'000'000}, {"m", 60'000'000}, {"s", 1'000'000}, {"ms", 1'000}, {"us", 1}}};
constexpr std::array<unit, 4> byte_units{
    {{"GiB", 1U << 30}, {"MiB", 1U << 20}, {"KiB", 1U << 10}, {"B", 1}}};

template <std::size_t Count>
std::optional<std::uint64_t> parse_quantity(std::string_view text,
                                            const std::array<unit, Count>& units) {
  const auto digits = text.find_first_not_of("0123456789");
  const auto value = parse_number(text.substr(0, digits));
  if (!value || digits == std::string_view::npos) return std::nullopt;
  for (const unit& one : units) {
    if (one.name != text.substr(digits)) continue;
    // The sign bit stays free: a duration is signed.
    if (*value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / one.factor)
      return std::nullopt;
    return *value * one.factor;
  }
  return std::nullopt;
}

template <std::size_t Count>
std::string format_quantity(std::uint64_t value, const std::array<unit, Count>& units) {
  for (const unit& one : units) {
    if (value % one.factor == 0 && value > 0)
      return std::to_string(value / one.factor).append(one.name);
  }
  return "0";
}

}  // namespace

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::chrono::microseconds> parse_duration(std::string_view text) {
  if (text == "0") return std::chrono::microseconds(0);
  const auto us = parse_quantity(text, duration_units);
  if (!us) return std::nullopt;
  return std::chrono::microseconds(static_cast<std::int64_t>(*us));
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  if (const auto plain = parse_number(text)) return plain;
  return parse_quantity(text, byte_units);
}

bool is_host_port(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const auto port = parse_number(digits);
  if (!port || *port > 65535 || digits.size() > 5) return false;
  if (host.find(':') == std::string_view::npos) return !host.empty() && host.front() != '[';
  return host.size() > 2 && host.front() == '[' && host.back() == ']';
}

std::string format_duration(std::chrono::microseconds value) {
  return format_quantity(static_cast<std::uint64_t>(value.count()), duration_units);
}

std::string format_bytes(std::uint64_t value) {
  return format_quantity(value, byte_units);
}

}  // namespace bwos::server
