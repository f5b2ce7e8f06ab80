// SPDX-License-Identifier: Apache-2.0
// Bytes of one HTTP/2 connection in, frames out, without a socket: the same bytes must give the
// same answers, and leave the connection as open, however they are cut. The input's last two bytes
// say how. Behind a preface and SETTINGS of ours, which the fuzzer need not find; with requests of
// HTTP and calls of gRPC.
#include <google/protobuf/stubs/logging.h>
#include <helloworld.pb.h>
#include <nghttp2/nghttp2.h>
#include <test_service.pb.h>
#include <work.pb.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "app/services.hpp"
#include "grpc/calls.hpp"
#include "tests/http/demo_site.hpp"
#include "tests/net/unlimited_memory.hpp"

namespace bwos::server::rpc {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

class no_executor final : public executor {
 public:
  void post(continuation&) noexcept override {}
  void yield(continuation&) noexcept override {}
  void post_long(continuation&, lane_entry&) noexcept override {}
  [[nodiscard]] bool has_idle() const noexcept override { return false; }
};

/// What all connections share: small limits, for the fuzzer to reach each.
struct server_side {
  server_side() {
    google::protobuf::SetLogHandler(nullptr);
    add_services(methods, {.work_us_max = 0});
  }

  server::test::demo_site site{0};
  metrics::registry counters{server::test::demo_site::kinds};
  const std::atomic<bool> leaving{false};
  no_executor workers;
  method_table methods;
  const h2::limits http2{.header_bytes_max = 400, .streams_max = 5};
  const call_limits calls{.message_bytes_max = 300};
  const http_limits http{.body_bytes_max = 300};
  route_times times{0, site.routes.count()};
  const queue_age_bound queue_age{nullptr, 0us};
  const served_methods served{methods, calls};
  const h2::common of{workers, site.drain, counters, http2, leaving, test::unlimited_memory(),
                      &served};
  const h1::common context{workers, site.drain, site.routes, counters, http, times, queue_age, of};
};

server_side& side() {
  static server_side one;
  return one;
}

/// What the peer gets on each stream: fields but the date, DATA, the end. Of the rest only that the
/// connection was told to go, and why: acknowledgements and WINDOW_UPDATEs come in batches.
class listener {
 public:
  listener() { expect(nghttp2_hd_inflate_new(&inflater_) == 0, "there is memory"); }
  ~listener() { nghttp2_hd_inflate_del(inflater_); }
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;

  void hear(std::string_view bytes) {
    rest_ += bytes;
    constexpr std::size_t head = 9;
    while (rest_.size() >= head) {
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(rest_[i]); };
      const std::size_t size = static_cast<std::size_t>(byte(0) << 16 | byte(1) << 8 | byte(2));
      if (rest_.size() < head + size) return;
      const int stream = byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8);
      take(byte(3), byte(4), stream, std::string_view(rest_).substr(head, size));
      rest_.erase(0, head + size);
    }
  }
  /// Nothing half said.
  [[nodiscard]] bool at_end_of_frame() const { return rest_.empty(); }

  std::map<int, std::string> streams;
  std::string goaway;

 private:
  void take(int type, int flags, int stream, std::string_view payload) {
    std::string& to = streams[stream];
    switch (type) {
      case NGHTTP2_HEADERS:
        inflate(payload, to);
        if (to == ":status=100\n") {  // a body that is here already is not asked for
          streams.erase(stream);
          return;
        }
        break;
      case NGHTTP2_DATA:
        to += payload;
        break;
      case NGHTTP2_RST_STREAM:
        to.append("RST ").append(payload);
        break;
      case NGHTTP2_GOAWAY:
        goaway = payload.substr(4);
        return;
      default:
        if (stream != 0 && to.empty()) streams.erase(stream);
        return;
    }
    if (type != NGHTTP2_RST_STREAM && (flags & NGHTTP2_FLAG_END_STREAM) != 0) to += "END";
  }

  void inflate(std::string_view block, std::string& to) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(block.data());
    std::size_t left = block.size();
    for (;;) {  // ends with the block
      nghttp2_nv field{};
      int flags = 0;
      const ssize_t used = nghttp2_hd_inflate_hd2(inflater_, &field, &flags, at, left, 1);
      expect(used >= 0, "our own header block can be read");
      at += used;
      left -= static_cast<std::size_t>(used);
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
        const std::string name(reinterpret_cast<char*>(field.name), field.namelen);
        const std::string value(reinterpret_cast<char*>(field.value), field.valuelen);
        if (name != "date") to.append(name).append("=").append(value).append("\n");
      }
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
  }

  nghttp2_hd_inflater* inflater_ = nullptr;
  std::string rest_;
};

