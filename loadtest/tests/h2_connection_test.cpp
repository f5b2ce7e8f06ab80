// SPDX-License-Identifier: Apache-2.0
// The generator against a server that a test scripts frame by frame.
#include "h2_connection.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "generator.hpp"
#include "options.hpp"

namespace {
using namespace bwos::load;
using h2::frame_head;
using h2::frame_type;
using h2::flag::end_headers;
using h2::flag::end_stream;
using std::string_literals::operator""s;

struct frame {
  frame_head head{};
  std::string payload;
};

struct asked {
  std::uint32_t stream = 0;
  std::vector<h2::header_field> fields;
  std::string body;
  std::size_t block_bytes = 0;
};

std::string frame_text(frame_type type, std::uint8_t flags, std::uint32_t stream,
                       const std::string& payload) {
  std::string text;
  h2::append_head(text, {static_cast<std::uint32_t>(payload.size()), type, flags, stream});
  return text + payload;
}

std::string settings(std::initializer_list<std::pair<std::uint16_t, std::uint32_t>> values) {
  std::string payload;
  for (const auto& [id, value] : values) h2::append_setting(payload, id, value);
  return frame_text(frame_type::settings, 0, 0, payload);
}

std::string u32(std::uint32_t value) {
  std::string text;
  h2::append_u32(text, value);
  return text;
}  // Literal fields without a table: they can be decoded whatever came before.
std::string block(const std::vector<h2::header_field>& fields) {
  std::string text;
  for (const h2::header_field& each : fields) {
    text += '\0';
    text += static_cast<char>(each.name.size()) + each.name;
    text += static_cast<char>(each.value.size()) + each.value;
  }
  return text;
}

const std::string head_of_grpc = block({{":status", "200"}, {"content-type", "application/grpc"}});
const std::string trailers = block({{"grpc-status", "0"}});

std::string message(const std::string& bytes) {
  return "\0"s + u32(static_cast<std::uint32_t>(bytes.size())) + bytes;
}

std::string data(std::uint32_t stream, const std::string& bytes, std::uint8_t flags = 0) {
  return frame_text(frame_type::data, flags, stream, bytes);
}

std::string headers(std::uint32_t stream, const std::string& of, std::uint8_t flags = 0) {
  return frame_text(frame_type::headers, flags | end_headers, stream, of);
}

std::string good_answer(std::uint32_t stream) {
  return headers(stream, head_of_grpc) + data(stream, message("pong")) +
         headers(stream, trailers, end_stream);
}  // One connection, served by a script on a thread of its own.
class server {
 public:
  using script = std::function<void(server&)>;

