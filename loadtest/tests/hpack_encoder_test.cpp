// SPDX-License-Identifier: Apache-2.0
// What the encoder writes, read by nghttp2's inflater.
#include "hpack_encoder.hpp"

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <string>
#include <vector>

namespace {

using bwos::load::h2::header_field;
using bwos::load::h2::hpack_encoder;
using fields = std::vector<header_field>;

class decoder {
 public:
  decoder() { ::nghttp2_hd_inflate_new(&inflater_); }
  decoder(const decoder&) = delete;
  decoder& operator=(const decoder&) = delete;
  ~decoder() { ::nghttp2_hd_inflate_del(inflater_); }

  void limit_table(std::size_t bytes) {
    EXPECT_EQ(::nghttp2_hd_inflate_change_table_size(inflater_, bytes), 0);
  }

  fields decode(const std::string& block) {
    fields found;
    const auto* from = reinterpret_cast<const std::uint8_t*>(block.data());
    std::size_t left = block.size();
    for (;;) {
      nghttp2_nv field{};
      int flags = 0;
      const ssize_t taken = ::nghttp2_hd_inflate_hd2(inflater_, &field, &flags, from, left, 1);
      if (taken < 0) {
        ADD_FAILURE() << ::nghttp2_strerror(static_cast<int>(taken));
        return found;
      }
      from += taken;
      left -= static_cast<std::size_t>(taken);
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
        found.push_back({std::string(field.name, field.name + field.namelen),
                         std::string(field.value, field.value + field.valuelen)});
      }
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    }
    ::nghttp2_hd_inflate_end_headers(inflater_);
    return found;
  }

 private:
  nghttp2_hd_inflater* inflater_ = nullptr;
};

const fields hello = {{":method", "POST"},
                      {":scheme", "http"},
                      {":path", "/helloworld.Greeter/SayHello"},
                      {":authority", "localhost:81"},
                      {"content-type", "application/grpc"},
                      {"te", "trailers"}};
const fields burn = {{":method", "POST"},
                     {":scheme", "http"},
                     {":path", "/bwos.Work/Burn"},
                     {":authority", "localhost:81"},
                     {"content-type", "application/grpc"},
                     {"te", "trailers"},
                     {"x", std::string(300, 'y')}};

TEST(hpack_encoder, blocks_mean_what_was_encoded_and_shrink_to_indices) {
  hpack_encoder encoder;
  decoder peer;
  // Whether the block may be kept: not while it adds to the table.
  const std::vector<std::pair<const fields*, bool>> steps = {
      {&hello, false}, {&hello, true}, {&burn, false}, {&hello, true}, {&burn, true}};
  for (const auto& [which, stays] : steps) {
    std::string block;
    EXPECT_EQ(encoder.encode(*which, block), stays);
    EXPECT_EQ(peer.decode(block), *which);
    EXPECT_EQ(peer.decode(stays ? block : std::string()), stays ? *which : fields());
    if (stays) {
      EXPECT_EQ(block.size(), which->size());
    }
  }
}

TEST(hpack_encoder, a_table_that_the_peer_makes_smaller_is_not_used) {
  hpack_encoder encoder;
  decoder peer;
  std::string block;
  encoder.encode(hello, block);
  EXPECT_EQ(peer.decode(block), hello);
  encoder.limit_table(100);
  peer.limit_table(100);
  block.clear();
  EXPECT_FALSE(encoder.encode(hello, block));  // it tells the new size, once
  EXPECT_EQ(peer.decode(block), hello);
  block.clear();
  EXPECT_TRUE(encoder.encode(hello, block));
  EXPECT_EQ(peer.decode(block), hello);
  EXPECT_EQ(peer.decode(block), hello);
}

TEST(hpack_encoder, what_does_not_fit_into_the_table_is_sent_each_time) {
  hpack_encoder encoder;
  decoder peer;
  for (int i = 0; i < 100; ++i) {
    const fields one = {{":method", "GET"},
                        {":path", "/" + std::string(90, 'p') + std::to_string(i)}};
    std::string block;
    encoder.encode(one, block);
    EXPECT_EQ(peer.decode(block), one);
  }
  std::string block;
  const fields late = {{":path", std::string(200, '/')}};
  EXPECT_TRUE(encoder.encode(late, block));
  EXPECT_EQ(peer.decode(block), late);
  EXPECT_EQ(peer.decode(block), late);
}

}  // namespace
