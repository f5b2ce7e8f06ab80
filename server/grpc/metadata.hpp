// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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

}  // namespace bwos::server::rpc