  explicit server(script runs) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size);
    ::listen(listener_, 1);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&target_), &size);
    ::nghttp2_hd_inflate_new(&inflater_);
    thread_ = std::jthread([this, runs = std::move(runs)] {
      fd_ = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const int on = 1;
      ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      runs(*this);
      ::shutdown(fd_, SHUT_WR);
      while (more()) {
      }
      ::close(fd_);
    });
  }
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  ~server() {
    join();
    ::close(listener_);
    ::nghttp2_hd_inflate_del(inflater_);
  }

  const sockaddr_in& target() const { return target_; }

  // Until the script is over and the client has closed; what the script found is then ours to read.
  void join() {
    if (thread_.joinable()) thread_.join();
  }

  // Preface and SETTINGS of the client, answered with ours.
  void greet(const std::string& ours = settings({})) {
    while (input_.size() < h2::preface.size() && more()) {
    }
    EXPECT_TRUE(input_.starts_with(h2::preface));
    input_.erase(0, h2::preface.size());
    EXPECT_EQ(next().value_or(frame()).head.type, frame_type::settings);
    send(ours);
  }

  void send(const std::string& bytes) { ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

  // A frame; nothing when the client has closed, or is silent for so long.
  std::optional<frame> next(int silence_ms = 10'000) {
    while (!whole()) {
      if (!more(silence_ms)) return std::nullopt;
    }
    frame taken;
    taken.head = h2::read_head(input_.data());
    taken.payload = input_.substr(h2::head_bytes, taken.head.length);
    input_.erase(0, h2::head_bytes + taken.head.length);
    return taken;
  }

  // The next request that is whole; other frames are kept in `others`.
  std::optional<asked> request(int silence_ms = 10'000) {
    while (const auto taken = next(silence_ms)) {
      if (taken->head.type == frame_type::headers) {
        asked& its = open_[taken->head.stream];
        its.stream = taken->head.stream;
        its.fields = decode(taken->payload);
        its.block_bytes = taken->payload.size();
      } else if (taken->head.type == frame_type::data) {
        open_[taken->head.stream].body += taken->payload;
        send(frame_text(frame_type::window_update, 0, 0, u32(taken->head.length)));
      } else {
        others.push_back(*taken);
        continue;
      }
      if (!taken->head.has(end_stream)) continue;
      const asked whole = open_[taken->head.stream];
      open_.erase(taken->head.stream);
      return whole;
    }
    return std::nullopt;
  }

  // The streams of exactly so many requests: no other comes while none of them is answered.
  std::vector<std::uint32_t> streams(std::size_t count) {
    std::vector<std::uint32_t> found;
    while (found.size() < count) {
      const auto each = request();
      if (!each) break;
      found.push_back(each->stream);
    }
    EXPECT_EQ(found.size(), count);
    EXPECT_FALSE(request(silence).has_value());
    return found;
  }

  // Takes DATA until so much has come, and no more does. Answers the requests that are whole.
  void take_data(std::size_t bytes) {
    std::size_t received = 0;
    while (const auto taken = next(received < bytes ? 10'000 : silence)) {
      if (taken->head.type != frame_type::data) continue;
      received += taken->payload.size();
      if (taken->head.has(end_stream)) {
        send(headers(taken->head.stream, block({{":status", "200"}}), end_stream));
      }
    }
    EXPECT_EQ(received, bytes);
  }

  void answer_all() {
    while (const auto each = request()) send(good_answer(each->stream));
  }

  void limit_table(std::uint32_t bytes) {
    ::nghttp2_hd_inflate_change_table_size(inflater_, bytes);
  }

  static constexpr int silence = 30;  // ms, after which nothing is taken to come
  std::vector<frame> others;

 private:
  bool whole() const {
    return input_.size() >= h2::head_bytes &&
           input_.size() >= h2::head_bytes + h2::read_head(input_.data()).length;
  }

  bool more(int silence_ms = 10'000) {
    pollfd waits{fd_, POLLIN, 0};
    if (::poll(&waits, 1, silence_ms) <= 0) return false;
    std::array<char, 64 * 1024> bytes;
    const ssize_t got = ::recv(fd_, bytes.data(), bytes.size(), 0);
    if (got > 0) input_.append(bytes.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  std::vector<h2::header_field> decode(const std::string& text) {
    std::vector<h2::header_field> found;
    const auto* from = reinterpret_cast<const std::uint8_t*>(text.data());
    std::size_t left = text.size();
    for (int flags = 0; (flags & NGHTTP2_HD_INFLATE_FINAL) == 0;) {
      nghttp2_nv field{};
      const ssize_t taken = ::nghttp2_hd_inflate_hd2(inflater_, &field, &flags, from, left, 1);
      if (taken < 0) {
        ADD_FAILURE() << "the client's header block cannot be decoded";
        return found;
      }
      from += taken;
      left -= static_cast<std::size_t>(taken);
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
        found.push_back({std::string(field.name, field.name + field.namelen),
                         std::string(field.value, field.value + field.valuelen)});
      }
    }
    ::nghttp2_hd_inflate_end_headers(inflater_);
    return found;
  }

  int listener_ = -1;
  int fd_ = -1;
  sockaddr_in target_{};
  std::string input_;
  std::map<std::uint32_t, asked> open_;
  nghttp2_hd_inflater* inflater_ = nullptr;
  std::jthread thread_;
};

const std::string grpc = "protocol=grpc,path=/a.B/C,message=70696e67,reply=706f6e67";  // ping, pong

// All that is asked is measured.
outcome load(server& at, const std::vector<std::string>& classes, double seconds = 0.3) {
  options with;
  with.target = at.target();
  with.duration_s = seconds;
  with.warmup_s = 0;
  with.drain_s = 5;
  for (const std::string& each : classes) with.classes.push_back(parse_class(each));
  outcome found = run(with);
  at.join();
  for (const class_outcome& its : found.classes) {
    EXPECT_EQ(its.sent, its.answered + its.lost() + its.outstanding);
  }
  EXPECT_EQ(found.sent_in_all, found.sent());
  return found;
}

TEST(h2_connection, a_request_says_what_the_class_asks) {
  std::vector<asked> seen;
  outcome found;
  {
    server at([&](server& self) {
      self.greet();
      while (const auto each = self.request()) {
        seen.push_back(*each);
        self.send(good_answer(each->stream));
      }
    });
    found = load(at, {grpc});
    EXPECT_GT(seen.size(), 0U);
  }
  ASSERT_GE(seen.size(), 2U);
  EXPECT_EQ(found.classes[0].answered, seen.size());
  EXPECT_EQ(found.failures(), 0U);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].stream, 2 * i + 1);
    EXPECT_EQ(seen[i].body, message("ping"));
    ASSERT_EQ(seen[i].fields.size(), 6U);
    EXPECT_EQ(seen[i].fields[0], (h2::header_field{":method", "POST"}));
    EXPECT_EQ(seen[i].fields[1], (h2::header_field{":scheme", "http"}));
    EXPECT_EQ(seen[i].fields[2], (h2::header_field{":path", "/a.B/C"}));
    EXPECT_TRUE(seen[i].fields[3].value.starts_with("localhost:"));
    EXPECT_EQ(seen[i].fields[4], (h2::header_field{"content-type", "application/grpc"}));
    EXPECT_EQ(seen[i].fields[5], (h2::header_field{"te", "trailers"}));
    if (i > 0) {
      EXPECT_EQ(seen[i].block_bytes, 6U) << "indices only";
    }
  }
}

