// SPDX-License-Identifier: Apache-2.0
#include "http/h2/repeated_header.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/h2/session.hpp"
#include "tests/grpc/calls_harness.hpp"
#include "tests/http/h2/frames.hpp"

namespace bwos::server::h2 {
namespace {

using namespace std::chrono_literals;
using rpc::test::calls_harness;
using rpc::test::fields;
using rpc::test::frame;
using rpc::test::header_frame;
using rpc::test::request_header;

constexpr int end_of_both = rpc::test::end_headers | rpc::test::end_stream;

/// A client's side of HPACK (RFC 7541) that puts each field into its table, as those of grpc-go and
/// of gRPC C++ do, and names it by its index from then on.
class encoder {
 public:
  std::string frame_of(std::uint32_t stream, const fields& all, int flags = end_of_both) {
    std::string block;
    for (const auto& field : all) {
      if (field == fields::value_type(":method", "POST")) {
        block += '\x83';  // of the static table
        continue;
      }
      const auto found = std::ranges::find(table_, field);
      if (found != table_.end()) {
        block += static_cast<char>(0x80 | (62 + (found - table_.begin())));
        continue;
      }
      block += '\x40' + rpc::test::hpack_text(field.first) + rpc::test::hpack_text(field.second);
      table_.push_front(field);
      bytes_ += size_of(field);
      for (; bytes_ > 4096; table_.pop_back()) bytes_ -= size_of(table_.back());
    }
    return frame(rpc::test::headers, flags, stream, block);
  }

 private:
  static std::size_t size_of(const fields::value_type& field) {
    return field.first.size() + field.second.size() + 32;
  }
  std::deque<fields::value_type> table_;
  std::size_t bytes_ = 0;
};

/// A stream that notes what it is told.
class told_stream final : public stream {
 public:
  bool knows = false;  ///< What repeat_header() says.
  bool was_asked = false;
  bool remembers = false;  ///< Was told to.
  bool has_header = false;
  bool too_large = false;
  fields read;

 private:
  void on_field(std::string_view name, std::string_view value) override {
    EXPECT_FALSE(has_header);
    read.emplace_back(name, value);
  }
  bool repeat_header() override {
    was_asked = true;
    return knows;
  }
  void remember_header() override {
    EXPECT_TRUE(has_header);
    remembers = true;
  }
  void on_header(bool large) override {
    has_header = true;
    too_large = large;
  }
  void on_data(std::span<const std::byte>, bool) override {}
  void on_end() override {}
  void on_closed(error) override {}
  std::span<const field> trailers() override { return {}; }
};

class repeated_header_test : public testing::Test, protected application {
 protected:
  explicit repeated_header_test(const limits& bounds = {})
      : bounds_(bounds), tested_(*this, bounds_) {
    tested_.recognise_headers();
    feed(rpc::test::preface + frame(rpc::test::settings, 0, 0, ""));
  }

  stream* open() override {
    told_stream& made = streams_.emplace_back();
    made.knows = knows_;
    return &made;
  }
  void feed(const std::string& bytes) { tested_.feed(std::as_bytes(std::span(bytes)), {}); }
  /// The next request.
  told_stream& request(const fields& all) {
    feed(encoder_.frame_of(next_, all));
    next_ += 2;
    return streams_.back();
  }

