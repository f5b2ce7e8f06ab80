// SPDX-License-Identifier: Apache-2.0
#include "app/routes/work.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "app/burn_cpu.hpp"

namespace bwos::server::handlers {
namespace {

/// The value of `us` in "a=b&us=200"; more than 64 bits hold counts as their largest.
std::optional<std::uint64_t> microseconds_in(std::string_view query) noexcept {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (!pair.starts_with("us=")) continue;
    const std::string_view digits = pair.substr(3);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || end != digits.data() + digits.size()) return std::nullopt;
    if (error == std::errc::result_out_of_range) return std::numeric_limits<std::uint64_t>::max();
    if (error != std::errc()) return std::nullopt;
    return value;
  }
  return std::nullopt;
}

}  // namespace

response work(std::string_view query, std::uint64_t us_max, std::string& scratch) {
  const auto asked = microseconds_in(query);
  if (!asked) {
    response refusal = error_response(status::bad_request);
    refusal.body = "work needs us=N, a number of microseconds\n";
    return refusal;
  }
  const std::uint64_t us = std::min(*asked, us_max);
  burn_cpu(us);
  scratch = "burned ";
  scratch += std::to_string(us);
  scratch += " us\n";
  return {.code = status::ok, .content_type = plain_text, .body = scratch};
}

}  // namespace bwos::server::handlers
