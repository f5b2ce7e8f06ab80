// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/options.hpp>
#include <memory>
#include <string>

#include "reactor/reactor.hpp"

namespace bwos {

/// The kind of reactor that a pool gets, and why: what the server logs once.
struct reactor_choice {
  reactor_kind kind = reactor_kind::none;
  std::string note;
  bool refused = false;  ///< io_uring was asked for and the kernel refuses it.
};

/// Probes the kernel where io_uring is asked for or passed over.
reactor_choice choose_reactor(reactor_kind wanted);

/// `kind` is a choice's. `shared`: for a group of workers. Throws std::system_error.
std::unique_ptr<reactor> make_reactor(reactor_kind kind, bool shared, const options& settings);

}  // namespace bwos
