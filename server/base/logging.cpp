// SPDX-License-Identifier: Apache-2.0
#include "base/logging.hpp"

#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace bwos::server {
namespace {

void append_escaped(spdlog::memory_buf_t& to, char c) {
  constexpr std::string_view hex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (c == '"' || c == '\\') {
    to.push_back('\\');
    to.push_back(c);
  } else if (byte < 0x20) {
    constexpr std::string_view begin = "\\u00";
    to.append(begin.data(), begin.data() + begin.size());
    to.push_back(hex[byte / 16]);
    to.push_back(hex[byte % 16]);
  } else {
    to.push_back(c);
  }
}

/// The message as the inside of a JSON string. What we log is UTF-8 already.
class escaped_message : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& to) override {
    for (const char c : message.payload) append_escaped(to, c);
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<escaped_message>();
  }
};

/// A line that the descriptor has no room for is dropped, and the next one that it takes comes
/// behind their number: nobody waits for whoever does not read the log, a drain least of all. The
/// room is asked for, as O_NONBLOCK would be set for everybody who has the same file open. A pipe
/// that has room takes PIPE_BUF bytes at once, unless somebody else has filled it in between.
class dropping_sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit dropping_sink(int fd) noexcept : fd_(fd) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (dropped_ != 0) {
      const std::string note = std::to_string(dropped_) + " lines of the log dropped: nobody read";
      if (write_line({message.time, {}, message.logger_name, spdlog::level::warn, note}))
        dropped_ = 0;
    }
    if (dropped_ != 0 || !write_line(message)) ++dropped_;
  }
  void flush_() override {}

  /// A long line may be cut off in its middle.
  bool write_line(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    for (std::size_t written = 0; written < line.size();) {  // ends: each step writes or leaves
      pollfd room{.fd = fd_, .events = POLLOUT, .revents = 0};
      if (::poll(&room, 1, 0) != 1) return false;
      const ssize_t taken = ::write(fd_, line.data() + written,
                                    std::min<std::size_t>(line.size() - written, PIPE_BUF));
      if (taken <= 0) return false;
      written += static_cast<std::size_t>(taken);
    }
    return true;
  }

  const int fd_;
  std::uint64_t dropped_ = 0;
};

}  // namespace

std::unique_ptr<spdlog::formatter> make_formatter(log_format format) {
  if (format == log_format::text) return std::make_unique<spdlog::pattern_formatter>();
  auto json = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  json->add_flag<escaped_message>('*');
  json->set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":"%*"})");
  return json;
}

void log_to_stderr(const std::string& level, log_format format) {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("bwos", std::make_shared<dropping_sink>(STDERR_FILENO)));
  spdlog::set_formatter(make_formatter(format));
  spdlog::set_level(spdlog::level::from_str(level));
}

}  // namespace bwos::server
