// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/options.hpp>
#include <memory>
#include <string>

#include "io/reactor.hpp"

namespace bwos {

/// What this build and this kernel make of io_uring. Two sources implement it: probe.cpp with
/// liburing, probe_without_liburing.cpp.
struct uring_support {
  bool usable = false;
  std::string why;  ///< How its completions come, or what refuses it: names the call and the errno.
};

/// Makes a small ring as the reactor does, and receives a byte through it.
uring_support probe_uring();

/// Only where probe_uring() says usable. Throws std::system_error.
std::unique_ptr<reactor> make_uring_reactor(const options& settings);

}  // namespace bwos
