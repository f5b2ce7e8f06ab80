// SPDX-License-Identifier: Apache-2.0
// What the peers on Asio share.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/system_error.hpp>

#include "common/options.hpp"

namespace bwos::peer {

// The port of `with` becomes the chosen one where it was 0.
inline asio::ip::tcp::acceptor listen_on(asio::io_context& context, options& with) {
  try {
    asio::ip::tcp::acceptor made(
        context, asio::ip::tcp::endpoint(asio::ip::make_address(with.address), with.port));
    with.port = made.local_endpoint().port();
    return made;
  } catch (const asio::system_error& failed) {
    cannot_listen(with, failed.code().message().c_str());
  }
}

}  // namespace bwos::peer
