// SPDX-License-Identifier: Apache-2.0
// The calls in flight on a connection, by their streams: open addressing, so that one call that
// takes long costs no memory beside many that do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace bwos::load::h2 {

// `Call` has a default constructor and a member `stream`, whose 0 says that its place is free.
template <class Call>
class stream_table {
 public:
  std::size_t size() const noexcept { return size_; }

  // Until the next insert or erase.
  Call* find(std::uint32_t stream) noexcept {
    for (std::size_t at = home(stream);; at = next(at)) {
      if (places_[at].stream == stream) return &places_[at];
      if (places_[at].stream == 0) return nullptr;
    }
  }

  // `stream` is new. Until the next insert or erase.
  Call& insert(std::uint32_t stream) {
    if (2 * ++size_ > places_.size()) grow();
    Call& made = free_place(stream);
    made = Call{};
    made.stream = stream;
    return made;
  }

  void erase(Call& which) noexcept {
    --size_;
    auto hole = static_cast<std::size_t>(&which - places_.data());
    // Moves up what would not be found behind the hole. Ends: half of the places are free.
    for (std::size_t at = next(hole); places_[at].stream != 0; at = next(at)) {
      const std::size_t from_home = (at - home(places_[at].stream)) & (places_.size() - 1);
      const std::size_t from_hole = (at - hole) & (places_.size() - 1);
      if (from_home < from_hole) continue;
      places_[hole] = std::move(places_[at]);
      hole = at;
    }
    places_[hole].stream = 0;
  }

  template <class Function>
  void for_each(Function&& function) const {
    for (const Call& each : places_) {
      if (each.stream != 0) function(each);
    }
  }
  template <class Function>
  void for_each(Function&& function) {
    for (Call& each : places_) {
      if (each.stream != 0) function(each);
    }
  }

  void clear() noexcept {
    for (Call& each : places_) each.stream = 0;
    size_ = 0;
  }

 private:
  // A client's streams are odd and ascend, so neighbours get neighbouring places.
  std::size_t home(std::uint32_t stream) const noexcept {
    return (stream >> 1) & (places_.size() - 1);
  }
  std::size_t next(std::size_t at) const noexcept { return (at + 1) & (places_.size() - 1); }

  Call& free_place(std::uint32_t stream) noexcept {
    std::size_t at = home(stream);
    while (places_[at].stream != 0) at = next(at);
    return places_[at];
  }

  void grow() {
    std::vector<Call> before(places_.size() * 2);
    before.swap(places_);
    for (Call& each : before) {
      if (each.stream != 0) free_place(each.stream) = std::move(each);
    }
  }

  std::vector<Call> places_ = std::vector<Call>(16);  // a power of two, at most half of them taken
  std::size_t size_ = 0;
};

}  // namespace bwos::load::h2
