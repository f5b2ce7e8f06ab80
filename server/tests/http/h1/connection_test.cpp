// SPDX-License-Identifier: Apache-2.0
// A connection without its socket: what it has the socket send, however little that takes at once
// and however the requests come.
#include "http/h1/connection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/h2/connection.hpp"
#include "net/kept_buffers.hpp"
#include "tests/http/demo_site.hpp"

namespace bwos::server::h1 {
namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

/// Nothing of these tests goes anywhere.
class no_executor final : public executor {
 public:
  void post(continuation&) noexcept override { ADD_FAILURE(); }
  void yield(continuation&) noexcept override { ADD_FAILURE(); }
  void post_long(continuation&, lane_entry&) noexcept override { ADD_FAILURE(); }
  [[nodiscard]] bool has_idle() const noexcept override { return false; }
};

class scripted_socket final : public server::socket {
 public:
  sent try_send(std::span<const std::byte> bytes,
                std::span<const std::byte> behind) noexcept override {
    ++sends;
    const std::size_t first = std::min(takes, bytes.size());
    const std::size_t second = std::min(takes - first, behind.size());
    append(bytes.first(first));
    append(behind.first(second));
    return {.bytes = first + second, .error = {}};
  }
  void append(std::span<const std::byte> bytes) {
    output.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void deadline(clock::time_point) noexcept override {}
  void idle(clock::time_point, clock::time_point) noexcept override {}
  void reset_on_close() noexcept override { is_reset = true; }
  [[nodiscard]] int native_handle() const noexcept override { return -1; }
  [[nodiscard]] std::optional<stream_waker> waker() const noexcept override { return {}; }

  std::size_t takes = no_limit;  // of each try_send()
  std::string output;
  int sends = 0;
  bool is_reset = false;
};

class peer {
 public:
  explicit peer(std::size_t memory_max = memory_budget::unlimited) : memory(memory_max) {
    served_ = factory(common_).connect(socket);
  }

  /// In pieces of so much: into the connection's room, where it has one, else into memory that dies
  /// behind the call.
  void receive(std::string_view bytes, std::size_t piece = no_limit) {
    while (!bytes.empty() && last == next::receive) {
      const auto [room, at_most] = served_->room();
      std::size_t size = std::min({piece, bytes.size(), at_most});
      if (!room.empty()) size = std::min(size, room.size());
      ++receives;
      into_room += room.empty() ? 0 : size;
      std::unique_ptr<std::byte[]> own;
      if (room.empty()) own = std::make_unique<std::byte[]>(size);
      std::byte* const at = room.empty() ? own.get() : room.data();
      std::memcpy(at, bytes.data(), size);
      bytes.remove_prefix(size);
      last = served_->take({.bytes = {at, size}, .error = {}});
      gave_way += last == next::go_on ? 1 : 0;
      if (own) std::memset(at, '#', size);
      if (!is_deaf) go_on();
    }
  }
  /// What the loop does, with a kernel that takes the unsent bytes.
  void go_on() {
    for (;;) {  // ends: with nothing to send or to read
      if (const std::span<const std::byte> unsent = served_->unsent(); !unsent.empty()) {
        socket.append(unsent);
        last = served_->take_sent({.bytes = unsent.size(), .error = {}}, last);
        EXPECT_TRUE(served_->unsent().empty());
      } else if (last == next::go_on) {
        last = served_->go_on();
      } else {
        return;
      }
    }
  }
  [[nodiscard]] std::size_t unsent() const { return served_->unsent().size(); }
  [[nodiscard]] std::size_t charged(server::memory what) const {
    return static_cast<std::size_t>(memory.total().bytes[static_cast<std::size_t>(what)]);
  }
  void end() { served_.reset(); }

  memory_budget memory;
  scripted_socket socket;
  next last = next::receive;
  bool is_deaf = false;
  int receives = 0;
  int gave_way = 0;
  std::size_t into_room = 0;

 private:
  static metrics::registry& one_registry() {
    static metrics::registry one(server::test::demo_site::kinds);
    return one;
  }

