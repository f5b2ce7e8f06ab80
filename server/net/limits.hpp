// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

namespace bwos::server {

/// A peer that sends without a pause gives way after so much (guessed: some 100 us of work).
inline constexpr std::size_t input_bytes_max = 128 * 1024;
inline constexpr std::size_t input_bytes_bulk =
    8 * 1024;  ///< A receive of less, which had room for more, shows a pause.

/// After an error answer the peer's remaining bytes are read and dropped, as closing a socket with
/// unread bytes would reset it and could take the answer from the peer. Bounds of that.
inline constexpr std::chrono::microseconds linger_time = std::chrono::seconds(2);
inline constexpr std::size_t linger_bytes_max = 8 * 1024 * 1024;

/// How often a drain looks whether the last connections have gone.
inline constexpr std::chrono::milliseconds drain_step{20};

/// Descriptors that the connections of a port leave, however many --connections-max allows: the
/// library's own, listeners, logs, gRPC's sockets.
inline constexpr std::size_t descriptors_reserved = 256;

/// Peers above --connections-max that are told so at once, which takes each as long as it takes to
/// close, at most linger_time; those above that are closed without a word.
inline constexpr std::size_t refusals_max = descriptors_reserved / 2;

}  // namespace bwos::server
