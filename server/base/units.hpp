// SPDX-License-Identifier: Apache-2.0
// Quantities as the command line writes them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bwos::server {

/// "250us", "10ms", "30s", "5m", "24h"; also "0". Nothing without a unit.
std::optional<std::chrono::microseconds> parse_duration(std::string_view text);

/// "512", "512B", "16KiB", "4MiB", "1GiB".
std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// Digits only.
std::optional<std::uint64_t> parse_number(std::string_view text);

/// "127.0.0.1:8080", "localhost:0", "[::1]:8080": the form, not whether it can be bound.
bool is_host_port(std::string_view text);

std::string format_duration(std::chrono::microseconds value);
std::string format_bytes(std::uint64_t value);

}  // namespace bwos::server
