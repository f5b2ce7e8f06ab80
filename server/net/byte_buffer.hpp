// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace bwos::server {

/// Bytes on their way in or out. Unlike a string it can be grown first and written into after,
/// without clearing what is about to be overwritten.
class byte_buffer {
 public:
  byte_buffer() noexcept = default;
  explicit byte_buffer(std::size_t capacity) : data_(new char[capacity]), capacity_(capacity) {}
  byte_buffer(byte_buffer&& other) noexcept
      : data_(std::move(other.data_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  byte_buffer& operator=(byte_buffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }
  ~byte_buffer() = default;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] const char* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::string_view view() const noexcept { return {data_.get(), size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return std::as_bytes(std::span(data_.get(), size_));
  }

  /// Whether `text` lies in it.
  [[nodiscard]] bool has(std::string_view text) const noexcept {
    const std::less_equal<> order;  // also of what does not
    return order(data_.get(), text.data()) && order(text.data() + text.size(), data_.get() + size_);
  }

  /// What can be written without growing.
  [[nodiscard]] std::span<std::byte> room() noexcept {
    return std::as_writable_bytes(std::span(data_.get(), capacity_)).subspan(size_);
  }
  /// Room for `bytes` more; what is written there counts once advance() says how much it was.
  char* prepare(std::size_t bytes) {
    if (capacity_ - size_ < bytes) grow(bytes);
    return data_.get() + size_;
  }
  void advance(std::size_t bytes) noexcept { size_ += bytes; }

  void append(std::string_view text) {
    if (text.empty()) return;  // it may have no address
    std::memcpy(prepare(text.size()), text.data(), text.size());
    advance(text.size());
  }

  /// Empties it, and frees it if it has become larger than `kept`.
  void clear(std::size_t kept) noexcept {
    size_ = 0;
    if (capacity_ > kept) {
      data_.reset();
      capacity_ = 0;
    }
  }

 private:
  void grow(std::size_t bytes) {
    const std::size_t capacity = std::max({capacity_ * 2, size_ + bytes, std::size_t{4096}});
    std::unique_ptr<char[]> larger(new char[capacity]);
    if (size_ > 0) std::memcpy(larger.get(), data_.get(), size_);
    data_ = std::move(larger);
    capacity_ = capacity;
  }

  std::unique_ptr<char[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace bwos::server
