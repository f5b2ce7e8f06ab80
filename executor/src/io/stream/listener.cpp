// SPDX-License-Identifier: Apache-2.0
// LIFETIME of a listener's state, and of what its handlers captured.
//
// Who reaches it: the accept loop, which calls the handlers; each connection, refused ones too,
// whose coroutine may be that of a lambda, which it then reads its captures from, and whose end has
// a `home` in here as its context; the `listener`, for its numbers. Not descriptors: a stream may
// be moved out of its connection's coroutine and outlive it, so they name their listener by a
// number, which no later one gets, where an address would come again.
//
// L1  The accept loop and each connection are users: from before they are posted until their frames
//     have been freed, whether they ended or were discarded. Only the accept loop adds users, and
//     it is a user itself. So once the last has left, nobody calls a handler or reads a capture any
//     more: who leaves last destroys them, before its work_finished(), so that join() waits for it.
// L2  A connection that waits for something outside its host never leaves where that does not
//     come. So the host keeps the state while it has users, and tells it of its own end
//     (host_ended), when everything that waited in it has been discarded. The handlers go then at
//     the latest, and before the reactors, which what they captured may use as it dies.
// L3  The last of host, users and `listener` frees the state. A `listener` that outlives its host
//     finds `watched` null, and touches neither the host nor a reactor.
// Test: contract_listener.hpp
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <bwos/io_threads.hpp>
#include <bwos/pool.hpp>
#include <bwos/stream.hpp>
#include <bwos/timer.hpp>
#include <functional>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include <bwos/base/atomic.hpp>
#include "base/check.hpp"
#include "base/mutex.hpp"
#include "io/io_host.hpp"
#include "io/reactor.hpp"
#include "io/stream/address.hpp"
#include "io/stream/idlest.hpp"
#include "pool/pool_core.hpp"

namespace bwos {
namespace {

constexpr std::chrono::milliseconds starved_retry{100};
/// Of one look at the backlog: where each accept fails, as under a system call filter, another try
/// at once would never end. Guessed: more than would be aborted at once while they waited.
constexpr int failures_max = 256;
/// Before a listening socket is closed, handshakes that have begun get so long to end. A guess: a
/// round trip in a region.
constexpr std::chrono::milliseconds last_handshakes{100};

/// A full listener looks through its connections for idle ones at most so often, as others cannot
/// come or go on the same reactor meanwhile. A guess: 65,536 take about a millisecond.
constexpr std::chrono::milliseconds looks_apart{50};

/// Awaits `readable`, the deadline or an interruption of a listening descriptor, and consumes them.
class readable_operation : coroutine_waiter {
 public:
  explicit readable_operation(descriptor& socket) noexcept : socket_(socket) {}
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) noexcept {
    set(waiting);
    return socket_.home.wait(socket_, descriptor::waiting_in, *this);
  }
  void await_resume() noexcept {
    socket_.consume(descriptor::readable | descriptor::hangup | descriptor::interrupted);
    if ((socket_.look() & descriptor::expired) != 0) socket_.home.deadline_passed(socket_);
  }

 private:
  descriptor& socket_;
};

/// A number that no other call returns; never 0.
std::uint64_t next_number() noexcept {
  static atomic<std::uint64_t> last{0};
  // [listener.number] relaxed: that they differ is all there is to them. Partner: none (a number).
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// As spawn(), with an end of its own, which says work_finished(). `root` is drive()'s.
void start_on(io_host& where, detail::driver_promise& root, end_function on_end,
              void* context) noexcept {
  root.on_end(on_end, context);
  where.work_started();
  where.post(root);
}

}  // namespace

struct listener::state final : resident {
  struct home {
    state* owner;
    reactor* where;
  };

  state(io_host& which, int fd, bool others_have_it)
      : where(which), socket(fd), is_shared(others_have_it), address(local_address(fd)) {
    for (reactor* const each : where.homes()) homes.push_back({.owner = this, .where = each});
  }