  server::test::demo_site site_;
  no_executor workers_;
  const http_limits limits_;
  const h2::limits http2_limits_;
  const std::atomic<bool> leaving_{false};
  route_times times_{0, site_.routes.count()};
  const queue_age_bound queue_age_{nullptr, std::chrono::microseconds(0)};
  const h2::common http2_{.workers = workers_,
                          .drain = site_.drain,
                          .metrics = one_registry(),
                          .bounds = http2_limits_,
                          .leaving = leaving_,
                          .memory = memory};
  const common common_{.workers = workers_,
                       .drain = site_.drain,
                       .routes = site_.routes,
                       .metrics = one_registry(),
                       .limits = limits_,
                       .times = times_,
                       .queue_age = queue_age_,
                       .http2 = http2_};
  std::unique_ptr<connection> served_;
};

std::string pattern(std::size_t size) {
  std::string made(size, '\0');
  for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<char>('a' + (i * 7 + i / 251) % 26);
  return made;
}

std::string post(std::string_view body) {
  return "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

std::string post_in_chunks(std::string_view body, std::size_t chunk) {
  std::string text = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (std::size_t at = 0; at < body.size(); at += chunk) {
    const std::string_view piece = body.substr(at, chunk);
    std::array<char, 16> size{};
    const auto end = std::to_chars(size.data(), size.data() + size.size(), piece.size(), 16).ptr;
    text.append(size.data(), end).append("\r\n").append(piece).append("\r\n");
  }
  return text + "0\r\n\r\n";
}

constexpr std::string_view get = "GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n";

/// Of the answers in `output`, of which there is nothing else.
std::vector<std::string> bodies(std::string_view output) {
  std::vector<std::string> all;
  while (!output.empty()) {
    EXPECT_TRUE(output.starts_with("HTTP/1.1 200 OK\r\n"));
    constexpr std::string_view name = "\r\nContent-Length: ";
    const std::size_t length = output.find(name) + name.size();
    const std::size_t begin = output.find("\r\n\r\n") + 4;
    std::size_t size = 0;
    std::from_chars(output.data() + length, output.data() + begin, size);
    if (begin < 4 || size > output.size() - begin) {
      ADD_FAILURE() << "an answer that is not whole";
      break;
    }
    all.emplace_back(output.substr(begin, size));
    output.remove_prefix(begin + size);
  }
  return all;
}

TEST(connection, sends_a_body_of_any_size_back_however_it_comes) {
  for (const std::size_t size : {std::size_t{1}, 16 * kib, 32 * kib - 1, 32 * kib, 64 * kib,
                                 256 * kib, 300 * kib, 1024 * kib}) {
    const std::string body = pattern(size);
    const std::string request = post(body);
    for (const std::size_t piece : {std::size_t{1000}, 4 * kib, 60 * kib, 128 * kib, no_limit}) {
      peer one;
      one.receive(request, piece);
      ASSERT_EQ(bodies(one.socket.output), std::vector{body}) << size << " by " << piece;
      one.receive(request, piece);  // with buffers that are kept
      one.receive(get);
      ASSERT_EQ(bodies(one.socket.output), (std::vector<std::string>{body, body, "Hello, World!"}));
      EXPECT_EQ(one.last, next::receive);
    }
  }
}

TEST(connection, reads_a_body_that_is_cut_anywhere) {
  const std::string body = pattern(40 * kib);
  const std::string request = post(body);
  for (std::size_t cut = 1; cut < request.size(); cut += cut < 100 ? 1 : 97) {
    peer one;
    one.receive(request.substr(0, cut));
    one.receive(request.substr(cut));
    ASSERT_EQ(bodies(one.socket.output), std::vector{body}) << cut;
  }
  for (const std::size_t chunk : {1 * kib, 33 * kib, 100 * kib}) {
    for (const std::size_t piece : {std::size_t{777}, 20 * kib, no_limit}) {
      peer one;
      const std::string large = pattern(200 * kib);
      one.receive(post_in_chunks(large, chunk), piece);
      ASSERT_EQ(bodies(one.socket.output), std::vector{large}) << chunk << " by " << piece;
      EXPECT_EQ(one.into_room, 0U);
    }
  }
}

/// As its peer sees it who sends a head first, and waits.
TEST(connection, receives_a_large_body_where_it_stays) {
  const std::string body = pattern(256 * kib);
  const std::string request = post(body);
  const std::size_t head = request.size() - body.size();
  peer one;
  one.receive(request.substr(0, head));
  one.receive(request.substr(head));
  EXPECT_EQ(one.into_room, body.size());
  EXPECT_EQ(one.receives, 2);
  EXPECT_EQ(one.socket.sends, 1);
  EXPECT_EQ(bodies(one.socket.output), std::vector{body});
}

/// A worker's receive buffer brings the first request's beginning; of those behind it only a head.
TEST(connection, copies_little_of_a_large_body_behind_another) {
  const std::string request = post(pattern(256 * kib));
  peer one;
  one.receive(request.substr(0, 128 * kib));
  one.receive(request.substr(128 * kib));
  EXPECT_EQ(one.receives, 2);
  EXPECT_EQ(one.into_room, request.size() - 128 * kib);
  one.into_room = 0;
  one.receive(request);
  EXPECT_EQ(one.receives, 4);
  EXPECT_EQ(one.into_room, request.size() - head_bytes_expected);
  one.receive(post("small"));
  one.receive(post(pattern(100 * kib)));  // behind a small one: at once
  EXPECT_EQ(one.receives, 6);
}

/// A peer that never pauses gives way now and then, but between two requests.
TEST(connection, gives_way_behind_large_bodies_and_not_in_their_midst) {
  const std::string request = post(pattern(256 * kib));
  peer one;
  one.receive(request);
  EXPECT_EQ(one.gave_way, 1);
  one.gave_way = 0;
  for (int i = 0; i < 12; ++i) {
    one.receive(request.substr(0, request.size() / 2));
    EXPECT_EQ(one.gave_way, i / 2) << i;
    one.receive(request.substr(request.size() / 2));
    EXPECT_EQ(one.gave_way, (i + 1) / 2) << i;
  }
}

/// Also where each body's end is a small piece, which fills its room.
TEST(connection, gives_way_whatever_the_size_of_bodies) {
  for (const std::size_t size :
       {40 * kib, 100 * kib, 257 * kib, 280 * kib, 300 * kib, 1000 * kib}) {
    std::string requests;
    while (requests.size() < 6'000 * kib) requests += post(pattern(size));
    for (const std::size_t piece : {16 * kib, 128 * kib, 1'000 * kib}) {
      peer one;
      one.receive(requests, piece);
      ASSERT_GT(one.gave_way, 0) << size << " by " << piece;
      const std::size_t between = requests.size() / static_cast<std::size_t>(one.gave_way);
      EXPECT_LE(between, 1'100 * kib) << size << " by " << piece;
    }
  }
}

/// Where the kernel takes less than all, at every byte around the end of the head.
TEST(connection, loses_nothing_where_the_kernel_takes_less) {
  const std::string body = pattern(70 * kib);
  const std::string request = post(body);
  std::vector<std::size_t> sizes{body.size() / 2, body.size() - 1, body.size(), 33 * kib, 38 * kib};
  for (std::size_t i = 0; i < 300; ++i) sizes.push_back(i);
  for (std::size_t i = 0; i < 200; ++i) sizes.push_back(body.size() + i);
  for (const std::size_t takes : sizes) {
    for (const std::size_t piece : {10 * kib, no_limit}) {  // gathered, or not
      peer one;
      one.socket.takes = takes;
      one.receive(request, piece);
      one.receive(get);
      ASSERT_EQ(bodies(one.socket.output), (std::vector<std::string>{body, "Hello, World!"}))
          << takes << " of what came by " << piece;
    }
  }
}

TEST(connection, answers_what_is_pipelined_around_large_bodies) {
  const std::string body = pattern(50 * kib);
  std::string requests;
  std::vector<std::string> expected;
  for (int i = 0; i < 3; ++i) {
    requests += std::string(get) + std::string(get) + post(body) + post("small");
    for (const std::string_view each :
         {std::string_view("Hello, World!"), std::string_view("Hello, World!"),
          std::string_view(body), std::string_view("small")}) {
      expected.emplace_back(each);
    }
  }
  for (const std::size_t takes : {std::size_t{10}, 20 * kib, no_limit}) {
    for (const std::size_t piece : {std::size_t{1}, 1 * kib, 64 * kib, 100 * kib, no_limit}) {
      if (piece == 1 && takes != no_limit) continue;
      peer one;
      one.socket.takes = takes;
      one.receive(requests, piece);
      ASSERT_EQ(bodies(one.socket.output), expected) << takes << " of what came by " << piece;
    }
  }
}

TEST(connection, charges_what_a_peer_makes_it_keep) {
  const std::string body = pattern(256 * kib);
  const std::string request = post(body);
  peer one;
  one.receive(request.substr(0, request.size() - 1), 100 * kib);
  const std::size_t bytes = buffer_bytes(body.size() + 5);
  EXPECT_EQ(one.charged(memory::bodies), bytes);
  one.is_deaf = true;
  one.socket.takes = 100 * kib;
  one.receive(request.substr(request.size() - 1));
  EXPECT_GT(one.unsent(), 150 * kib);
  EXPECT_EQ(one.charged(memory::bodies), 0U);
  EXPECT_EQ(one.charged(memory::output), bytes);  // the buffer is as large as it was
  one.go_on();
  EXPECT_EQ(one.charged(memory::output), 0U);
  EXPECT_GE(one.charged(memory::buffers), bytes);
  EXPECT_EQ(bodies(one.socket.output), std::vector{body});

  // A small rest does not hold on to a large buffer.
  one.is_deaf = false;
  one.receive(request.substr(0, request.size() - 1), 100 * kib);
  one.is_deaf = true;
  one.socket.takes = 250 * kib;
  one.receive(request.substr(request.size() - 1));
  EXPECT_EQ(one.charged(memory::output), buffer_bytes(one.unsent()));
  EXPECT_LE(one.charged(memory::output), 8 * kib);
  one.end();
  EXPECT_EQ(one.charged(memory::output), 0U);
  EXPECT_EQ(one.charged(memory::connections), 0U);
}

/// Connections of one thread lend one parser to each other.
TEST(connection, reads_requests_whose_pieces_come_between_those_of_others) {
  const std::string request = post("to and fro");
  for (std::size_t cut = 1; cut < request.size(); ++cut) {
    peer one;
    peer other;
    peer whole;
    one.receive(get);
    one.receive(request.substr(0, cut));
    whole.receive(get);
    other.receive(request.substr(0, request.size() - cut));
    whole.receive(get);
    one.receive(request.substr(cut));
    whole.receive(get);
    other.receive(request.substr(request.size() - cut));
    ASSERT_EQ(bodies(one.socket.output), (std::vector<std::string>{"Hello, World!", "to and fro"}));
    ASSERT_EQ(bodies(other.socket.output), std::vector<std::string>{"to and fro"});
    ASSERT_EQ(bodies(whole.socket.output), std::vector<std::string>(3, "Hello, World!"));
  }
}

TEST(connection, keeps_half_an_empty_line_from_others) {
  peer half;
  peer other;
  half.receive(get);
  half.receive("\r");
  other.receive(get);
  half.receive(std::string("\n").append(get));
  other.receive(get);
  EXPECT_EQ(bodies(half.socket.output), std::vector<std::string>(2, "Hello, World!"));
  EXPECT_EQ(bodies(other.socket.output), std::vector<std::string>(2, "Hello, World!"));
}

TEST(connection, leaves_nothing_to_others_of_a_last_request) {
  for (const std::string_view last :
       {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"}) {
    {
      peer ends;
      ends.receive(get);
      ends.receive(last);
    }
    peer next_one;
    next_one.receive(get);
    next_one.receive(get);
    EXPECT_EQ(next_one.last, next::receive) << last;
    EXPECT_EQ(bodies(next_one.socket.output), std::vector<std::string>(2, "Hello, World!")) << last;
  }
}

TEST(connection, gives_back_what_it_kept_for_a_peer_that_leaves) {
  const std::string request = post(pattern(256 * kib));
  peer one;
  one.receive(request.substr(0, 100 * kib));
  EXPECT_GT(one.charged(memory::bodies), 0U);
  one.end();
  EXPECT_EQ(one.charged(memory::bodies), 0U);
}

TEST(connection, ends_where_there_is_no_memory_for_what_is_unsent) {
  const std::string request = post(pattern(64 * kib));
  peer one(2 * 1024 * kib);
  one.is_deaf = true;
  one.socket.takes = 1 * kib;
  while (one.memory.take(memory::messages, memory_budget::granule)) {
  }
  one.receive(request);  // whole, so that nothing is gathered
  EXPECT_EQ(one.last, next::close);
  EXPECT_TRUE(one.socket.is_reset);
  EXPECT_EQ(one.unsent(), 0U);
}

}  // namespace
}  // namespace bwos::server::h1
