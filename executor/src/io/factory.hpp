// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/options.hpp>
#include <bwos/statistics.hpp>
#include <memory>

#include "io/reactor.hpp"

namespace bwos {

/// Probes the kernel where io_uring is asked for or passed over.
reactor_choice choose_reactor(reactor_kind wanted);

/// `kind` is a choice's. `shared`: for a group of workers. Throws std::system_error.
std::unique_ptr<reactor> make_reactor(reactor_kind kind, bool shared, const options& settings);

}  // namespace bwos
