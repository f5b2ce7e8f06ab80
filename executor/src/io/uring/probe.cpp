// SPDX-License-Identifier: Apache-2.0
#include "io/uring/probe.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "io/uring/buffer_ring.hpp"
#include "io/uring/ring.hpp"
#include "io/uring/uring_reactor.hpp"

namespace bwos {
namespace {

constexpr unsigned entries = 8;
constexpr unsigned buffers = 2;
constexpr std::size_t bytes = 64;

[[noreturn]] void refuse(int error, const char* call) {
  throw std::system_error(error, std::system_category(), call);
}

class socket_pair {
 public:
  socket_pair() {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()) != 0)
      refuse(errno, "socketpair");
  }
  ~socket_pair() {
    for (const int each : ends_) ::close(each);
  }
  socket_pair(const socket_pair&) = delete;
  socket_pair& operator=(const socket_pair&) = delete;
  [[nodiscard]] int operator[](std::size_t which) const noexcept { return ends_[which]; }

 private:
  std::array<int, 2> ends_{};
};

/// The two operations that the newest kernel is needed for: a multishot receive into a provided
/// buffer (Linux 6.0), and a multishot poll (5.13).
void try_operations(ring& made, const socket_pair& ends) {
  io_uring_sqe* const receive = made.next_entry();
  ::io_uring_prep_recv_multishot(receive, ends[0], nullptr, 0, 0);
  receive->ioprio |= IORING_RECVSEND_POLL_FIRST;
  receive->flags |= IOSQE_BUFFER_SELECT;
  receive->buf_group = buffer_ring::group;
  ::io_uring_sqe_set_data64(receive, 1);
  io_uring_sqe* const poll = made.next_entry();
  ::io_uring_prep_poll_multishot(poll, ends[1], POLLOUT);
  ::io_uring_sqe_set_data64(poll, 2);
  unsigned seen = 0;
  int error = 0;
  for (int turn = 0; turn < 4 && seen != 3 && error == 0; ++turn) {  // both are ready: one would do
    made.wait();
    made.reap([&](const io_uring_cqe& done) {
      if (done.res < 0) error = -done.res;
      seen |= static_cast<unsigned>(done.user_data);
    });
  }
  if (error != 0) refuse(error, "io_uring_enter");
  if (seen != 3) refuse(ETIME, "io_uring_enter");
}

uring_support try_ring() {
  try {
    const socket_pair ends;
    if (::send(ends[1], "!", 1, MSG_NOSIGNAL) != 1) refuse(errno, "send");
    buffer_ring memory(buffers, bytes);
    ring made(entries);
    memory.offer_to(made.raw());
    if (const int result = made.enable(); result != 0) refuse(-result, "io_uring_register");
    try_operations(made, ends);
    return {.usable = true, .why = made.mode()};
  } catch (const std::system_error& refusal) {
    const int error = refusal.code().value();
    const char* const name = ::strerrorname_np(error);
    return {.usable = false,
            .why = std::string(refusal.what()) + " (" + (name == nullptr ? "errno" : name) + " " +
                   std::to_string(error) + ")"};
  }
}

}  // namespace

uring_support probe_uring() {
  uring_support found;
  std::thread([&] { found = try_ring(); }).join();  // the caller uses no ring: see ring.cpp
  return found;
}

std::unique_ptr<reactor> make_uring_reactor(const options& settings) {
  return std::make_unique<uring_reactor>(settings);
}

}  // namespace bwos
