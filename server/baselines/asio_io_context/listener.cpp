// SPDX-License-Identifier: Apache-2.0
#include "baselines/asio_io_context/listener.hpp"

#include <asio/basic_socket_acceptor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/error.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <bwos/stream.hpp>
#include <cerrno>
#include <chrono>
#include <exception>
#include <list>
#include <mutex>
#include <new>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "baselines/asio_io_context/stream.hpp"
#include "net/connection.hpp"

namespace bwos::server::asio_sockets {
namespace {

using asio::ip::tcp;

constexpr std::chrono::milliseconds starved_retry{100};
/// Before a listening socket is closed, handshakes that have begun get so long to end: as
/// bwos::listener gives them.
constexpr std::chrono::milliseconds last_handshakes{100};

/// As connection_loop.cpp has it, by coroutines of Asio's.
awaitable<void> linger(stream& peer) {
  peer.shutdown_send();
  peer.deadline(clock::now() + linger_time);
  std::size_t dropped = 0;
  while (dropped < linger_bytes_max) {
    const received got = co_await peer.receive();
    if (got.error == std::errc::operation_canceled) continue;
    if (got.error || got.end()) break;
    dropped += got.bytes.size();
  }
}

awaitable<next> send_rest(stream& to, connection& of, next then) {
  of.set_write_deadline();
  const sent what = co_await to.send(of.unsent());
  co_return of.take_sent(what, then);
}

awaitable<void> serve_all(stream& on, const connection_factory& of) {
  std::unique_ptr<connection> served = of.connect(on);
  next then = served->begin();
  for (;;) {  // ends: every wait has a deadline
    if (!served->unsent().empty()) then = co_await send_rest(on, *served, then);
    if (then == next::receive) {
      const received got = co_await on.receive(served->room());
      then = served->take(got);
    } else if (then == next::go_on) {
      co_await io_context_executor::yield();
      then = served->go_on();
    } else if (then == next::lane) {
      co_await on.lane();
      then = served->go_on();
    } else if (then == next::linger) {
      served->lost();
      co_await linger(on);
      co_return;
    } else if (then == next::other) {
      served = served->other();
      then = served->begin();
    } else {
      co_return;
    }
  }
}

/// "127.0.0.1:8080", "[::1]:0".
tcp::endpoint resolve(asio::io_context& context, const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  tcp::resolver resolver(context);
  return resolver.resolve(host, address.substr(colon + 1), tcp::resolver::numeric_service)
      ->endpoint();
}

/// Nothing can be accepted until something is freed. By number: the codes of Asio's own category
/// are not equal to those of std::errc.
bool is_starved(const std::error_code& error) noexcept {
  switch (error.value()) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return true;
    default:
      return false;
  }
}

void rethrow(const std::exception_ptr& escaped) {
  if (escaped) std::rethrow_exception(escaped);
}

}  // namespace

struct socket_listener::core : std::enable_shared_from_this<core> {
  using strand = asio::strand<io_executor>;
  using on_strand = asio::use_awaitable_t<strand>;
  using open_list = std::list<socket_state*>;
  /// A connection's place in a list, until everything of it is freed.
  class seat;

  core(io_context_executor& executor, const std::string& listen_at, int backlog);
  core(io_context_executor& executor, inherited_socket socket);

  asio::awaitable<void, strand> accept_all();
  asio::awaitable<void, strand> pause(std::chrono::milliseconds time);
  void accept_the_last() noexcept;
  void leave() noexcept;
  void place(tcp_socket peer) noexcept;
  void take_address();
  struct admission {
    bool fits;
    bool has_room;
  };
  admission admit(bool welcome) noexcept;
  void set_starved(bool is_starved) noexcept;

  static awaitable<void> serve(seat where, const connection_factory& of);
  static awaitable<void> refuse(seat where, const connection_factory& of);

  io_context_executor& where;
  strand turns;  // of the three below
  asio::basic_socket_acceptor<tcp, io_executor> acceptor;
  asio::basic_waitable_timer<clock, asio::wait_traits<clock>, io_executor> timer;
  bool closing = false;