  encoder encoder_;
  std::uint32_t next_ = 1;
  bool knows_ = false;
  std::deque<told_stream> streams_;
  const limits bounds_;
  session tested_;
};

TEST_F(repeated_header_test, comes_field_by_field_until_it_is_known) {
  const fields all = request_header();
  for (int i = 0; i < 3; ++i) {
    const told_stream& read = request(all);
    EXPECT_EQ(read.read, all) << i;
    EXPECT_EQ(read.was_asked, i > 0) << i;
    EXPECT_EQ(read.remembers, i > 0) << i;
  }
  const std::uint64_t number = tested_.header_number();
  knows_ = true;
  for (int i = 0; i < 3; ++i) {
    const told_stream& known = request(all);
    EXPECT_TRUE(known.was_asked && known.has_header);
    EXPECT_FALSE(known.remembers || known.too_large);
    EXPECT_EQ(known.read, fields{});
  }
  EXPECT_EQ(tested_.header_number(), number);
}

TEST_F(repeated_header_test, another_header_is_read_whole_wherever_it_differs) {
  const fields all = request_header();
  for (int i = 0; i < 4; ++i) request(all);
  knows_ = true;
  std::vector<fields> others;
  for (const auto& [at, value] :
       {std::pair(0, "GET"), {2, "/other"}, {3, "b"}, {5, "text/plain"}}) {
    others.push_back(all);
    others.back()[static_cast<std::size_t>(at)].second = value;
  }
  others.push_back(all);
  others.back().pop_back();
  others.push_back(all);
  others.back().emplace_back("more", "of it");
  for (const fields& other : others) {
    for (int i = 0; i < 4; ++i) request(all);
    EXPECT_EQ(request(all).read, fields{});
    const std::uint64_t number = tested_.header_number();
    EXPECT_EQ(request(other).read, other);
    EXPECT_NE(tested_.header_number(), number);
    EXPECT_EQ(request(all).read, all);
  }
}

TEST_F(repeated_header_test, what_is_not_in_the_table_is_never_the_same) {
  for (int i = 0; i < 4; ++i, next_ += 2) {
    feed(header_frame(next_, request_header(), rpc::test::end_stream));
    EXPECT_EQ(streams_.back().read, request_header());
    EXPECT_FALSE(streams_.back().was_asked);
  }
}

TEST_F(repeated_header_test, trailers_and_streams_that_are_wrong_leave_it_alone) {
  const fields all = request_header();
  for (int i = 0; i < 4; ++i) request(all);
  knows_ = true;
  feed(encoder_.frame_of(next_, all, rpc::test::end_headers));
  feed(encoder_.frame_of(next_, {{"a", "trailer"}}));
  EXPECT_EQ(streams_.back().read, fields{});
  next_ += 2;
  EXPECT_EQ(request(all).read, fields{});

  const auto wrong = [this](const std::string& path) {
    fields header = request_header(path);
    header.emplace_back("Upper", "case");  // which resets the stream
    feed(encoder_.frame_of(next_, header));
    EXPECT_FALSE(streams_.back().has_header);
    next_ += 2;
  };
  wrong(rpc::test::hello_path);  // as long as it goes it repeats
  knows_ = false;
  EXPECT_EQ(request(all).read, all);
  EXPECT_TRUE(streams_.back().was_asked);
  wrong("/other");
  EXPECT_EQ(request(all).read, all);
  EXPECT_FALSE(streams_.back().was_asked);
  EXPECT_EQ(request(all).read, all);
  EXPECT_TRUE(streams_.back().was_asked);
}

TEST_F(repeated_header_test, may_come_in_pieces) {
  const fields all = request_header();
  for (int i = 0; i < 3; ++i) request(all);
  for (const bool knows : {false, true}) {
    knows_ = knows;
    const std::string whole = encoder_.frame_of(next_, all);
    const std::string block = whole.substr(9);
    feed(frame(rpc::test::headers, rpc::test::end_stream, next_, block.substr(0, 3)));
    EXPECT_EQ(streams_.back().read, fields{});
    feed(frame(rpc::test::continuation_frame, rpc::test::end_headers, next_, block.substr(3)));
    EXPECT_EQ(streams_.back().read, knows ? fields{} : all);
    EXPECT_TRUE(streams_.back().was_asked && streams_.back().has_header);
    next_ += 2;
  }
}

TEST_F(repeated_header_test, its_texts_are_no_others_when_the_table_has_lost_them) {
  const fields all = request_header();
  for (int i = 0; i < 3; ++i) request(all);
  knows_ = true;
  const std::string empty_table = "\x20";  // RFC 7541, 6.3
  for (char letter = 'b'; letter < 'z'; ++letter, next_ += 2) {
    fields other = request_header();
    other[3].second = letter;  // as long as what was freed, had it been
    feed(frame(rpc::test::headers, end_of_both, next_, empty_table + rpc::test::hpack(other)));
    EXPECT_EQ(streams_.back().read, other);
  }
}

TEST_F(repeated_header_test, long_ones_are_not_kept) {
  fields many = request_header();
  while (many.size() <= repeated_header::fields_max)
    many.emplace_back(std::string("x").append(std::to_string(many.size())), "y");
  const fields large =
      request_header(rpc::test::hello_path, {{"x", std::string(repeated_header::bytes_max, 'y')}});
  for (const fields& all : {many, large}) {
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(request(all).read, all);
      EXPECT_FALSE(streams_.back().was_asked);
    }
  }
}

TEST_F(repeated_header_test, is_forgotten_with_the_memory_that_idle_connections_give_back) {
  const fields all = request_header();
  for (int i = 0; i < 4; ++i) request(all);
  const std::uint64_t number = tested_.header_number();
  tested_.give_back_memory();
  EXPECT_NE(tested_.header_number(), number);
  EXPECT_EQ(request(all).read, all);
  EXPECT_FALSE(streams_.back().was_asked);
}

TEST_F(repeated_header_test, counts_as_memory_until_it_is_forgotten) {
  const std::size_t before = tested_.header_bytes_kept();
  request(request_header());
  EXPECT_GE(tested_.header_bytes_kept(),
            before + stream_bytes + 7 * std::string("application/grpc").size());
  tested_.give_back_memory();
  EXPECT_EQ(tested_.header_bytes_kept(), before + stream_bytes);
}

class small_header_test : public repeated_header_test {
 protected:
  small_header_test() : repeated_header_test({.header_bytes_max = 200}) {}
};

TEST_F(small_header_test, one_that_is_too_large_is_so_each_time) {
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(request(request_header()).too_large) << i;
}

/// Through a gRPC port, which knows what its calls' headers mean.
class repeated_call : public testing::Test {
 protected:
  repeated_call() { peer_.begin(); }

