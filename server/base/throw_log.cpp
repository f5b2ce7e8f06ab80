// SPDX-License-Identifier: Apache-2.0
#include "base/throw_log.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>

namespace bwos::server {
namespace {

/// On one line, and UTF-8 as all that we log.
std::string printable(std::string_view what) {
  std::string text(what.substr(0, throw_log::what_bytes_max));
  std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

void log_line(std::string_view handler, std::string_view what) noexcept {
  static throw_log lines;
  try {
    const auto line = lines.note(handler, what, throw_log::clock::now());
    if (line) spdlog::error("{}", *line);
  } catch (...) {
    return;  // there is no memory for a line
  }
}

}  // namespace

std::optional<std::string> throw_log::note(std::string_view handler, std::string_view what,
                                           clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (last_ && now - *last_ < apart) {
    ++passed_over_;
    return std::nullopt;
  }
  std::string line = "the handler of " + std::string(handler) + " threw: " + printable(what);
  if (passed_over_ > 0) {
    line += " (" + std::to_string(passed_over_) + " more had thrown since the line before)";
  }
  last_ = now;
  passed_over_ = 0;
  return line;
}

void log_thrown(std::string_view handler) noexcept {
  try {
    throw;
  } catch (const std::exception& thrown) {
    log_line(handler, thrown.what());
  } catch (...) {
    log_line(handler, "no std::exception");
  }
}

}  // namespace bwos::server
