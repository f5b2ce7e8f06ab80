// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "options.hpp"
#include "outcome.hpp"

namespace bwos::load {

std::string as_table(const options& with, const outcome& result);
std::string as_json(const options& with, const outcome& result);

}  // namespace bwos::load