TEST(h2_connection, plain_requests_are_checked_by_status_and_length) {
  server at([](server& self) {
    self.greet();
    const auto answer = [&](const std::string& status, const std::string& body) {
      const auto each = self.request();
      if (!each) return;
      EXPECT_EQ(each->fields[0].value, "POST");
      EXPECT_EQ(each->body, "xxx");
      self.send(headers(each->stream, block({{":status", status}})) +
                data(each->stream, body, end_stream));
    };
    answer("404", "12345");
    answer("200", "1234");
    for (int i = 0; i < 10; ++i) answer("200", "12345");
    self.request();  // left without an answer: closed
  });
  const outcome found = load(at, {"protocol=h2,path=/,post=3,length=5"});
  EXPECT_EQ(found.classes[0].answered, 12U);
  EXPECT_EQ(found.classes[0].failed(failure::status), 1U);
  EXPECT_EQ(found.classes[0].failed(failure::length), 1U);
  EXPECT_EQ(found.classes[0].failed(failure::closed), 1U);
  EXPECT_EQ(found.classes[0].failed(failure::unsent), 1U) << "the place of the closed loop";
  EXPECT_EQ(found.classes[0].latency_ns.count(), 10U);
}

TEST(h2_connection, wrong_answers_to_a_call_are_errors_of_their_kind) {
  const auto answer = [](const std::string& head, const std::string& body,
                         const std::string& last) {
    return [=](std::uint32_t stream) {
      return headers(stream, head) + data(stream, body) + headers(stream, last, end_stream);
    };
  };
  const auto trailers_only = [](const std::vector<h2::header_field>& more) {
    std::vector<h2::header_field> fields{{":status", "200"}, {"content-type", "application/grpc"}};
    fields.insert(fields.end(), more.begin(), more.end());
    return [=](std::uint32_t stream) { return headers(stream, block(fields), end_stream); };
  };
  const std::string pong = message("pong");
  const std::vector<std::pair<failure, std::function<std::string(std::uint32_t)>>> wrong = {
      {failure::status, answer(block({{":status", "503"}}), pong, trailers)},
      {failure::status, answer(block({{":status", "200"}}), pong, trailers)},
      {failure::status,
       answer(block({{":status", "200"}, {"content-type", "text/plain"}}), pong, trailers)},
      {failure::grpc_status, answer(head_of_grpc, pong, block({{"grpc-status", "13"}}))},
      {failure::grpc_status, answer(head_of_grpc, pong, block({{"grpc-status", "zero"}}))},
      {failure::grpc_status, answer(head_of_grpc, pong, block({{"other", "0"}}))},
      {failure::grpc_status, trailers_only({{"grpc-status", "12"}})},
      {failure::grpc_status,
       [&](std::uint32_t stream) {  // a status, but not at the end
         return headers(stream, head_of_grpc + trailers) + data(stream, pong, end_stream);

       }},
      {failure::length, trailers_only({{"grpc-status", "0"}})},
      {failure::length, answer(head_of_grpc, pong.substr(0, 8), trailers)},
      {failure::length, answer(head_of_grpc, pong.substr(0, 3), trailers)},
      {failure::length, answer(head_of_grpc, pong + pong, trailers)},
      {failure::body, answer(head_of_grpc, message("gong"), trailers)},
      {failure::body, answer(head_of_grpc, message("pongs"), trailers)},
      {failure::body, answer(head_of_grpc, message("pon"), trailers)},
      {failure::body, answer(head_of_grpc, "\1"s + pong.substr(1), trailers)},
  };
  server at([&](server& self) {
    self.greet();
    for (const auto& [kind, text] : wrong) {
      if (const auto each = self.request()) self.send(text(each->stream));
    }
    self.answer_all();
  });
  const outcome found = load(at, {grpc});
  std::map<failure, std::uint64_t> expected;
  for (const auto& each : wrong) ++expected[each.first];
  for (std::size_t i = 0; i < failure_names.size(); ++i) {
    EXPECT_EQ(found.classes[0].failures[i], expected[static_cast<failure>(i)]) << failure_names[i];
  }
  EXPECT_GT(found.classes[0].answered, wrong.size());
  EXPECT_EQ(found.classes[0].latency_ns.count(), found.classes[0].answered - wrong.size());
}