  bool is_shared = false;  // inherited: others listen on it, too
  std::string address;
  const connection_factory* factory = nullptr;
  std::size_t connections_max = 0;
  address_limit* addresses = nullptr;

  std::mutex lock;  // of all below
  bool closed = false;
  bool starved = false;
  std::size_t accepted = 0;
  std::size_t refused = 0;
  open_list open;
  open_list refusals;
};

class socket_listener::core::seat {
 public:
  seat(core& owner, open_list& in, std::shared_ptr<socket_state> who, address_limit::place held)
      : owner_(owner.shared_from_this()), in_(&in), who_(std::move(who)), held_(std::move(held)) {
    const std::lock_guard guard(owner_->lock);
    at_ = in_->insert(in_->end(), who_.get());
  }
  seat(seat&&) noexcept = default;
  seat& operator=(seat&&) = delete;
  ~seat() {
    if (!owner_) return;
    const std::lock_guard guard(owner_->lock);
    in_->erase(at_);
    if (!owner_->starved) return;
    try {
      asio::post(owner_->turns, [self = owner_] { self->timer.cancel(); });
    } catch (const std::bad_alloc&) {  // the pause is short anyway
    }
  }
  [[nodiscard]] stream socket() const noexcept { return stream(who_); }

 private:
  std::shared_ptr<core> owner_;
  open_list* in_;
  std::shared_ptr<socket_state> who_;
  open_list::iterator at_;
  address_limit::place held_;
};

socket_listener::core::core(io_context_executor& executor, const std::string& listen_at,
                            int backlog)
    : where(executor),
      turns(where.context().get_executor()),
      acceptor(where.context()),
      timer(where.context()) {
  const tcp::endpoint endpoint = resolve(where.context(), listen_at);
  acceptor.open(endpoint.protocol());
  acceptor.set_option(tcp::acceptor::reuse_address(true));
  acceptor.bind(endpoint);
  acceptor.listen(backlog);
  take_address();
}

