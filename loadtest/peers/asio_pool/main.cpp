// SPDX-License-Identifier: Apache-2.0
// The same endpoints on Asio's own sockets and an asio::thread_pool: one thread runs the
// io_context, accepts and reads; what a read brought is posted to the pool, which parses, answers
// with a plain write and asks for the next read. That is one hand-off each way: an asynchronous
// write would go through the io_context once more. A connection has one operation in flight at a
// time, so it needs no strand, and one piece of memory serves all its handlers.
#include <array>
#include <asio/bind_allocator.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/thread_pool.hpp>
#include <asio/write.hpp>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "common/asio_listen.hpp"
#include "common/http.hpp"
#include "common/options.hpp"

namespace bwos::peer {
namespace {

using asio::ip::tcp;

// Memory of the one handler that waits. Asio's own cache belongs to threads: what the pool
// allocates and the io_context's thread frees would never come back.
struct handler_memory {
  alignas(std::max_align_t) std::array<std::byte, 512> bytes;
};

template <class Type>
struct recycling {
  using value_type = Type;

  explicit recycling(handler_memory& of) : from(&of) {}
  template <class Other>
  recycling(const recycling<Other>& other) : from(other.from) {}

  Type* allocate(std::size_t count) {
    static_assert(sizeof(Type) <= sizeof(handler_memory::bytes));
    if (count != 1) throw std::bad_alloc();
    return reinterpret_cast<Type*>(from->bytes.data());
  }
  void deallocate(Type* /*memory*/, std::size_t /*count*/) {}
  friend bool operator==(const recycling& a, const recycling& b) { return a.from == b.from; }

  handler_memory* from;
};

struct connection;
// Travels with the handlers: who holds it serves the connection, and letting go closes it.
using owner = std::unique_ptr<connection>;

struct connection {
  connection(tcp::socket accepted, asio::thread_pool& runs, bool with_date)
      : socket(std::move(accepted)), pool(runs), date(with_date) {}

  template <class Function>
  auto recycled(Function function) {
    return asio::bind_allocator(recycling<void>(memory), std::move(function));
  }

  tcp::socket socket;
  asio::thread_pool& pool;
  bool date;
  handler_memory memory;
  std::array<char, receive_bytes> received;
  std::string input;  // the front of an incomplete request; empty between requests
  std::string output;
};

void answer(owner self, std::size_t got);

void read(owner self) {
  connection& its = *self;
  its.socket.async_read_some(
      asio::buffer(its.received),
      its.recycled([self = std::move(self)](asio::error_code error, std::size_t got) mutable {
        if (error) return;
        connection& of = *self;
        asio::post(of.pool, of.recycled([self = std::move(self), got]() mutable {
          answer(std::move(self), got);
        }));
      }));
}

// On a thread of the pool.
void answer(owner self, std::size_t got) {
  thread_local answers of_this_thread(self->date);
  connection& its = *self;
  std::string_view bytes(its.received.data(), got);
  if (!its.input.empty()) {
    its.input += bytes;
    bytes = its.input;
  }
  its.output.clear();
  bool malformed = false;
  const std::size_t done = answer_all(bytes, of_this_thread, its.output, malformed);
  if (malformed) return;
  if (its.input.empty()) {
    its.input.assign(bytes.substr(done));
  } else {
    its.input.erase(0, done);
  }
  asio::error_code error;
  std::size_t sent = 0;
  if (!its.output.empty()) sent = its.socket.write_some(asio::buffer(its.output), error);
  if (error && error != asio::error::would_block) return;
  if (sent == its.output.size()) return read(std::move(self));
  asio::async_write(
      its.socket, asio::buffer(its.output) + sent,
      its.recycled([self = std::move(self)](asio::error_code failed, std::size_t) mutable {
        if (!failed) read(std::move(self));
      }));
}

// Drains the backlog at each wake-up: the plain accept ends with would_block.
void accept_all(tcp::acceptor& acceptor, asio::thread_pool& pool, bool date) {
  acceptor.async_wait(tcp::acceptor::wait_read, [&, date](asio::error_code failed) {
    asio::error_code ignored;  // of a peer that is gone: the read will say so
    while (!failed) {
      tcp::socket socket = acceptor.accept(failed);
      if (failed) break;
      static_cast<void>(socket.non_blocking(true, ignored));
      static_cast<void>(socket.set_option(tcp::no_delay(true), ignored));
      read(std::make_unique<connection>(std::move(socket), pool, date));
    }
    // Out of descriptors, say: a figure would mean nothing.
    if (failed != asio::error::would_block) throw asio::system_error(failed);
    accept_all(acceptor, pool, date);
  });
}

void serve(options with) {
  raise_descriptor_limit();
  if (with.pin >= 0) pin_to(with.pin, with.threads);  // the io_context's thread is one more
  asio::io_context context(1);  // one thread runs it; the pool tells itself how many it has
  asio::thread_pool pool(static_cast<std::size_t>(with.threads));
  tcp::acceptor acceptor = listen_on(context, with);
  acceptor.non_blocking(true);
  accept_all(acceptor, pool, with.date);
  print_ready(with);
  context.run();
}

}  // namespace
}  // namespace bwos::peer

int main(int argc, char** argv) {
  bwos::peer::serve(bwos::peer::parse_options(argc, argv));
}
