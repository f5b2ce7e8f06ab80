// SPDX-License-Identifier: Apache-2.0
// The frames of HTTP/2 (RFC 9113) as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bwos::load::h2 {

inline constexpr std::string_view preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr std::size_t head_bytes = 9;
inline constexpr std::uint32_t frame_bytes = 16 * 1024;  // the default SETTINGS_MAX_FRAME_SIZE
inline constexpr std::uint32_t window_default = 64 * 1024 - 1;
inline constexpr std::int64_t window_max = 0x7fff'ffff;
inline constexpr std::uint32_t table_bytes = 4096;  // the default SETTINGS_HEADER_TABLE_SIZE

enum class frame_type : std::uint8_t {
  data,
  headers,
  priority,
  rst_stream,
  settings,
  push_promise,
  ping,
  goaway,
  window_update,
  continuation
};

namespace flag {
inline constexpr std::uint8_t end_stream = 0x1;
inline constexpr std::uint8_t ack = 0x1;
inline constexpr std::uint8_t end_headers = 0x4;
inline constexpr std::uint8_t padded = 0x8;
inline constexpr std::uint8_t priority = 0x20;
}  // namespace flag

namespace setting {
inline constexpr std::uint16_t header_table_size = 1;
inline constexpr std::uint16_t enable_push = 2;
inline constexpr std::uint16_t max_concurrent_streams = 3;
inline constexpr std::uint16_t initial_window_size = 4;
inline constexpr std::uint16_t max_frame_size = 5;
}  // namespace setting

inline constexpr std::uint32_t error_cancel = 0x8;

struct frame_head {
  std::uint32_t length;
  frame_type type;
  std::uint8_t flags;
  std::uint32_t stream;

  bool has(std::uint8_t flag) const noexcept { return (flags & flag) != 0; }
};

inline std::uint16_t read_u16(const char* from) noexcept {
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  return static_cast<std::uint16_t>(bytes[0] << 8 | bytes[1]);
}

inline std::uint32_t read_u32(const char* from) noexcept {
  return std::uint32_t{read_u16(from)} << 16 | read_u16(from + 2);
}

inline void write_u32(char* to, std::uint32_t value) noexcept {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<char>(value >> (24 - 8 * i));
}

inline void append_u16(std::string& out, std::uint32_t value) {
  out += static_cast<char>(value >> 8);
  out += static_cast<char>(value);
}

inline void append_u32(std::string& out, std::uint32_t value) {
  append_u16(out, value >> 16);
  append_u16(out, value & 0xffff);
}

// Of 9 bytes.
inline frame_head read_head(const char* from) noexcept {
  return {read_u32(from) >> 8, static_cast<frame_type>(from[3]), static_cast<std::uint8_t>(from[4]),
          read_u32(from + 5) & 0x7fff'ffff};
}

inline void append_head(std::string& out, const frame_head& head) {
  append_u16(out, head.length >> 8);
  out += static_cast<char>(head.length);
  out += static_cast<char>(head.type);
  out += static_cast<char>(head.flags);
  append_u32(out, head.stream);
}

inline void append_window_update(std::string& out, std::uint32_t stream, std::uint32_t bytes) {
  append_head(out, {4, frame_type::window_update, 0, stream});
  append_u32(out, bytes);
}

inline void append_setting(std::string& out, std::uint16_t id, std::uint32_t value) {
  append_u16(out, id);
  append_u32(out, value);
}

}  // namespace bwos::load::h2
