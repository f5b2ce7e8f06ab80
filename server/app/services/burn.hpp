// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bwos/task.hpp>
#include <cstdint>

#include "grpc/status.hpp"

namespace bwos {
class BurnRequest;
class BurnReply;
}  // namespace bwos

namespace bwos::server::handlers {

/// Burn: as /work, with the same cap (--work-us-max); where `us_max` is 0, there is no such method.
task<rpc::status> burn(std::uint64_t us_max, const BurnRequest& request, BurnReply& reply);

}  // namespace bwos::server::handlers
