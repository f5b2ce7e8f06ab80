// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace bwos::server::rpc {

/// grpc-encoding: what a message with the compressed flag is in. Each message stands alone.
enum class encoding : std::uint8_t { identity, gzip, deflate };

/// grpc-accept-encoding.
inline constexpr std::string_view encodings = "identity, deflate, gzip";

[[nodiscard]] constexpr std::string_view name_of(encoding which) noexcept {
  return which == encoding::gzip ? "gzip" : which == encoding::deflate ? "deflate" : "identity";
}

/// `refused`: by `fits`.
enum class inflated : std::uint8_t { whole, broken, too_large, too_dense, refused };

/// What a message may become, however small it is.
struct inflate_bounds {
  std::size_t bytes_max;
  /// Times as large as it came; 0: whatever comes.
  std::uint64_t ratio_max;
  /// Asked before it becomes as large as the argument.
  const std::function<bool(std::size_t)>& fits;
};

/// `from` in `how`, appended to `to`. Throws std::bad_alloc.
void deflate(encoding how, std::string_view from, std::string& to);

/// Whether `accepted`, a grpc-accept-encoding, names it.
[[nodiscard]] bool accepts(std::string_view accepted, std::string_view name) noexcept;

/// `from` in `how` (gzip, or deflate as zlib's RFC 1950) becomes `to`, which is empty. Throws
/// std::bad_alloc.
[[nodiscard]] inflated inflate(encoding how, std::string_view from, const inflate_bounds& bounds,
                               std::string& to);

}  // namespace bwos::server::rpc