TEST(h2_connection, a_message_of_another_length_than_asked_is_an_error) {
  server at([](server& self) {
    self.greet();
    self.answer_all();
  });
  const outcome found = load(at, {"protocol=grpc,path=/a.B/C,length=5"});
  EXPECT_GT(found.classes[0].answered, 0U);
  EXPECT_EQ(found.classes[0].failed(failure::length), found.classes[0].answered);
}

TEST(h2_connection, frames_may_be_cut_padded_continued_and_of_unknown_kinds) {
  server at([](server& self) {
    self.greet();
    for (int i = 0; i < 5; ++i) {
      const auto each = self.request();
      if (!each) return;
      const std::uint32_t stream = each->stream;
      const std::string body = message("pong");
      const std::string padded_head =
          "\3"s + u32(0) + "\x10"s + head_of_grpc.substr(0, 4) + "\0\0\0"s;
      std::string text = headers(stream, block({{":status", "103"}, {"link", "x"}}));
      text += frame_text(static_cast<frame_type>(0xbe), 0xff, stream, "whatever");
      text += frame_text(frame_type::headers, h2::flag::padded | h2::flag::priority, stream,
                         padded_head);
      text += frame_text(frame_type::continuation, 0, stream, head_of_grpc.substr(4, 9));
      text += frame_text(frame_type::continuation, 0, stream, "");
      text += frame_text(frame_type::continuation, end_headers, stream, head_of_grpc.substr(13));
      text += frame_text(frame_type::priority, 0, stream, u32(0) + "\1"s);
      text += data(stream, "\4"s + body.substr(0, 2) + "\0\0\0\0"s, h2::flag::padded);
      text += data(stream, "");
      text += data(stream, body.substr(2));
      text += headers(stream, trailers, end_stream);
      for (const char byte : text) {
        self.send(std::string(1, byte));
        std::this_thread::sleep_for(std::chrono::microseconds(20));  // a segment each
      }
    }
    self.answer_all();
  });
  const outcome found = load(at, {grpc}, 2);
  EXPECT_GE(found.classes[0].answered, 5U);
  EXPECT_EQ(found.failures(), 0U);
}