class connection {
 public:
  explicit connection(bool with_http)
      : peer_(side().of, {}, start(), with_http ? &side().context : nullptr) {}
  ~connection() { peer_.lost(); }

  /// The piece dies afterwards, so that a view kept by mistake is seen. Nothing is sent yet: what a
  /// frame means may depend on whether the answer before it has gone (RFC 9113, 5.1).
  void receive(std::string_view piece) {
    const auto copy = std::make_unique<char[]>(piece.size());
    std::memcpy(copy.get(), piece.data(), piece.size());
    peer_.feed(std::as_bytes(std::span(copy.get(), piece.size())), start());
    while (peer_.has_left()) peer_.look(start());  // ends: answers one
  }
  void send() {
    peer_.look(start());             // what is due at once, such as a timeout of nothing
    for (bool more = true; more;) {  // ends: with nothing to send
      byte_buffer output;
      more = peer_.pull(output);
      heard.hear(output.view());
    }
    expect(heard.at_end_of_frame(), "whole frames are sent");
  }
  [[nodiscard]] bool is_over() const { return peer_.is_over(); }
  listener heard;

 private:
  /// The same for all: nothing comes too late.
  static clock::time_point start() {
    static const clock::time_point when = clock::now();
    return when;
  }

  h2::endpoint peer_;
};

constexpr std::string_view opening("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 24 + 9);

/// Up to the peer's GOAWAY, if there is one: once it has no streams, whether nghttp2 looks at what
/// comes behind depends on the cut.
std::string_view up_to_goaway(std::string_view input) {
  constexpr std::size_t head = 9;
  for (std::size_t at = 0; at + head <= input.size();) {  // ends: it grows
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(input[at + i]); };
    const std::size_t size = static_cast<std::size_t>(byte(0) << 16 | byte(1) << 8 | byte(2));
    const bool is_last = byte(3) == NGHTTP2_GOAWAY;
    at += head + size;
    if (is_last) return input.substr(0, at);
  }
  return input;
}

void check(std::string_view input, std::uint16_t seed) {
  const bool with_http = seed % 2 == 0;
  connection whole(with_http);
  whole.receive(opening);
  whole.receive(input);
  whole.send();

  connection cut(with_http);
  std::minstd_rand random(seed);
  const std::size_t longest = 1 + random() % (seed % 3 == 0 ? 4 : 64);
  cut.receive(opening);
  for (std::string_view rest = input; !rest.empty();) {
    const std::string_view piece = rest.substr(0, 1 + random() % longest);
    rest.remove_prefix(piece.size());
    cut.receive(piece);
  }
  cut.send();
  // nghttp2 counts the receives that bring the head of a CONTINUATION, not the heads: one that
  // comes in nine is too many. Its last words are ours, without a reason.
  if (cut.heard.goaway == std::string_view("\0\0\0\x0b", 4)) return;
  expect(whole.is_over() == cut.is_over(), "it stays open however it is cut");
  expect(whole.heard.goaway == cut.heard.goaway, "the same last words however it is cut");
  // A timeout of nothing may pass before the rest of its request is looked at.
  for (auto [one, other] : {std::pair(&whole, &cut), std::pair(&cut, &whole)}) {
    std::erase_if(one->heard.streams, [other = other](const auto& each) {
      if (each.second.find("grpc-status=4\n") == std::string::npos) return false;
      other->heard.streams.erase(each.first);
      return true;
    });
  }
  expect(whole.heard.streams == cut.heard.streams, "the same answers however it is cut");
}

}  // namespace
}  // namespace bwos::server::rpc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size - 2);
  const auto seed = static_cast<std::uint16_t>(data[size - 2] << 8 | data[size - 1]);
  bwos::server::rpc::check(bwos::server::rpc::up_to_goaway(input), seed);
  return 0;
}