socket_listener::core::core(io_context_executor& executor, inherited_socket socket)
    : where(executor),
      turns(where.context().get_executor()),
      acceptor(where.context()),
      timer(where.context()),
      is_shared(true) {
  int domain = AF_INET;
  socklen_t size = sizeof domain;
  ::getsockopt(socket.fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  acceptor.assign(domain == AF_INET6 ? tcp::v6() : tcp::v4(), socket.fd);
  take_address();
}

void socket_listener::core::take_address() {
  acceptor.non_blocking(true);
  std::ostringstream text;
  text << acceptor.local_endpoint();
  address = text.str();
}

asio::awaitable<void, socket_listener::core::strand> socket_listener::core::accept_all() {
  while (!closing) {
    std::error_code error;
    try {
      tcp_socket peer =
          co_await acceptor.async_accept(where.context(), asio::redirect_error(on_strand(), error));
      if (!error) place(std::move(peer));
    } catch (const std::bad_alloc&) {
      error = std::make_error_code(std::errc::not_enough_memory);
    }
    if (!is_starved(error) || closing) continue;
    set_starved(true);
    try {
      co_await pause(starved_retry);
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(starved_retry);  // others' connections need memory as well
    }
    set_starved(false);
  }
  if (is_shared) co_return leave();
  // What the backlog holds when the socket is closed would be reset: first nothing more may come.
  ignore_new_connections(acceptor.native_handle());
  try {
    co_await pause(last_handshakes);
  } catch (const std::bad_alloc&) {
    std::this_thread::sleep_for(last_handshakes);
  }
  accept_the_last();
}

void socket_listener::core::accept_the_last() noexcept {
  std::error_code error;
  try {
    while (error != asio::error::would_block && !is_starved(error)) {
      tcp_socket peer = acceptor.accept(where.context(), error);
      if (!error) place(std::move(peer));
    }
  } catch (const std::bad_alloc&) {  // as without descriptors: the rest is reset
  }
  leave();
}

void socket_listener::core::leave() noexcept {
  std::error_code ignored;
  static_cast<void>(acceptor.close(ignored));
  const std::lock_guard guard(lock);
  closed = true;
}

asio::awaitable<void, socket_listener::core::strand> socket_listener::core::pause(
    std::chrono::milliseconds time) {
  std::error_code cut_short;
  timer.expires_after(time);
  co_await timer.async_wait(asio::redirect_error(on_strand(), cut_short));
}

void socket_listener::core::set_starved(bool is_starved) noexcept {
  const std::lock_guard guard(lock);
  starved = is_starved;
}

void socket_listener::core::place(tcp_socket peer) noexcept {
  address_limit::place held;
  const bool welcome = addresses == nullptr || addresses->admit(peer.native_handle(), held);
  const auto [fits, has_room] = admit(welcome);
  if (!has_room) return;
  try {
    std::error_code ignored;
    static_cast<void>(peer.set_option(tcp::no_delay(true), ignored));
    peer.non_blocking(true);
    seat taken(*this, fits ? open : refusals,
               std::make_shared<socket_state>(where, std::move(peer)),
               fits ? std::move(held) : address_limit::place());
    asio::co_spawn(where.context(),
                   fits ? serve(std::move(taken), *factory) : refuse(std::move(taken), *factory),
                   &rethrow);
  } catch (const std::exception&) {  // no memory, or the kernel's limit of watches
    if (!fits) return;
    const std::lock_guard guard(lock);
    --accepted;
    ++refused;
  }
}

/// Counts a connection, before its peer can know. Whether it is to be served; and if not, whether
/// it can be told.
socket_listener::core::admission socket_listener::core::admit(bool welcome) noexcept {
  const std::lock_guard guard(lock);
  const bool fits = welcome && open.size() < connections_max;
  if (welcome) ++(fits ? accepted : refused);
  return {.fits = fits, .has_room = fits || refusals.size() < factory->refusals_max()};
}

awaitable<void> socket_listener::core::serve(seat where, const connection_factory& of) {
  try {
    stream on = where.socket();
    co_await serve_all(on, of);
  } catch (const std::bad_alloc&) {  // for its coroutine
    of.counters.here().out_of_memory();
  }
}

awaitable<void> socket_listener::core::refuse(seat where, const connection_factory& of) {
  try {
    stream on = where.socket();
    of.refuse(on);
    co_await linger(on);
  } catch (const std::bad_alloc&) {
    of.counters.here().out_of_memory();
  }
}

socket_listener::socket_listener(io_context_executor& where, const std::string& address,
                                 int backlog)
    : core_(std::make_shared<core>(where, address, backlog)) {}
socket_listener::socket_listener(io_context_executor& where, inherited_socket socket)
    : core_(std::make_shared<core>(where, socket)) {}

socket_listener::~socket_listener() {
  close();
}

std::string socket_listener::address() const {
  return core_->address;
}

int socket_listener::native_handle() const noexcept {
  return core_->acceptor.native_handle();
}

void socket_listener::limit_addresses(address_limit& by) noexcept {
  core_->addresses = &by;
}

void socket_listener::start(const connection_factory& of, std::size_t connections_max) {
  core_->factory = &of;
  core_->connections_max = connections_max;
  asio::co_spawn(core_->turns, [self = core_] { return self->accept_all(); }, &rethrow);
}

void socket_listener::close() noexcept {
  asio::post(core_->turns, [self = core_] {
    self->closing = true;
    self->acceptor.cancel();
    self->timer.cancel();
  });
}

/// By a handler, as a single thread that runs everything locks nothing.
void socket_listener::interrupt_connections() noexcept {
  asio::post(core_->where.context(), [self = core_] {
    const std::lock_guard guard(self->lock);
    for (const core::open_list* const each : {&self->open, &self->refusals}) {
      for (socket_state* const connection : *each) connection->interrupt();
    }
  });
}

bool socket_listener::closed() const noexcept {
  const std::lock_guard guard(core_->lock);
  return core_->closed;
}
std::size_t socket_listener::connections() const noexcept {
  const std::lock_guard guard(core_->lock);
  return core_->open.size();
}
std::size_t socket_listener::accepted() const noexcept {
  const std::lock_guard guard(core_->lock);
  return core_->accepted;
}
std::size_t socket_listener::refused() const noexcept {
  const std::lock_guard guard(core_->lock);
  return core_->refused;
}

}  // namespace bwos::server::asio_sockets