TEST(h2_connection, settings_and_pings_are_acknowledged) {
  std::vector<frame> seen;
  server at([&](server& self) {
    self.greet();
    self.send(frame_text(frame_type::ping, 0, 0, "12345678") + settings({{99, 1}}) +
              frame_text(frame_type::ping, h2::flag::ack, 0, "87654321"));
    self.answer_all();
    seen = self.others;
  });
  EXPECT_EQ(load(at, {grpc}).failures(), 0U);
  std::string found;
  for (const frame& each : seen) {
    if (each.head.type == frame_type::settings) found += each.head.has(h2::flag::ack) ? "S" : "?";
    if (each.head.type == frame_type::ping) found += each.payload;
  }
  // The second SETTINGS may have come with the first.
  EXPECT_TRUE(found == "S12345678S") << found;
}

TEST(h2_connection, no_more_streams_than_asked_and_than_the_peer_allows_are_open) {
  for (const auto& [asked_for, allowed, open] :
       {std::tuple{10U, 3U, 3U}, std::tuple{3U, 10U, 3U}, std::tuple{70U, 100U, 70U}}) {
    server at([&, open = open, allowed = allowed](server& self) {
      self.greet(settings({{h2::setting::max_concurrent_streams, allowed}}));
      for (int i = 0; i < 4; ++i) {
        for (const std::uint32_t stream : self.streams(open)) self.send(good_answer(stream));
      }
      self.answer_all();
    });
    EXPECT_EQ(load(at, {grpc + ",streams=" + std::to_string(asked_for)}, 1).failures(), 0U);
  }
}

TEST(h2_connection, a_limit_of_streams_may_change_while_they_run) {
  server at([](server& self) {
    self.greet(settings({{h2::setting::max_concurrent_streams, 0}}));
    self.streams(0);
    self.send(settings({{h2::setting::max_concurrent_streams, 4}}));
    for (const std::uint32_t stream : self.streams(4)) self.send(good_answer(stream));
    self.answer_all();
  });
  EXPECT_EQ(load(at, {grpc + ",streams=9"}, 1).failures(), 0U);
}

