// SPDX-License-Identifier: Apache-2.0
#include "app/services/burn.hpp"

#include <work.pb.h>

#include <algorithm>

#include "app/burn_cpu.hpp"

namespace bwos::server::handlers {

task<rpc::status> burn(std::uint64_t us_max, const BurnRequest& request, BurnReply& reply) {
  if (us_max == 0) {
    co_return rpc::status{rpc::code::unimplemented, "work is turned off"};
  }
  const std::uint64_t us = std::min<std::uint64_t>(request.us(), us_max);
  burn_cpu(us);
  reply.set_us(us);
  co_return rpc::status{};
}

}  // namespace bwos::server::handlers
