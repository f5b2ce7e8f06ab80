// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "app/config.hpp"
#include "net/runtime.hpp"

namespace bwos::server {

/// What --executor chooses. Starts the threads. Throws std::system_error.
[[nodiscard]] std::unique_ptr<runtime> make_runtime(const config& settings);

/// "bwos", as the flag has it.
[[nodiscard]] std::string_view name_of(executor_kind kind) noexcept;

}  // namespace bwos::server