TEST(h2_connection, a_body_goes_out_as_the_windows_allow) {
  static constexpr std::size_t body_bytes = 100'000;  // above the connection's 65,535 too
  server at([](server& self) {
    self.greet(settings({{h2::setting::initial_window_size, 10}}));
    std::int64_t stream_window = 10;
    std::int64_t connection_window = 65'535;
    std::size_t whole = 0;
    std::string body;
    while (const auto taken = self.next()) {
      if (taken->head.type == frame_type::headers) {
        stream_window = 10;
        body.clear();
      }
      if (taken->head.type != frame_type::data) continue;
      const std::uint32_t stream = taken->head.stream;
      const auto size = static_cast<std::int64_t>(taken->payload.size());
      EXPECT_LE(size, 16'384);
      stream_window -= size;
      connection_window -= size;
      EXPECT_GE(stream_window, 0);
      EXPECT_GE(connection_window, 0);
      body += taken->payload;
      if (taken->head.has(end_stream)) {
        EXPECT_EQ(body.size(), body_bytes);
        ++whole;
        self.send(headers(stream, block({{":status", "200"}}), end_stream));
        continue;
      }
      if (stream_window == 0) {
        const std::uint32_t more = body.size() < 100 ? 7 : 50'000;
        self.send(frame_text(frame_type::window_update, 0, stream, u32(more)));
        stream_window += more;
      }
      if (connection_window < 20'000) {
        self.send(frame_text(frame_type::window_update, 0, 0, u32(30'000)));
        connection_window += 30'000;
      }
    }
    EXPECT_GT(whole, 0U);
  });
  const outcome found =
      load(at, {"protocol=h2,path=/,length=0,post=" + std::to_string(body_bytes)});
  EXPECT_GT(found.classes[0].answered, 0U);
  EXPECT_EQ(found.failures(), 0U);
}

TEST(h2_connection, the_connections_window_holds_for_small_bodies_too) {
  server at([](server& self) {
    self.greet();
    self.take_data(65'535);
    self.send(frame_text(frame_type::window_update, 0, 0, u32(10'000)));
    self.take_data(10'000);
  });
  const outcome found = load(at, {"protocol=h2,path=/,post=1000,streams=1"}, 1);
  EXPECT_EQ(found.classes[0].answered, 75U);
}

TEST(h2_connection, a_window_that_settings_shrink_and_widen_holds_for_open_streams) {
  server at([](server& self) {
    self.greet(settings({{h2::setting::initial_window_size, 10}}));
    self.take_data(10);
    self.send(settings({{h2::setting::initial_window_size, 4}}));    // 6 below zero
    self.send(frame_text(frame_type::window_update, 0, 1, u32(5)));  // 1 below zero
    self.take_data(0);
    self.send(settings({{h2::setting::initial_window_size, 25}}));
    self.take_data(20);
    self.send(frame_text(frame_type::window_update, 0, 1, u32(1000)));
    self.take_data(70 + 25);  // and the front of the next request
  });
  const outcome found = load(at, {"protocol=h2,path=/,post=100"}, 1);
  EXPECT_EQ(found.classes[0].answered, 1U);
}

TEST(h2_connection, an_answer_before_the_request_is_whole_ends_the_stream) {
  bool cancelled = false;
  server at([&](server& self) {
    self.greet(settings({{h2::setting::initial_window_size, 0}}));
    while (const auto taken = self.next()) {
      if (taken->head.type == frame_type::headers) {
        self.send(headers(taken->head.stream, block({{":status", "200"}}), end_stream));
      }
      EXPECT_NE(taken->head.type, frame_type::data);
      cancelled |= taken->head.type == frame_type::rst_stream && taken->payload == u32(8);
    }
  });
  const outcome found = load(at, {"protocol=h2,path=/,post=100"});
  EXPECT_GT(found.classes[0].answered, 0U);
  EXPECT_EQ(found.failures(), 0U);
  EXPECT_TRUE(cancelled);
}

TEST(h2_connection, small_windows_of_ours_are_given_back) {
  // 200,000 bytes an answer, which is more than the connection's window and much more than a
  // stream's.
  server at([](server& self) {
    self.greet();
    std::int64_t connection_window = 65'535;
    while (auto each = self.request()) {
      self.send(headers(each->stream, block({{":status", "200"}})));
      std::int64_t stream_window = 1000;
      const auto grant = [&](const frame& by) {
        if (by.head.type != frame_type::window_update) return;
        const std::int64_t more = h2::read_u32(by.payload.data());
        if (by.head.stream == 0) connection_window += more;
        if (by.head.stream == each->stream) stream_window += more;
      };
      for (const frame& before : std::exchange(self.others, {})) grant(before);
      for (std::int64_t left = 200'000; left > 0;) {
        const std::int64_t size = std::min({left, stream_window, connection_window});
        if (size > 0) {
          left -= size;
          stream_window -= size;
          connection_window -= size;
          self.send(data(each->stream, std::string(static_cast<std::size_t>(size), 'x'),
                         left == 0 ? end_stream : std::uint8_t{0}));
          continue;
        }
        const auto taken = self.next();
        if (!taken) return;
        grant(*taken);
      }
    }
  });
  const outcome found = load(at, {"protocol=h2,path=/,window=1000,length=200000"}, 0.5);
  EXPECT_GT(found.classes[0].answered, 0U);
  EXPECT_EQ(found.classes[0].outstanding, 0U);
  EXPECT_EQ(found.failures(), 0U);
}

TEST(h2_connection, a_stream_that_the_peer_resets_is_lost) {
  server at([](server& self) {
    self.greet();
    for (int i = 0; i < 7; ++i) {
      const auto each = self.request();
      if (!each) return;
      if (i % 2 == 1) self.send(headers(each->stream, head_of_grpc));
      self.send(frame_text(frame_type::rst_stream, 0, each->stream, u32(2)));
      // Late frames of a stream that is gone.
      self.send(headers(each->stream, trailers, end_stream));
      self.send(data(each->stream, "late"));
    }
    // The header block of such a stream changes the table all the same: the next one refers to it.
    if (const auto each = self.request()) {
      self.send(headers(1, "\x40"s + trailers.substr(1), end_stream));
      self.send(headers(each->stream, head_of_grpc) + data(each->stream, message("pong")) +
                headers(each->stream, "\xbe", end_stream));
    }
    self.answer_all();
  });
  const outcome found = load(at, {grpc + ",streams=2"});
  EXPECT_EQ(found.classes[0].failed(failure::stream_reset), 7U);
  EXPECT_EQ(found.failures(), 7U);
  EXPECT_GT(found.classes[0].answered, 0U);
}

TEST(h2_connection, what_a_goaway_leaves_out_is_unsent_and_the_rest_is_answered) {
  bool closed = false;
  server at([&](server& self) {
    self.greet();
    const std::vector<std::uint32_t> streams = self.streams(10);
    self.send(frame_text(frame_type::goaway, 0, 0, u32(7) + u32(0)));
    for (int i = 0; i < 4; ++i) {
      self.streams(0);  // nothing is opened after a GOAWAY
      self.send(good_answer(streams[static_cast<std::size_t>(i)]));
    }
    closed = !self.request().has_value();
  });
  const outcome found = load(at, {grpc + ",streams=10"}, 1);
  EXPECT_EQ(found.classes[0].answered, 4U);
  EXPECT_EQ(found.classes[0].sent, 4U);
  EXPECT_EQ(found.classes[0].latency_ns.count(), 4U);
  EXPECT_EQ(found.classes[0].failed(failure::unsent), 6U + 10U) << "and the loop's ten places";
  EXPECT_EQ(found.failures(), 16U);
  EXPECT_TRUE(closed);
}

TEST(h2_connection, a_notice_of_shutdown_loses_nothing) {
  server at([](server& self) {
    self.greet();
    const std::vector<std::uint32_t> streams = self.streams(3);
    self.send(frame_text(frame_type::goaway, 0, 0, u32(0x7fff'ffff) + u32(0)));
    self.streams(0);
    self.send(frame_text(frame_type::goaway, 0, 0, u32(streams.back()) + u32(0) + "bye"s));
    for (const std::uint32_t stream : streams) self.send(good_answer(stream));
  });
  // Open loop: all is due and most waits, as one stream is allowed.
  const outcome found = load(at, {grpc + ",rate=100,streams=3"}, 0.5);
  EXPECT_EQ(found.classes[0].answered, 3U);
  EXPECT_EQ(found.classes[0].lost(), 0U);
  EXPECT_GT(found.classes[0].failed(failure::unsent), 10U);
}

TEST(h2_connection, a_table_of_no_size_is_not_used) {
  std::size_t calls = 0;
  server at([&](server& self) {
    self.greet(settings({{h2::setting::header_table_size, 0}}));
    // What was sent before our SETTINGS came would use the table; the loop waits for them.
    self.limit_table(0);
    while (const auto each = self.request()) {
      EXPECT_EQ(each->fields.size(), 6U);
      ++calls;
      self.send(good_answer(each->stream));
    }
  });
  EXPECT_EQ(load(at, {grpc + ",streams=3"}).failures(), 0U);
  EXPECT_GT(calls, 0U);
}

TEST(h2_connection, two_classes_share_a_connection_and_are_counted_apart) {
  std::map<std::string, std::uint64_t> seen;
  outcome found;
  {
    server at([&](server& self) {
      self.greet();
      while (const auto each = self.request()) {
        ++seen[each->fields[2].value];
        self.send(good_answer(each->stream));
      }
    });
    found = load(at, {"name=a," + grpc + ",rate=300",
                      "over=a,protocol=grpc,path=/slow.D/E,rate=100,reply=706f6e67"});
  }
  EXPECT_EQ(found.failures(), 0U);
  EXPECT_EQ(seen["/a.B/C"], found.classes[0].answered);
  EXPECT_EQ(seen["/slow.D/E"], found.classes[1].answered);
  EXPECT_GT(found.classes[0].answered, found.classes[1].answered);
  EXPECT_GT(found.classes[1].answered, 0U);
  EXPECT_EQ(found.lateness_ns.count(), found.sent());
}

TEST(h2_connection, latency_counts_from_when_a_call_was_due_not_from_when_a_stream_was_free) {
  server at([](server& self) {
    self.greet(settings({{h2::setting::max_concurrent_streams, 1}}));
    while (const auto each = self.request()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      self.send(good_answer(each->stream));
    }
  });
  // Due in 0.2 s, done in 1 s: the last waits for about 0.8 s.
  const outcome found = load(at, {grpc + ",rate=500"}, 0.2);
  EXPECT_EQ(found.failures(), 0U);
  EXPECT_GT(found.classes[0].sent, 50U);
  EXPECT_GT(found.classes[0].latency_ns.percentile(99), 200'000'000);
}

TEST(h2_connection, what_is_not_http2_is_malformed) {
  const std::string huge = u32(0x00400100) + "\0"s + u32(1);  // HEADERS, 16,385 bytes
  const std::vector<std::pair<const char*, std::string>> bad = {
      {"HTTP/1", "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"},
      {"a frame that is too long", huge.substr(0, 9) + std::string(20'000, 'x')},
      {"SETTINGS of 5 bytes", frame_text(frame_type::settings, 0, 0, "12345")},
      {"SETTINGS on a stream", frame_text(frame_type::settings, 0, 1, "")},
      {"a window above 2^31 - 1", settings({{h2::setting::initial_window_size, 0x8000'0000}})},
      {"frames below 16 KiB", settings({{h2::setting::max_frame_size, 100}})},
      {"PING of 7 bytes", frame_text(frame_type::ping, 0, 0, "1234567")},
      {"GOAWAY of 4 bytes", frame_text(frame_type::goaway, 0, 0, "1234")},
      {"PUSH_PROMISE", frame_text(frame_type::push_promise, end_headers, 1, u32(2))},
      {"CONTINUATION of nothing", frame_text(frame_type::continuation, end_headers, 1, "")},
      {"another frame inside a header block",
       frame_text(frame_type::headers, 0, 1, head_of_grpc) + data(1, "x")},
      {"DATA before HEADERS", data(1, "x")},
      {"DATA of a stream not opened", headers(1, head_of_grpc) + data(2001, "x")},
      {"DATA on stream 0", data(0, "x")},
      {"padding longer than the frame",
       headers(1, head_of_grpc) + data(1, "\5abc"s, h2::flag::padded)},
      {"an index of no entry", headers(1, "\xff\x7f"s)},
      {"no :status", headers(1, block({{"content-type", "application/grpc"}}), end_stream)},
      {":status that is no number", headers(1, block({{":status", "2x0"}}))},
      {"a pseudo header in trailers",
       headers(1, head_of_grpc) + headers(1, block({{":status", "200"}}), end_stream)},
      {"trailers that do not end", headers(1, head_of_grpc) + headers(1, trailers)},
      {"WINDOW_UPDATE of 0", frame_text(frame_type::window_update, 0, 0, u32(0))},
      {"a window that overflows", frame_text(frame_type::window_update, 0, 0, u32(0x7fff'ffff))},
      {"more than our window", headers(1, head_of_grpc) + data(1, std::string(101, 'x'))},
      {"RST_STREAM of 3 bytes", frame_text(frame_type::rst_stream, 0, 1, "123")},
  };
  for (const auto& [name, bytes] : bad) {
    server at([&](server& self) {
      self.greet();
      if (self.request()) self.send(bytes);
      while (self.next()) {
      }
    });
    const outcome found = load(at, {grpc + ",window=100"}, 0.3);
    EXPECT_EQ(found.classes[0].failed(failure::malformed), 1U) << name;
    EXPECT_EQ(found.classes[0].sent, 1U) << name;
  }
}

TEST(h2_connection, a_peer_that_never_sends_its_settings_is_asked_nothing) {
  for (const char* more : {"", ",rate=100"}) {
    server at([](server& self) {
      while (self.next()) {
      }
    });
    options with;
    with.target = at.target();
    with.duration_s = 0.2;
    with.warmup_s = 0;
    with.drain_s = 0.1;
    with.classes.push_back(parse_class(grpc + more));
    const outcome found = run(with);
    EXPECT_EQ(found.sent(), 0U);
    EXPECT_GT(found.classes[0].failed(failure::unsent), 0U);
    EXPECT_EQ(found.failures(), found.classes[0].failed(failure::unsent));
  }
}

TEST(h2_connection, a_preface_other_than_settings_is_malformed) {
  server at([](server& self) {
    self.greet("HTTP/1.1 400 Bad Request\r\n\r\n");
    while (self.next()) {
    }
  });
  const outcome found = load(at, {grpc + ",streams=5"}, 0.1);
  EXPECT_EQ(found.sent(), 0U);
  EXPECT_EQ(found.classes[0].failed(failure::unsent), 5U);
}

}  // namespace
