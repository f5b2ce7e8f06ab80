// SPDX-License-Identifier: Apache-2.0
// The floor: a bare epoll loop, a naive parser and canned answers. What it costs is the kernel's
// share of serving a request, which no server on epoll can avoid. Each thread has a listener (the
// kernel spreads connections by SO_REUSEPORT) and an edge-triggered set of its own; a connection is
// read until EAGAIN, and what one read brought is answered with one write.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/http.hpp"
#include "common/options.hpp"

namespace bwos::peer {
namespace {

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

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
    watch(EPOLL_CTL_ADD, listener_, EPOLLIN, nullptr);
  }

  [[noreturn]] void run() {
    std::array<epoll_event, 256> events;
    for (;;) {
      const int ready = ::epoll_wait(set_, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < ready; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        if (event.data.ptr == nullptr) {
          accept_all();
        } else {
          serve(*static_cast<connection*>(event.data.ptr));
        }
      }
    }
  }

 private:
  void watch(int operation, int fd, std::uint32_t events, connection* whose) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = whose;
    if (::epoll_ctl(set_, operation, fd, &event) != 0) fail("epoll_ctl");
  }

  void accept_all() {
    for (;;) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        const int on = 1;
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        watch(EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, new connection{fd});
      } else if (errno == EAGAIN) {
        return;
      } else if (errno != ECONNABORTED && errno != EINTR) {
        fail("accept4");  // out of descriptors: a figure taken here would mean nothing
      }
    }
  }

  // Runs until the socket has nothing more to read or takes no more.
  void serve(connection& from) {
    if (!from.output.empty()) {
      if (!flush(from)) return;
      watch(EPOLL_CTL_MOD, from.fd, EPOLLIN | EPOLLET, &from);
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
    watch(EPOLL_CTL_MOD, to.fd, EPOLLOUT | EPOLLET, &to);
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
  std::array<char, receive_bytes> received_;
};

// A listener on `port`, which becomes the chosen one where it was 0.
int listen_on(std::uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("bind");
  if (::listen(fd, SOMAXCONN) != 0) fail("listen");
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  port = ntohs(address.sin_port);
  return fd;
}

void serve(options with) {
  raise_descriptor_limit();
  std::vector<int> listeners;
  for (int i = 0; i < with.threads; ++i) listeners.push_back(listen_on(with.port));
  const auto run = [&](int index) {
    pin_this_thread(with, index);
    loop(listeners[static_cast<std::size_t>(index)], with.date).run();
  };
  std::vector<std::thread> others;
  for (int i = 1; i < with.threads; ++i) others.emplace_back(run, i);
  print_ready(with.port);
  run(0);
}

}  // namespace
}  // namespace bwos::peer

int main(int argc, char** argv) {
  bwos::peer::serve(bwos::peer::parse_options(argc, argv));
}