  void begin(const std::shared_ptr<state>& self);
  static task<void> accept_loop(state& self);
  static void on_loop_end(void* context) noexcept;
  void forget_socket() noexcept;
  bool accept_all() noexcept;
  bool is_closing(bool is_starved) noexcept;
  void place(int fd) noexcept;
  bool make_room() noexcept;
  void look_for_idle(std::int64_t now_ms) noexcept;
  static detail::driver_promise* make(const handler& with, descriptor& socket) noexcept;
  home& least_loaded() noexcept;
  static void on_end(void* context) noexcept;
  static void on_refusal_end(void* context) noexcept;
  void ended(const home& where_it_was) noexcept;
  void enter() noexcept;
  void leave() noexcept;
  void destroy_handlers() noexcept;
  void host_ended() noexcept override;
  void wake(std::uint32_t why) noexcept;

  // Statistics and limits: relaxed, nothing else is read on their strength, but for the flags named
  // below.
  std::size_t read(const atomic<std::size_t>& value) const noexcept {
    // [listener.read] relaxed: a number to show or to compare with a limit. Partner: none
    // (statistics).
    return value.load(std::memory_order_relaxed);
  }
  void count(atomic<std::size_t>& value, std::size_t change) noexcept {
    // [listener.count] relaxed: as above; a decrement is an added -1. Partner: none (statistics).
    value.fetch_add(change, std::memory_order_relaxed);
  }

