// SPDX-License-Identifier: Apache-2.0
#include "io/factory.hpp"

#include "io/epoll/epoll_reactor.hpp"
#include "io/uring/probe.hpp"

namespace bwos {
namespace {

/// A ring that posts completions only when its own thread asks keeps what is ready from everybody
/// else while that thread runs something long; one that posts them at any time costs 1.6 times the
/// CPU (both measured on a prototype).
reactor_choice choose_automatically() {
  const uring_support found = probe_uring();
  return {.kind = reactor_kind::epoll,
          .note =
              "epoll, whose readiness idle workers can share; a ring's completions reach its "
              "own worker only (io_uring here: " +
              (found.usable ? "usable, " : std::string("not usable, ")) + found.why + ")"};
}

reactor_choice choose_uring() {
  const uring_support found = probe_uring();
  if (found.usable)
    return {.kind = reactor_kind::io_uring, .note = "io_uring, as asked for (" + found.why + ")"};
  return {.kind = reactor_kind::epoll,
          .note = "epoll, because io_uring was asked for but is not usable: " + found.why,
          .refused = true};
}

}  // namespace

reactor_choice choose_reactor(reactor_kind wanted) {
  switch (wanted) {
    case reactor_kind::none:
      return {.kind = reactor_kind::none, .note = "no descriptors: workers park on futexes"};
    case reactor_kind::epoll:
      return {.kind = reactor_kind::epoll, .note = "epoll, as asked for"};
    case reactor_kind::io_uring:
      return choose_uring();
    case reactor_kind::automatic:
      break;
  }
  return choose_automatically();
}

std::unique_ptr<reactor> make_reactor(reactor_kind kind, bool shared, const options& settings) {
  std::unique_ptr<reactor> made = kind == reactor_kind::io_uring
                                      ? make_uring_reactor(settings)
                                      : std::make_unique<epoll_reactor>(shared);
  if (settings.queue_age_interval.count() > 0) made->age.start(settings.queue_age_interval);
  return made;
}

}  // namespace bwos
