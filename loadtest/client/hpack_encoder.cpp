// SPDX-License-Identifier: Apache-2.0
#include "hpack_encoder.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "h2_frames.hpp"

namespace bwos::load::h2 {
namespace {

struct static_entry {
  std::string_view name;
  std::string_view value;
  unsigned index;
};

// Those of the static table that our requests use; an empty value stands for any other.
constexpr std::array<static_entry, 7> static_table{{{":method", "GET", 2},
                                                    {":method", "POST", 3},
                                                    {":scheme", "http", 6},
                                                    {":authority", "", 1},
                                                    {":path", "", 4},
                                                    {"content-length", "", 28},
                                                    {"content-type", "", 31}}};
constexpr std::size_t static_entries = 61;
constexpr std::uint32_t entry_overhead_bytes = 32;

void append_integer(std::string& out, unsigned pattern, unsigned prefix_bits, std::size_t value) {
  const std::size_t most = (1U << prefix_bits) - 1;
  if (value < most) {
    out += static_cast<char>(pattern | value);
    return;
  }
  out += static_cast<char>(pattern | most);
  for (value -= most; value >= 0x80; value >>= 7) out += static_cast<char>(0x80 | (value & 0x7f));
  out += static_cast<char>(value);
}

void append_string(std::string& out, std::string_view text) {
  append_integer(out, 0, 7, text.size());
  out += text;
}

}  // namespace

bool hpack_encoder::encode(const std::vector<header_field>& fields, std::string& out) {
  const bool changes_size = update_is_due_;
  const std::size_t inserted_before = inserted_.size();
  if (update_is_due_) out += '\x20';  // the table's size becomes 0
  update_is_due_ = false;
  for (const header_field& field : fields) {
    const auto known =
        std::find_if(static_table.begin(), static_table.end(), [&](const static_entry& each) {
          return each.name == field.name && (each.value.empty() || each.value == field.value);
        });
    const auto ours = std::find(inserted_.begin(), inserted_.end(), field);
    if (known != static_table.end() && !known->value.empty()) {
      append_integer(out, 0x80, 7, known->index);
    } else if (ours != inserted_.end()) {
      append_integer(out, 0x80, 7,
                     static_entries + static_cast<std::size_t>(inserted_.end() - ours));
    } else {
      const unsigned name_index = known == static_table.end() ? 0 : known->index;
      const bool kept = insert(field);
      append_integer(out, kept ? 0x40 : 0, kept ? 6 : 4, name_index);
      if (name_index == 0) append_string(out, field.name);
      append_string(out, field.value);
    }
  }
  return !changes_size && inserted_.size() == inserted_before;
}

bool hpack_encoder::insert(const header_field& field) {
  const auto bytes =
      static_cast<std::uint32_t>(field.name.size() + field.value.size()) + entry_overhead_bytes;
  if (!indexing_ || used_bytes_ + bytes > table_bytes) return false;
  used_bytes_ += bytes;
  inserted_.push_back(field);
  return true;
}

void hpack_encoder::limit_table(std::uint32_t bytes) {
  if (bytes >= table_bytes || !indexing_) return;
  indexing_ = false;
  update_is_due_ = true;
  inserted_.clear();
}

}  // namespace bwos::load::h2