  rpc::test::answer call(const fields& header, const std::string& name) {
    peer_.feed(encoder_.frame_of(next_, header, rpc::test::end_headers) +
               frame(rpc::test::data, rpc::test::end_stream, next_,
                     rpc::test::message(rpc::test::named(name))));
    return peer_.answer_to(std::exchange(next_, next_ + 2));
  }

  calls_harness peer_;
  encoder encoder_;
  std::uint32_t next_ = 1;
};

TEST_F(repeated_call, has_the_metadata_of_the_first) {
  for (int i = 0; i < 6; ++i) {
    const auto one =
        call(request_header("/test/Metadata", {{"key", "one"}, {"key", "two"}}), "key");
    EXPECT_EQ(one.body, rpc::test::message(rpc::test::named("one|two|"))) << i;
  }
  const auto other =
      call(request_header("/test/Metadata", {{"key", "one"}, {"key", "three"}}), "key");
  EXPECT_EQ(other.body, rpc::test::message(rpc::test::named("one|three|")));
  const auto none = call(request_header("/test/Metadata"), "key");
  EXPECT_EQ(none.body, rpc::test::message(""));
}

TEST_F(repeated_call, keeps_memory_for_its_metadata_each_time) {
  const fields header = request_header("/test/Wait", {{"key", std::string(800, 'x')}});
  call(header, "x");
  const std::size_t one = peer_.tested.session().header_bytes_kept();
  constexpr std::size_t calls = 20;
  for (std::size_t i = 1; i < calls; ++i) call(header, "x");
  EXPECT_GE(peer_.tested.session().header_bytes_kept(), one + (calls - 1) * (stream_bytes + 800));
}

TEST_F(repeated_call, is_recognised) {
  call(request_header(), "x");
  const std::uint64_t number = peer_.tested.session().header_number();
  for (int i = 0; i < 5; ++i) call(request_header(), "x");
  EXPECT_EQ(peer_.tested.session().header_number(), number);
  call(request_header("/test/None"), "x");
  EXPECT_NE(peer_.tested.session().header_number(), number);
}

TEST_F(repeated_call, has_its_own_time) {
  const fields header = request_header("/test/Wait", {{"grpc-timeout", "1S"}});
  for (int i = 0; i < 6; ++i) {
    const std::uint32_t stream = next_;
    call(header, "x");
    peer_.now += 900ms;
    peer_.look();
    EXPECT_EQ(peer_.answer_to(stream).field("grpc-status"), "(none)") << i;
    peer_.now += 101ms;
    peer_.look();
    EXPECT_EQ(peer_.answer_to(stream).field("grpc-status"), "4") << i;
  }
}

TEST_F(repeated_call, that_is_wrong_is_so_each_time) {
  const fields two_hosts = request_header(rpc::test::hello_path, {{"host", "b"}});
  const fields unknown = request_header("/test/None");
  fields not_grpc = request_header();
  not_grpc.back().second = "text/plain";
  for (int i = 0; i < 6; ++i) EXPECT_EQ(call(two_hosts, "x").status, "400") << i;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(call(unknown, "x").field("grpc-status"), "12") << i;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(call(not_grpc, "x").status, "415") << i;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(call(request_header(), "x").field("grpc-status"), "0") << i;
}

TEST_F(repeated_call, of_two_methods_in_turn_goes_to_each) {
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(call(request_header(), "x").body, rpc::test::message(rpc::test::named("Hello x")));
    EXPECT_EQ(call(request_header("/test/Refuse"), "y").field("grpc-status"), "5");
  }
}

}  // namespace
}  // namespace bwos::server::h2
