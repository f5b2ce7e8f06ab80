// SPDX-License-Identifier: Apache-2.0
// What RFC 9110, 9112 and 3986 say of short texts in a head.
#pragma once

#include <cstddef>
#include <string_view>

#include "http/message.hpp"

namespace bwos::server::h1 {

/// A character of a token: of a method, of a field's name.
[[nodiscard]] bool is_token(char c) noexcept;

/// A Host's value or a target's authority: a name or address, perhaps with a port.
[[nodiscard]] bool is_host(std::string_view text) noexcept;

/// The same texts, but for the case of ASCII letters in the first; the second is in lower case.
[[nodiscard]] inline bool is_lower_case_of(std::string_view text,
                                           std::string_view lower_case) noexcept {
  if (text.size() != lower_case.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c != lower_case[i] && (c < 'A' || c > 'Z' || c + 32 != lower_case[i])) return false;
  }
  return true;
}

/// Of RFC 9110 or 5789: any other is not implemented. CONNECT, which no route could take, is none.
[[nodiscard]] bool is_known_method(std::string_view method) noexcept;

/// How to refuse a request with this first line (given with its end); ok where nothing but its
/// target can be wrong.
[[nodiscard]] status judge_request_line(std::string_view line) noexcept;

}  // namespace bwos::server::h1
