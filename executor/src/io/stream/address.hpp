// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace bwos {

/// A listening, non-blocking socket at "127.0.0.1:8080", "[::1]:0" or "localhost:80". Throws
/// std::invalid_argument for what is no address, std::system_error for what cannot be bound; both
/// name the address.
int bind_and_listen(const std::string& address, int backlog);

/// For everybody who has the socket. Throws std::system_error.
void set_non_blocking(int fd);

/// The address that a socket is bound to, in the same form.
std::string local_address(int fd);

}  // namespace bwos
