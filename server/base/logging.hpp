// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/formatter.h>

#include <cstdint>
#include <memory>
#include <string>

namespace bwos::server {

enum class log_format : std::uint8_t { text, json };

/// text: "[date time] [bwos] [level] message". json: an object a line, its time in RFC 3339, UTC.
std::unique_ptr<spdlog::formatter> make_formatter(log_format format);

/// What the process logs from now on goes to stderr, from `level` on; what stderr has no room for
/// is dropped and counted there.
void log_to_stderr(const std::string& level, log_format format);

}  // namespace bwos::server
