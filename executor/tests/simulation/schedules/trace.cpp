// SPDX-License-Identifier: Apache-2.0
#include "trace.hpp"

#include <iomanip>
#include <ostream>
#include <string_view>

#include "thread.hpp"

namespace bwos::simulation {

void trace::add(const entry& step) {
  if (entries_.size() < kept_) {
    entries_.push_back(step);
  } else {
    entries_[next_] = step;
  }
  next_ = (next_ + 1) % kept_;
}

void trace::note_value(std::uint64_t value) noexcept {
  if (entries_.empty()) return;
  entry& latest = entries_[(next_ + entries_.size() - 1) % entries_.size()];
  latest.value = value;
  latest.has_value = true;
}

void trace::print(std::ostream& to) const {
  const std::size_t oldest = entries_.size() < kept_ ? 0 : next_;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const entry& each = entries_[(oldest + i) % entries_.size()];
    to << std::setw(12) << each.when / microsecond << '.' << std::setw(3) << std::setfill('0')
       << each.when % microsecond << std::setfill(' ') << " us  " << std::left << std::setw(10)
       << (each.who == nullptr ? "kernel" : each.who->name.c_str()) << std::right << ' '
       << each.what;
    if (each.has_value) to << " = 0x" << std::hex << each.value << std::dec;
    to << "   " << place_of(each.at) << '\n';
  }
}

std::string place_of(const std::source_location& at) {
  std::string_view file = at.file_name();
  for (const std::string_view root : {"/executor/src/", "/tests/simulation/"}) {
    const std::size_t found = file.rfind(root);
    if (found != std::string_view::npos) file.remove_prefix(found + root.size());
  }
  std::string_view function = at.function_name();
  function = function.substr(0, function.find('('));
  for (const std::string_view before : {" ", "::"}) {
    const std::size_t found = function.rfind(before);
    if (found != std::string_view::npos) function.remove_prefix(found + before.size());
  }
  return std::string(file) + ':' + std::to_string(at.line()) + ' ' + std::string(function);
}

}  // namespace bwos::simulation
