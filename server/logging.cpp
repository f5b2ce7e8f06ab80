// SPDX-License-Identifier: Apache-2.0
#include "logging.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

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
      std::make_shared<spdlog::logger>("bwos", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  spdlog::set_formatter(make_formatter(format));
  spdlog::set_level(spdlog::level::from_str(level));
}

}  // namespace bwos::server
