// SPDX-License-Identifier: Apache-2.0
#include "app/services/burn.hpp"

#include <work.pb.h>

#include <algorithm>

#include "app/burn_cpu.hpp"

namespace bwos::server::handlers {

task<rpc::status> burn(rpc::context& call, const BurnRequest& request, BurnReply& reply) {
  if (call.server.work_us_max == 0) {
    co_return rpc::status{rpc::code::unimplemented, "work is turned off"};
  }
  const std::uint64_t us = std::min<std::uint64_t>(request.us(), call.server.work_us_max);
  burn_cpu(us);
  reply.set_us(us);
  co_return rpc::status{};
}

}  // namespace bwos::server::handlers
