// SPDX-License-Identifier: Apache-2.0
// The same endpoints as an Asio user writes them: one coroutine per connection on one io_context
// that all threads run. A connection has one operation in flight at a time, so it needs no strand.
#include <array>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/asio_listen.hpp"
#include "common/http.hpp"
#include "common/options.hpp"

namespace bwos::peer {
namespace {

using asio::ip::tcp;

asio::awaitable<void> session(tcp::socket socket, bool date) {
  std::array<char, receive_bytes> received;
  std::string input;  // the front of an incomplete request; empty between requests
  std::string output;
  asio::error_code error;
  static_cast<void>(socket.set_option(tcp::no_delay(true), error));
  for (;;) {
    const std::size_t got = co_await socket.async_read_some(
        asio::buffer(received), asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    std::string_view bytes(received.data(), got);
    if (!input.empty()) {
      input += bytes;
      bytes = input;
    }
    output.clear();
    bool malformed = false;
    {
      thread_local answers of_this_thread(date);  // not kept across an await
      const std::size_t done = answer_all(bytes, of_this_thread, output, malformed);
      if (malformed) co_return;
      if (input.empty()) {
        input.assign(bytes.substr(done));
      } else {
        input.erase(0, done);
      }
    }
    if (output.empty()) continue;
    co_await asio::async_write(socket, asio::buffer(output),
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
  }
}

asio::awaitable<void> accept_all(tcp::acceptor acceptor, bool date) {
  for (;;) {
    tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
    asio::co_spawn(acceptor.get_executor(), session(std::move(socket), date), asio::detached);
  }
}

void serve(options with) {
  raise_descriptor_limit();
  // With one thread the hint lets Asio wake no others and queue from inside without its lock.
  asio::io_context context(with.threads);
  tcp::acceptor acceptor = listen_on(context, with);
  // An exception here (out of descriptors) ends the program: a figure would mean nothing.
  asio::co_spawn(context, accept_all(std::move(acceptor), with.date),
                 [](const std::exception_ptr& failed) {
                   if (failed) std::rethrow_exception(failed);
                 });
  const auto run = [&](int index) {
    pin_this_thread(with, index);
    context.run();
  };
  std::vector<std::thread> others;
  for (int i = 1; i < with.threads; ++i) others.emplace_back(run, i);
  print_ready(with);
  run(0);
  for (std::thread& other : others) other.join();
}

}  // namespace
}  // namespace bwos::peer

int main(int argc, char** argv) {
  bwos::peer::serve(bwos::peer::parse_options(argc, argv));
}
