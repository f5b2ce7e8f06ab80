// SPDX-License-Identifier: Apache-2.0
// Recognises a request's header that is, field by field, the one before.
//
// A client says the same of most of its requests, and HPACK (RFC 7541) says it by the indices of
// fields that both sides keep. nghttp2 gives the texts of one entry of its tables by one address
// each time. While somebody holds such a text, its address is no other's: equal addresses are equal
// texts, and nothing has to be compared, or read, anew.
//
// One thread at a time. Test: repeated_header_test.cpp
#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace bwos::server::h2 {

class repeated_header {
 public:
  /// One field. Its texts are shared with nghttp2's tables.
  struct texts {
    nghttp2_rcbuf* name;
    nghttp2_rcbuf* value;
    bool operator==(const texts&) const = default;
  };

  /// A header of more fields, or of more bytes of text, is not kept.
  static constexpr std::size_t fields_max = 12;
  static constexpr std::size_t bytes_max = 1024;

  repeated_header() noexcept = default;
  repeated_header(const repeated_header&) = delete;
  repeated_header& operator=(const repeated_header&) = delete;
  ~repeated_header() { forget(); }

  /// A request's header begins, each of whose fields comes to is_next(), and if that says no, to
  /// differ() and note(); then finish().
  void begin() noexcept {
    if (!is_kept_) forget();
    at_ = 0;
    state_ = is_kept_ ? state::repeats : state::differs;
  }
  /// What begins is no request's header, or nobody reads it: the kept one stays.
  void pass_over() noexcept { state_ = state::passed; }

  /// True: so far it is the kept header, of which this is the next field.
  bool is_next(texts field) noexcept {
    if (state_ != state::repeats || at_ == count_ || fields_[at_] != field) return false;
    ++at_;
    return true;
  }

  /// It is another header: the fields that came before, which were the kept one's, too. None, if
  /// that is known already.
  std::span<const texts> differ() noexcept {
    if (state_ != state::repeats) return {};
    drop_from(at_);
    is_kept_ = false;
    ++number_;
    state_ = state::differs;
    return fields();
  }
  /// A field of a header that differs from the kept one.
  void note(texts field) noexcept {
    if (state_ != state::differs) return;
    const std::size_t bytes = bytes_of(field);
    if (count_ == fields_max || bytes_ + bytes > bytes_max) return pass_over();
    nghttp2_rcbuf_incref(field.name);
    nghttp2_rcbuf_incref(field.value);
    fields_[count_++] = field;
    bytes_ += bytes;
  }

  /// The header has ended. True: it was the kept one. Another one is kept from now on, if it is
  /// short enough.
  bool finish() noexcept {
    const bool repeats = state_ == state::repeats;
    is_kept_ = is_kept_ || state_ == state::differs;
    pass_over();
    return repeats;
  }
  /// Of the kept header; all that came, while one differs.
  [[nodiscard]] std::span<const texts> fields() const noexcept {
    return std::span(fields_).first(count_);
  }
  /// Whether some fields of the kept header have not come, and differ() is due.
  [[nodiscard]] bool is_cut_short() const noexcept {
    return state_ == state::repeats && at_ != count_;
  }
  /// Of the kept header: each has another one.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// Memory that the texts may take: nghttp2 allocates twice what it has read, and of Huffman's
  /// code (RFC 7541, appendix B) that is up to three and a half times the text.
  [[nodiscard]] std::size_t memory_bytes() const noexcept { return 7 * bytes_; }

  /// Not within a header, whose beginning would be lost.
  void forget() noexcept {
    drop_from(0);
    is_kept_ = false;
    ++number_;
    pass_over();
  }

 private:
  enum class state : std::uint8_t {
    passed,   // nothing comes that is looked at
    repeats,  // the kept header, as far as it has come
    differs,  // another one, of which all fields so far are noted
  };

  static std::size_t bytes_of(texts field) noexcept {
    return nghttp2_rcbuf_get_buf(field.name).len + nghttp2_rcbuf_get_buf(field.value).len;
  }

  void drop_from(std::size_t first) noexcept {
    for (; count_ > first; --count_) {
      const texts& last = fields_[count_ - 1];
      bytes_ -= bytes_of(last);
      nghttp2_rcbuf_decref(last.name);
      nghttp2_rcbuf_decref(last.value);
    }
  }

  std::array<texts, fields_max> fields_;  // the first count_
  std::size_t count_ = 0;
  std::size_t at_ = 0;     // the next that is expected, if it repeats
  std::size_t bytes_ = 0;  // of the texts
  std::uint64_t number_ = 0;
  bool is_kept_ = false;  // they are a whole header
  state state_ = state::passed;
};

}  // namespace bwos::server::h2
