// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace bwos::server::rpc {

/// Whether a handler may send it: a name of lower case letters, digits, '_', '-' and '.' that is
/// not the protocol's, a value of visible ASCII and blanks (of a name that ends in "-bin": any
/// bytes). gRPC's PROTOCOL-HTTP2.md, Custom-Metadata.
[[nodiscard]] inline bool is_custom_metadata(std::string_view name,
                                             std::string_view value) noexcept {
  const auto is_key = [](char each) {
    return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9') || each == '_' ||
           each == '-' || each == '.';
  };
  const auto is_text = [](char each) { return each >= ' ' && each <= '~'; };
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_key)) return false;
  if (name.starts_with("grpc-") || name == "te" || name == "content-type" ||
      name == "content-length" || name == "connection") {
    return false;
  }
  return name.ends_with("-bin") || std::all_of(value.begin(), value.end(), is_text);
}

/// The most that a handler may send before its messages, and the most with its status. As HTTP/2
/// counts fields, with 32 bytes for each. Far above what clients take unless they are told to (8
/// KiB of gRPC's), and with the status's message below the 64 KiB that nghttp2 puts into one
/// header.
inline constexpr std::size_t sent_metadata_bytes_max = 32 * 1024;

/// What of that is taken.
class sent_metadata {
 public:
  /// False: there is no room for one more.
  [[nodiscard]] bool take(std::string_view name, std::string_view value) noexcept {
    const bool is_binary = name.ends_with("-bin");  // in base64
    const std::size_t bytes =
        name.size() + 32 + (is_binary ? value.size() / 3 * 4 + 4 : value.size());
    if (bytes > sent_metadata_bytes_max - bytes_) return false;
    bytes_ += bytes;
    return true;
  }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace bwos::server::rpc
