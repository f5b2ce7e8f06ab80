// SPDX-License-Identifier: Apache-2.0
// Header blocks of one connection (RFC 7541): what was sent once is an index from then on, as every
// HTTP/2 client sends it. No Huffman codes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bwos::load::h2 {

struct header_field {
  std::string name;
  std::string value;
  bool operator==(const header_field&) const = default;
};

class hpack_encoder {
 public:
  // Appends the block. True when the same bytes will mean the same as long as true is returned;
  // after a false one, blocks that were kept are out of date.
  bool encode(const std::vector<header_field>& fields, std::string& out);

  // The peer's SETTINGS_HEADER_TABLE_SIZE. Below the default nothing is indexed any more.
  void limit_table(std::uint32_t bytes);

 private:
  bool insert(const header_field& field);

  std::vector<header_field> inserted_;  // oldest first; never more than the default table holds
  std::uint32_t used_bytes_ = 0;
  bool indexing_ = true;
  bool update_is_due_ = false;
};

}  // namespace bwos::load::h2