  io_host& where;
  const int socket;
  const bool is_shared;  // inherited: others listen on it, too
  const std::string address;
  const std::uint64_t number = next_number();
  descriptor* watched = nullptr;
  std::vector<home> homes;
  handler on_connection;
  std::size_t connections_max = 0;
  handler on_refused;
  std::size_t refusals_max = 0;
  admission admits;
  atomic<std::size_t> users{0};  // L1
  atomic<std::size_t> open{0};
  atomic<std::size_t> refusals_open{0};
  atomic<std::size_t> accepted{0};
  atomic<std::size_t> refused{0};
  atomic<std::size_t> made_room{0};
  idlest idle;                                                           // the accept loop's
  std::int64_t next_look_ms = std::numeric_limits<std::int64_t>::min();  // likewise
  mutex lock;  // of the flags below against each other
  bool started = false;
  bool closing = false;
  bool closed = false;
  bool starved = false;
};

listener::listener(pool& where, const std::string& address, int backlog)
    : listener(where.core(), bind_and_listen(address, backlog), false) {}
listener::listener(io_threads& where, const std::string& address, int backlog)
    : listener(where.host(), bind_and_listen(address, backlog), false) {}
listener::listener(pool& where, inherited_socket socket)
    : listener(where.core(), socket.fd, true) {}
listener::listener(io_threads& where, inherited_socket socket)
    : listener(where.host(), socket.fd, true) {}

/// `fd` is its own from the beginning.
listener::listener(io_host& where, int fd, bool is_shared) {
  try {
    if (where.homes().empty()) {
      throw std::invalid_argument(
          "bwos::listener needs a pool with a reactor and at least one worker");
    }
    if (is_shared) set_non_blocking(fd);
    state_ = std::make_shared<state>(where, fd, is_shared);
  } catch (...) {
    ::close(fd);
    throw;
  }
}

listener::~listener() {
  close();
}

void listener::start(handler on_connection, std::size_t connections_max, handler on_refused,
                     std::size_t refusals_max, admission admits) {
  BWOS_CHECK(!state_->started);
  state_->on_connection = std::move(on_connection);
  state_->connections_max = connections_max;
  state_->refusals_max = on_refused ? refusals_max : 0;
  state_->on_refused = std::move(on_refused);
  state_->admits = std::move(admits);
  detail::driver_promise& root = detail::drive(state::accept_loop(*state_)).promise;
  try {
    state_->begin(state_);
  } catch (...) {
    root.invoke(root, continuation::disposition::discard);
    throw;
  }
  start_on(state_->where, root, &state::on_loop_end, state_.get());
}

void listener::close() noexcept {
  const std::lock_guard guard(state_->lock);
  if (state_->closing) return;
  state_->closing = true;
  if (!state_->started) {
    ::close(state_->socket);
    state_->closed = true;
  } else if (state_->watched != nullptr) {
    state_->wake(descriptor::interrupted);
  }
}

std::string listener::address() const {
  return state_->address;
}

int listener::native_handle() const noexcept {
  return state_->socket;
}

std::size_t listener::connections() const noexcept {
  return state_->read(state_->open);
}
std::size_t listener::accepted() const noexcept {
  return state_->read(state_->accepted);
}
std::size_t listener::refused() const noexcept {
  return state_->read(state_->refused);
}
std::size_t listener::made_room() const noexcept {
  return state_->read(state_->made_room);
}
bool listener::closed() const noexcept {
  const std::lock_guard guard(state_->lock);
  return state_->closed;
}

void listener::interrupt_connections() noexcept {
  for (const state::home& each : state_->homes) {
    each.where->for_each_open([&](descriptor& socket) {
      if (socket.accepted_by != state_->number) return;
      if (continuation* const work = socket.notify(descriptor::interrupted)) {
        state_->where.post(*work);
      }
    });
  }
}

void listener::end_idle_connections() noexcept {
  const std::int64_t latest = timer_service::now_ms() - idle_min.count();
  for (const state::home& each : state_->homes) {
    each.where->for_each_open([&](descriptor& socket) {
      if (socket.accepted_by != state_->number || socket.idle_since() > latest) return;
      if (continuation* const work = socket.tell_unwanted()) {
        state_->count(state_->made_room, 1);
        state_->where.post(*work);
      }
    });
  }
}

/// Watches the socket, or throws and has changed nothing.
void listener::state::begin(const std::shared_ptr<state>& self) {
  where.keep(self);
  descriptor* const taken = homes.front().where->listen(socket, is_shared);
  if (taken == nullptr) {
    const int error = errno;
    where.let_go(*this);
    throw std::system_error(error, std::system_category(), "watching a listener");
  }
  enter();
  const std::lock_guard guard(lock);
  watched = taken;
  started = true;
}

task<void> listener::state::accept_loop(state& self) {
  descriptor& socket = *self.watched;
  for (;;) {  // ends when closing
    const bool starved = self.accept_all();
    if (self.is_closing(starved)) break;
    const std::int64_t retry = timer_service::now_ms() + starved_retry.count();
    socket.home.set_deadline(socket, starved ? retry : wheel::never);
    co_await readable_operation(socket);
  }
  if (!self.is_shared) {
    // What the backlog holds when the socket is closed would be reset: first nothing more may come.
    // One that others have goes on, and a filter would be theirs as well.
    ignore_new_connections(self.socket);
    co_await sleep_until(std::chrono::steady_clock::now() + last_handshakes);
    self.accept_all();
  }
}

/// The loop has ended or was discarded.
void listener::state::on_loop_end(void* context) noexcept {
  auto& self = *static_cast<state*>(context);
  {
    const std::lock_guard guard(self.lock);
    if (self.watched != nullptr) self.watched->home.close(*self.watched);
    self.forget_socket();
  }
  self.leave();
}

/// Under the lock.
void listener::state::forget_socket() noexcept {
  watched = nullptr;
  closed = true;
}

bool listener::state::is_closing(bool is_starved) noexcept {
  const std::lock_guard guard(lock);
  starved = is_starved;
  return closing;
}

/// Drains the backlog. True: descriptors or memory have run out, or accepting does not work, and
/// connections are left in it.
bool listener::state::accept_all() noexcept {
  for (int failures = 0; failures < failures_max;) {
    const int fd = ::accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      place(fd);
      continue;
    }
    switch (errno) {
      case EAGAIN:
        return false;
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        return true;
      default:  // that connection's own trouble (accept(2)): the next one
        ++failures;
        break;
    }
  }
  return true;
}

listener::state::home& listener::state::least_loaded() noexcept {
  home* best = &homes.front();
  for (home& each : homes) {
    if (each.where->connections() < best->where->connections()) best = &each;
  }
  return *best;
}

