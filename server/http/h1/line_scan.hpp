// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace bwos::server::h1 {

inline constexpr std::ptrdiff_t block_bytes = 32;

/// Where the line feeds are in the block of `text` that begins at `block`: bit i for its byte i.
inline std::uint32_t line_feeds(std::string_view text, std::ptrdiff_t block) noexcept {
  const char* const at = text.data() + block;
  const auto rest = static_cast<std::ptrdiff_t>(text.size()) - block;
#if defined(__SSE2__)
  const auto half = [](const char* where) noexcept {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(where));
    const __m128i hits = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n'));
    return static_cast<std::uint32_t>(_mm_movemask_epi8(hits));
  };
  const auto feeds_at = [&](const char* where) noexcept {
    return half(where) | half(where + 16) << 16;
  };
  if (rest >= block_bytes) return feeds_at(at);
  if (block > 0) return feeds_at(at + rest - block_bytes) >> (block_bytes - rest);
#endif
  std::uint32_t feeds = 0;
  for (std::ptrdiff_t i = 0; i < rest && i < block_bytes; ++i)
    feeds |= (at[i] == '\n' ? 1U : 0U) << i;
  return feeds;
}

/// Follows lines up to the empty one that ends a head or the trailers, however they are cut, and
/// refuses what llhttp lets pass between lines: a line feed without its carriage return, a line
/// that goes on with the next one (obs-fold), a field without a name. Of lone carriage returns and
/// other control characters llhttp takes care.
class line_scan {
 public:
  enum class outcome : std::uint8_t { incomplete, complete, malformed };
  struct result {
    outcome what;
    std::size_t used;  ///< For `complete`: bytes of the piece, with the empty line.
  };

  result scan(std::string_view piece) noexcept {
    const char* const text = piece.data();
    const auto size = static_cast<std::ptrdiff_t>(piece.size());
    std::ptrdiff_t line = line_;
    for (std::ptrdiff_t block = 0; block < size; block += block_bytes) {
      for (std::uint32_t feeds = line_feeds(piece, block); feeds != 0; feeds &= feeds - 1) {
        const std::ptrdiff_t feed = block + std::countr_zero(feeds);
        if ((feed > 0 ? text[feed - 1] : last_) != '\r' || (line >= 0 && !begins_well(text[line])))
          return {outcome::malformed, 0};
        if (feed - line == 1) return {outcome::complete, static_cast<std::size_t>(feed + 1)};
        if (first_line_ == 0) first_line_ = static_cast<std::size_t>(feed - line + 1);
        line = feed + 1;
      }
    }
    return carry(piece, line);
  }

  /// Bytes of the first line, with its end; 0 while it has none.
  [[nodiscard]] std::size_t first_line() const noexcept { return first_line_; }

 private:
  static bool begins_well(char c) noexcept {
    return c > ':' || (c != ' ' && c != '\t' && c != ':');
  }

  result carry(std::string_view piece, std::ptrdiff_t line) noexcept {
    const auto size = static_cast<std::ptrdiff_t>(piece.size());
    if (size == 0) return {outcome::incomplete, 0};
    if (line >= 0 && line < size && !begins_well(piece[static_cast<std::size_t>(line)]))
      return {outcome::malformed, 0};
    line_ = line - size;
    last_ = piece.back();
    return {outcome::incomplete, piece.size()};
  }

  std::size_t first_line_ = 0;
  std::ptrdiff_t line_ =
      0;           // where the present line began, counted from the next piece: not above 0
  char last_ = 0;  // the byte before that piece
};

}  // namespace bwos::server::h1
