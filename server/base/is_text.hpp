// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace bwos::server {

/// text == literal, in a few instructions: of operator== GCC 12 makes two calls, the second of
/// memcmp with a size that it does not know.
template <std::size_t Size>
[[nodiscard]] constexpr bool is_text(std::string_view text, const char (&literal)[Size]) noexcept {
  return text.size() == Size - 1 && __builtin_memcmp(text.data(), literal, Size - 1) == 0;
}

}  // namespace bwos::server
