// SPDX-License-Identifier: Apache-2.0
// The texts that gRPC puts into HTTP/2 fields. Pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace bwos::server::rpc {

/// "application/grpc", alone or followed by '+' or ';' and more.
[[nodiscard]] bool is_grpc_content_type(std::string_view value) noexcept;

/// Of a value as above: what is behind the '+', if anything, is "proto".
[[nodiscard]] bool is_protobuf(std::string_view value) noexcept;

/// grpc-timeout: 1 to 8 digits and one of H M S m u n. More than a year counts as a year.
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_timeout(
    std::string_view value) noexcept;

/// grpc-message: %20 to %7E but '%' as they are, all other bytes as %XX.
[[nodiscard]] std::string percent_encode(std::string_view message);

/// For the value of a "-bin" field, without padding.
[[nodiscard]] std::string encode_base64(std::string_view bytes);

/// The value of a "-bin" field, with padding or without. Nothing: it is none.
[[nodiscard]] std::optional<std::string> decode_base64(std::string_view text);

}  // namespace bwos::server::rpc
