// SPDX-License-Identifier: Apache-2.0
// HTTP/2 frames by hand: written from their parts, and read back. RFC 9113, 4 and 6; RFC 7541.
#pragma once

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bwos::server::rpc::test {

enum frame_type : std::uint8_t {
  data = 0,
  headers = 1,
  priority = 2,
  rst_stream = 3,
  settings = 4,
  ping = 6,
  goaway = 7,
  window_update = 8,
  continuation_frame = 9,
  altsvc = 10,
  priority_update = 16,
  unknown = 0xbe,
};
enum frame_flag : std::uint8_t { none = 0, end_stream = 1, ack = 1, end_headers = 4, padded = 8 };

using fields = std::vector<std::pair<std::string, std::string>>;

inline std::string number(std::uint32_t value, int bytes = 4) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i));
  return text;
}

inline std::string frame(frame_type type, int flags, std::uint32_t stream,
                         const std::string& payload) {
  return number(static_cast<std::uint32_t>(payload.size()), 3) + static_cast<char>(type) +
         static_cast<char>(flags) + number(stream) + payload;
}

/// A length of a string in HPACK: 7 bits, or more bytes (RFC 7541, 5.1).
inline std::string hpack_text(const std::string& text) {
  std::string coded;
  std::size_t size = text.size();
  if (size < 127) {
    coded += static_cast<char>(size);
  } else {
    coded += '\x7f';
    for (size -= 127; size >= 128; size /= 128) coded += static_cast<char>(size % 128 + 128);
    coded += static_cast<char>(size);
  }
  return coded + text;
}

/// Literals that are not indexed.
inline std::string hpack(const fields& all) {
  std::string block;
  for (const auto& [name, value] : all) {
    block += '\0';
    block += hpack_text(name) + hpack_text(value);
  }
  return block;
}

inline const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline const std::string hello_path = "/helloworld.Greeter/SayHello";

inline fields request_header(const std::string& path = hello_path, const fields& more = {}) {
  fields all{{":method", "POST"}, {":scheme", "http"}, {":path", path},
             {":authority", "a"}, {"te", "trailers"},  {"content-type", "application/grpc"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

inline std::string header_frame(std::uint32_t stream, const fields& all, int flags = 0) {
  return frame(headers, flags | end_headers, stream, hpack(all));
}

inline std::string message(const std::string& bytes, int flag = 0) {
  return static_cast<char>(flag) + number(static_cast<std::uint32_t>(bytes.size())) + bytes;
}

/// A HelloRequest or HelloReply.
inline std::string named(const std::string& name) {
  std::string coded = "\x0a";
  for (std::size_t size = name.size();; size /= 128) {
    coded += static_cast<char>(size % 128 + (size >= 128 ? 128 : 0));
    if (size < 128) break;
  }
  return coded + name;
}

/// One whole unary call.
inline std::string call_frames(std::uint32_t stream, const std::string& name,
                               const std::string& path = hello_path, const fields& more = {}) {
  return header_frame(stream, request_header(path, more)) +
         frame(data, end_stream, stream, message(named(name)));
}

struct read_frame {
  std::uint8_t type;
  std::uint8_t flags;
  std::uint32_t stream;
  std::string payload;
  fields header;  // of HEADERS
};

/// What the server sends, frame by frame. Its header compression is stateful: one reader for each
/// connection, and everything through it.
class frame_reader {
 public:
  frame_reader() { nghttp2_hd_inflate_new(&inflater_); }
  ~frame_reader() { nghttp2_hd_inflate_del(inflater_); }
  frame_reader(const frame_reader&) = delete;
  frame_reader& operator=(const frame_reader&) = delete;

  std::vector<read_frame> read(std::string_view bytes) {
    rest_ += bytes;
    std::vector<read_frame> found;
    constexpr std::size_t head = 9;
    while (rest_.size() >= head) {
      const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(rest_[i]); };
      const std::size_t size = static_cast<std::size_t>(byte(0) << 16 | byte(1) << 8 | byte(2));
      if (rest_.size() < head + size) break;
      const std::uint32_t stream = static_cast<std::uint32_t>(byte(5) & 127) << 24 |
                                   static_cast<std::uint32_t>(byte(6)) << 16 |
                                   static_cast<std::uint32_t>(byte(7)) << 8 | byte(8);
      read_frame next{byte(3), byte(4), stream, rest_.substr(head, size), {}};
      rest_.erase(0, head + size);
      if (next.type == headers) next.header = inflate(next.payload);
      found.push_back(std::move(next));
    }
    rest_.shrink_to_fit();  // tests count what the server has in memory
    return found;
  }

 private:
  fields inflate(const std::string& block) {
    fields all;
    const auto* at = reinterpret_cast<const std::uint8_t*>(block.data());
    std::size_t left = block.size();
    for (;;) {  // ends with the block
      nghttp2_nv field{};
      int flags = 0;
      const ssize_t used = nghttp2_hd_inflate_hd2(inflater_, &field, &flags, at, left, 1);
      if (used < 0) {
        ADD_FAILURE() << "a header block that HPACK cannot read";
        break;
      }
      at += used;
      left -= static_cast<std::size_t>(used);
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
        all.emplace_back(std::string(reinterpret_cast<char*>(field.name), field.namelen),
                         std::string(reinterpret_cast<char*>(field.value), field.valuelen));
      }
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
    return all;
  }

  nghttp2_hd_inflater* inflater_ = nullptr;
  std::string rest_;
};

/// What a stream got, put together.
struct answer {
  std::string status;  // HTTP's
  fields header;       // all fields, of the header and the trailers
  std::string body;
  bool ended = false;
  int reset = -1;  // RST_STREAM's code
  int header_frames = 0;

  [[nodiscard]] std::string field(const std::string& name) const {
    for (const auto& [key, value] : header) {
      if (key == name) return value;
    }
    return "(none)";
  }
  friend bool operator==(const answer&, const answer&) = default;
};

inline std::ostream& operator<<(std::ostream& to, const answer& what) {
  to << "ended " << what.ended << " reset " << what.reset << " body " << what.body.size();
  for (const auto& [name, value] : what.header) to << ' ' << name << '=' << value;
  return to;
}

inline std::map<std::uint32_t, answer> answers_in(const std::vector<read_frame>& all) {
  std::map<std::uint32_t, answer> found;
  for (const read_frame& each : all) {
    if (each.stream == 0 || each.type == window_update) continue;
    answer& to = found[each.stream];
    if (each.type == headers) {
      ++to.header_frames;
      to.header.insert(to.header.end(), each.header.begin(), each.header.end());
      to.status = to.field(":status");
    }
    if (each.type == data) to.body += each.payload;
    if (each.type == rst_stream) to.reset = static_cast<std::uint8_t>(each.payload[3]);
    if ((each.type == headers || each.type == data) && (each.flags & end_stream) != 0) {
      to.ended = true;
    }
  }
  return found;
}

/// The code of the last GOAWAY, or -1.
inline int goaway_code(const std::vector<read_frame>& all) {
  int code = -1;
  for (const read_frame& each : all) {
    if (each.type == goaway) code = static_cast<std::uint8_t>(each.payload[7]);
  }
  return code;
}

}  // namespace bwos::server::rpc::test
