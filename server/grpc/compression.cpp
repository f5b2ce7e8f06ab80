// SPDX-License-Identifier: Apache-2.0
#include "grpc/compression.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>

namespace bwos::server::rpc {
namespace {

class inflater {
 public:
  explicit inflater(encoding how) {
    constexpr int window_bits = 15;
    constexpr int as_gzip = 16;
    const int bits = how == encoding::gzip ? window_bits + as_gzip : window_bits;
    if (inflateInit2(&state_, bits) != Z_OK) throw std::bad_alloc();
  }
  ~inflater() { inflateEnd(&state_); }
  inflater(const inflater&) = delete;
  inflater& operator=(const inflater&) = delete;

  z_stream state_{};
};

class deflater {
 public:
  explicit deflater(encoding how) {
    constexpr int window_bits = 15;
    constexpr int as_gzip = 16;
    constexpr int memory = 8;  // zlib's default
    const int bits = how == encoding::gzip ? window_bits + as_gzip : window_bits;
    if (deflateInit2(&state_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, bits, memory,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~deflater() { deflateEnd(&state_); }
  deflater(const deflater&) = delete;
  deflater& operator=(const deflater&) = delete;

  z_stream state_{};
};

}  // namespace

void deflate(encoding how, std::string_view from, std::string& to) {
  deflater running(how);
  z_stream& state = running.state_;
  const std::size_t before = to.size();
  to.resize(before + deflateBound(&state, from.size()));
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));  // zlib only reads
  state.avail_in = static_cast<uInt>(from.size());
  state.next_out = reinterpret_cast<Bytef*>(to.data() + before);
  state.avail_out = static_cast<uInt>(to.size() - before);
  if (::deflate(&state, Z_FINISH) != Z_STREAM_END) throw std::bad_alloc();  // the bound is one
  to.resize(before + state.total_out);
  to.shrink_to_fit();  // whoever keeps it is charged for its size
}

bool accepts(std::string_view accepted, std::string_view name) noexcept {
  while (!accepted.empty()) {  // ends: each turn takes an element
    std::string_view element = accepted.substr(0, accepted.find(','));
    accepted.remove_prefix(std::min(accepted.size(), element.size() + 1));
    element.remove_prefix(std::min(element.size(), element.find_first_not_of(' ')));
    if (element.substr(0, element.find_last_not_of(' ') + 1) == name) return true;
  }
  return false;
}

inflated inflate(encoding how, std::string_view from, const inflate_bounds& bounds,
                 std::string& to) {
  const std::size_t dense =
      bounds.ratio_max == 0 ? bounds.bytes_max : from.size() * bounds.ratio_max;
  inflater running(how);
  z_stream& state = running.state_;
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));  // zlib only reads
  state.avail_in = static_cast<uInt>(from.size());
  std::array<char, 16 * 1024> piece;
  for (;;) {  // ends: each turn makes output, of which there is a maximum, or is the last
    state.next_out = reinterpret_cast<Bytef*>(piece.data());
    state.avail_out = static_cast<uInt>(piece.size());
    const int result = ::inflate(&state, Z_NO_FLUSH);
    const std::size_t made = piece.size() - state.avail_out;
    const std::size_t size = to.size() + made;
    if (size > bounds.bytes_max) return inflated::too_large;
    if (size > dense) return inflated::too_dense;
    if (!bounds.fits(size)) return inflated::refused;
    to.append(piece.data(), made);
    if (result == Z_STREAM_END) return state.avail_in == 0 ? inflated::whole : inflated::broken;
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK || made == 0) return inflated::broken;
  }
}

}  // namespace bwos::server::rpc
