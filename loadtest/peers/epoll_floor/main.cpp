// SPDX-License-Identifier: Apache-2.0
// The floor: a bare epoll loop, a naive parser and canned answers. What it costs is the kernel's
// share of serving a request, which no server on epoll can avoid. Each thread has a listener (the
// kernel spreads connections by SO_REUSEPORT) and an edge-triggered set of its own; a connection is
// read until EAGAIN, and what one read brought is answered with one write.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/http.hpp"
#include "common/options.hpp"
#include "common/socket.hpp"

namespace bwos::peer {
namespace {

struct connection {
  int fd;
  std::string input = {};   // the front of an incomplete request; empty between requests
  std::string output = {};  // what the socket did not take; while it is not empty nothing is read
};

class loop {
 public:
  loop(int listener, bool date) : listener_(listener), answers_(date) {
    set_ = ::epoll_create1(EPOLL_CLOEXEC);
    if (set_ < 0) fail("epoll_create1");
    watch(set_, EPOLL_CTL_ADD, listener_, EPOLLIN, nullptr);
  }

  [[noreturn]] void run() {
    std::array<epoll_event, 256> events;
    for (;;) {
      const int ready = ::epoll_wait(set_, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < ready; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        if (event.data.ptr == nullptr) {
          accept_all(listener_, [&](int fd) {
            watch(set_, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, new connection{fd});
          });
        } else {
          serve(*static_cast<connection*>(event.data.ptr));
        }
      }
    }
  }

 private:
  // Runs until the socket has nothing more to read or takes no more.
  void serve(connection& from) {
    if (!from.output.empty()) {
      if (!flush(from)) return;
      watch(set_, EPOLL_CTL_MOD, from.fd, EPOLLIN | EPOLLET, &from);
    }
    for (;;) {
      const ssize_t got = ::recv(from.fd, received_.data(), received_.size(), 0);
      if (got > 0) {
        if (!answer(from, {received_.data(), static_cast<std::size_t>(got)})) return;
      } else if (got < 0 && errno == EAGAIN) {
        return;
      } else if (got == 0 || errno != EINTR) {
        return close(from);
      }
    }
  }

  // False when the connection is closed or waits to write.
  bool answer(connection& from, std::string_view bytes) {
    if (!from.input.empty()) {
      from.input += bytes;
      bytes = from.input;
    }
    out_.clear();
    bool malformed = false;
    const std::size_t done = answer_all(bytes, answers_, out_, malformed);
    if (malformed) {
      close(from);
      return false;
    }
    if (from.input.empty()) {
      from.input.assign(bytes.substr(done));
    } else {
      from.input.erase(0, done);
    }
    return out_.empty() || write(from);
  }

  bool write(connection& to) {
    const ssize_t sent = ::send(to.fd, out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(out_.size())) return true;
    if (sent < 0 && errno != EAGAIN) {
      close(to);
      return false;
    }
    to.output.assign(out_, sent < 0 ? 0 : static_cast<std::size_t>(sent));
    watch(set_, EPOLL_CTL_MOD, to.fd, EPOLLOUT | EPOLLET, &to);
    return false;
  }

  // True when everything that waited is out.
  bool flush(connection& to) {
    while (!to.output.empty()) {
      const ssize_t sent = ::send(to.fd, to.output.data(), to.output.size(), MSG_NOSIGNAL);
      if (sent < 0) {
        if (errno != EAGAIN) close(to);
        return false;
      }
      to.output.erase(0, static_cast<std::size_t>(sent));
    }
    return true;
  }

  // A set reports a descriptor at most once per wait, so no later event names this connection.
  void close(connection& which) {
    ::close(which.fd);
    delete &which;
  }

  int listener_;
  int set_ = -1;
  answers answers_;
  std::string out_;
  std::array<char, 128 * 1024> received_;  // one for all connections: as much as pays
};

void serve(options with) {
  raise_descriptor_limit();
  std::vector<int> listeners;
  for (int i = 0; i < with.threads; ++i) listeners.push_back(listen_on(with));
  const auto run = [&](int index) {
    pin_this_thread(with, index);
    loop(listeners[static_cast<std::size_t>(index)], with.date).run();
  };
  std::vector<std::thread> others;
  for (int i = 1; i < with.threads; ++i) others.emplace_back(run, i);
  print_ready(with);
  run(0);
}

}  // namespace
}  // namespace bwos::peer

int main(int argc, char** argv) {
  bwos::peer::serve(bwos::peer::parse_options(argc, argv));
}