void listener::state::place(int fd) noexcept {
  const bool welcome = !admits || admits(fd);
  const bool fits = welcome && (read(open) < connections_max || make_room());
  home& chosen = least_loaded();
  descriptor* taken = nullptr;
  if (fits || read(refusals_open) < refusals_max) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    taken = chosen.where->adopt(fd, number);  // null: no memory, or the kernel's limit of watches
  }
  if (welcome && (!fits || taken == nullptr)) count(refused, 1);  // before the peer can know
  if (taken == nullptr) {
    ::close(fd);
    return;
  }
  detail::driver_promise* const root = make(fits ? on_connection : on_refused, *taken);
  if (root == nullptr) {
    if (fits) count(refused, 1);
    return;
  }
  chosen.where->count_connection(1);
  enter();
  // Posted, so that a first request that is long does not keep the backlog waiting.
  if (fits) {
    count(accepted, 1);
    count(open, 1);
    start_on(where, *root, &on_end, &chosen);
  } else {
    count(refusals_open, 1);
    start_on(where, *root, &on_refusal_end, &chosen);
  }
}

/// True: another will leave, as it has been idle for longest.
bool listener::state::make_room() noexcept {
  if (read(open) >= connections_max + leaving_max) return false;
  const std::int64_t now = timer_service::now_ms();
  if (idle.empty() && now >= next_look_ms) look_for_idle(now);
  while (!idle.empty()) {
    if (continuation* const work = idle.take()) {
      count(made_room, 1);
      where.post(*work);
      return true;
    }
  }
  return false;
}

void listener::state::look_for_idle(std::int64_t now_ms) noexcept {
  next_look_ms = now_ms + looks_apart.count();
  const std::int64_t latest = now_ms - idle_min.count();
  // All of it by one reference, so that the std::function allocates nothing.
  const auto look = [&](descriptor& socket) {
    const std::int64_t since = socket.idle_since();
    if (socket.accepted_by == number && since <= latest) idle.offer(socket, since);
  };
  for (const home& each : homes) each.where->for_each_open(std::ref(look));
  idle.sort();
}

/// The coroutines of a connection, which have not begun. Null: there is no memory for them, and the
/// socket, whose owner they would be, has been closed.
detail::driver_promise* listener::state::make(const handler& with, descriptor& socket) noexcept {
  try {
    return &detail::drive(with(stream(socket))).promise;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void listener::state::on_end(void* context) noexcept {
  const home& where_it_was = *static_cast<home*>(context);
  where_it_was.owner->count(where_it_was.owner->open, ~std::size_t{0});
  where_it_was.owner->ended(where_it_was);
}

void listener::state::on_refusal_end(void* context) noexcept {
  const home& where_it_was = *static_cast<home*>(context);
  where_it_was.owner->count(where_it_was.owner->refusals_open, ~std::size_t{0});
  where_it_was.owner->ended(where_it_was);
}

void listener::state::ended(const home& where_it_was) noexcept {
  where_it_was.where->count_connection(-1);
  {
    const std::lock_guard guard(lock);
    if (starved && watched != nullptr) wake(descriptor::readable);
  }
  leave();
}

/// Adds a user. begin() does so for the accept loop, which adds all the others.
void listener::state::enter() noexcept {
  // [listener.users.enter] relaxed: its user leaves later, on a thread that it is posted to; the
  // accept loop, itself a user, keeps the number above 0 meanwhile. Partner: none (a count).
  users.fetch_add(1, std::memory_order_relaxed);
}

/// Takes a user away, whose last touch of this it is.
void listener::state::leave() noexcept {
  io_host& host = where;
  // [listener.users.leave] acq_rel: release for all that this user did with the captures; acquire
  // so that who destroys them does that after all of it. Partner: [listener.users.leave].
  if (users.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    const std::shared_ptr<resident> kept = host.let_go(*this);
    destroy_handlers();
  }
  host.work_finished();
}

/// Without the lock: what was captured may be the `listener` itself, which closes.
void listener::state::destroy_handlers() noexcept {
  const handler connection = std::exchange(on_connection, {});
  const handler refusal = std::exchange(on_refused, {});
  const admission admitting = std::exchange(admits, {});
}

void listener::state::host_ended() noexcept {
  {
    const std::lock_guard guard(lock);
    forget_socket();  // its reactor closes it
  }
  destroy_handlers();
}

/// Under the lock, while `watched`.
void listener::state::wake(std::uint32_t why) noexcept {
  if (continuation* const work = watched->notify(why)) where.post(*work);
}

}  // namespace bwos
