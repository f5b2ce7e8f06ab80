// SPDX-License-Identifier: Apache-2.0
#include "http/h2/connection.hpp"

#include <utility>

#include "http/h2/connection_life.hpp"
#include "http/reactor_sockets.hpp"

namespace bwos::server::native {
namespace life {

http1::byte_buffer& this_output() noexcept {
  thread_local http1::byte_buffer mine;
  mine.clear(output_bytes_kept);
  return mine;
}

}  // namespace life

task<void> serve(stream socket, const shared& of, const http1::context* http, std::string first) {
  return life::serve<reactor_sockets>(std::move(socket), of, http, std::move(first));
}

}  // namespace bwos::server::native
