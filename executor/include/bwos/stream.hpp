// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <bwos/continuation.hpp>
#include <bwos/task.hpp>
#include <bwos/waiter.hpp>

namespace bwos {

class io_host;
class io_threads;
class pool;
struct descriptor;

/// What a receive gave: bytes, or the peer's end (no bytes, no error), or an error.
struct received {
  std::span<const std::byte> bytes;
  std::error_code error;  ///< timed_out (the deadline passed), operation_canceled (interrupt()),
                          ///< connection_aborted (idle(), and its place is wanted), or the
                          ///< socket's own.
  [[nodiscard]] bool end() const noexcept { return bytes.empty() && !error; }
};

/// Where a receive puts its bytes, and how many it takes.
struct receive_room {
  /// If it is empty, the bytes lie in a buffer of the worker (epoll) or of the ring (io_uring).
  /// Else epoll receives them into it, no more than it holds; io_uring may do so. It must stay
  /// valid until the receive completes.
  std::span<std::byte> into{};
  /// A receive takes no more than this, which is at least 1; the rest stays in the socket for the
  /// next one. Only what io_uring has received before it was asked may be more.
  std::size_t at_most = std::numeric_limits<std::size_t>::max();
};

struct sent {
  std::size_t bytes = 0;  ///< Bytes that the kernel took; less than asked for only with an error.
  std::error_code error;
};

/// Ends a stream's wait from elsewhere. Any thread, as long as the reactor lives, also when the
/// stream has been closed: then it may end a wait of another one.
class stream_waker {
 public:
  stream_waker() noexcept = default;  ///< Of no stream: does nothing.
  /// The pending receive, or else the next one, ends with operation_canceled. Returns what the
  /// caller must post to the executor of the stream; null: nobody waited.
  [[nodiscard]] continuation* interrupt() const noexcept;

 private:
  friend class stream;
  explicit stream_waker(descriptor* of) noexcept : descriptor_(of) {}
  descriptor* descriptor_ = nullptr;
};

/// A connected TCP socket on a pool's reactor (or that of io_threads, then "pool" and "worker"
/// stand for the executor and its threads). Movable; closing is the destructor's. All members
/// belong to the coroutine that runs the connection: one at a time, on whichever worker runs it.
/// One receive or one send at a time. The pool must outlive it, and it must be destroyed on a
/// worker of the pool.
class stream {
 public:
  using clock = std::chrono::steady_clock;

  stream() noexcept = default;
  explicit stream(descriptor& adopted) noexcept : descriptor_(&adopted) {}
  stream(stream&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  stream& operator=(stream&& other) noexcept;
  ~stream() { close(); }

  class receive_operation;
  class send_operation;

  /// Awaitable of `received`. The bytes lie in a buffer of the worker (epoll) or of the ring
  /// (io_uring): they are valid until this coroutine next suspends (on anything) or receives again;
  /// keep a copy of what must live longer; unless they lie in room.into. Once epoll has told that
  /// the peer has reset the connection, what it had sent before is dropped, unless it had ended
  /// that (half-closed) before it reset the connection.
  [[nodiscard]] receive_operation receive(receive_room room = {}) noexcept;

  /// Awaitable of `sent`. Sends all of `bytes` (MSG_NOSIGNAL), waiting while the socket is full;
  /// they must stay valid until it completes. Does not suspend when the kernel takes them at once.
  [[nodiscard]] send_operation send(std::span<const std::byte> bytes) noexcept;

  /// One send(2) without waiting: the bytes taken (0 when the socket is full) or the error. What
  /// lies elsewhere may go `behind` them, by one sendmsg(2).
  sent try_send(std::span<const std::byte> bytes, std::span<const std::byte> behind = {}) noexcept;

  /// From now on a wait that lasts beyond `when` ends with std::errc::timed_out; once passed, so
  /// does every later wait, until it is set anew. Cheap (a store): may be called for every request.
  /// Resolution 1 ms; it never fires early.
  void deadline(clock::time_point when) noexcept;
  /// The same, counted from now.
  void timeout(std::chrono::milliseconds after) noexcept { deadline(clock::now() + after); }
  void no_deadline() noexcept;
  /// As deadline(until), of a connection on which nothing has been open `since` then. Where its
  /// listener is full, a wait that finds no bytes may end with std::errc::connection_aborted: it
  /// had better be closed, as others want its place. Until the deadline is set anew.
  void idle(clock::time_point since, clock::time_point until) noexcept;

  /// Half-close: the peer sees our end, we still receive.
  void shutdown_send() noexcept;
  /// The next close resets the connection instead of lingering with unsent or unread bytes.
  void reset_on_close() noexcept;

  [[nodiscard]] stream_waker waker() const noexcept { return stream_waker(descriptor_); }

  void close() noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return descriptor_ != nullptr; }
  [[nodiscard]] int native_handle() const noexcept;

 private:
  descriptor* descriptor_ = nullptr;
};

namespace detail {

/// An operation on a socket that lies in the frame of the coroutine awaiting it. Attempts it at
/// once; where it would block, waits and attempts it again on the worker that was told, and resumes
/// the coroutine only when it is over.
class socket_operation : public coroutine_waiter {
 public:
  socket_operation(const socket_operation&) = delete;
  socket_operation& operator=(const socket_operation&) = delete;

 protected:
  socket_operation(function on_ready, descriptor* socket) noexcept
      : coroutine_waiter(on_ready), socket_(socket) {}
  descriptor* const socket_;
};

}  // namespace detail

class [[nodiscard]] stream::receive_operation : detail::socket_operation {
 public:
  [[nodiscard]] bool await_ready() noexcept;
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) noexcept {
    set(waiting);
    return suspend();
  }
  [[nodiscard]] received await_resume() const noexcept { return result_; }

 private:
  friend stream;
  receive_operation(descriptor* socket, receive_room room) noexcept
      : socket_operation(&on_ready, socket), room_(room) {}
  static void on_ready(continuation& self, disposition how) noexcept;
  bool attempt(bool notified) noexcept;
  bool suspend() noexcept;

  const receive_room room_;
  received result_;
};

class [[nodiscard]] stream::send_operation : detail::socket_operation {
 public:
  [[nodiscard]] bool await_ready() noexcept { return attempt(); }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiting) noexcept {
    set(waiting);
    return suspend();
  }
  [[nodiscard]] sent await_resume() const noexcept { return result_; }

 private:
  friend stream;
  send_operation(descriptor* socket, std::span<const std::byte> bytes) noexcept
      : socket_operation(&on_ready, socket), rest_(bytes) {}
  static void on_ready(continuation& self, disposition how) noexcept;
  bool attempt() noexcept;
  bool suspend() noexcept;

  std::span<const std::byte> rest_;
  sent result_;
};

inline stream::receive_operation stream::receive(receive_room room) noexcept {
  return receive_operation(descriptor_, room);
}
inline stream::send_operation stream::send(std::span<const std::byte> bytes) noexcept {
  return send_operation(descriptor_, bytes);
}

/// A listening TCP socket that other processes have as well, such as whoever started this one with
/// it.
struct inherited_socket {
  int fd = -1;
};

/// A listening TCP socket whose connections are spread over a pool's reactors, to the one with the
/// fewest connections. Accepting is drained (accept4 until it would block). Without descriptors or
/// memory, or where accept4 fails again and again, it pauses and goes on as soon as a connection
/// ends, or after 100 ms.
class listener {
 public:
  using handler = std::function<task<void>(stream)>;
  /// Asked of a socket that was accepted, where it was: false, it is refused. Must not throw.
  using admission = std::function<bool(int)>;

  /// Who has been idle for less is not asked to leave: a peer between two requests, or one that has
  /// just come. A guess.
  static constexpr std::chrono::milliseconds idle_min{1000};
  /// Connections above the limit that wait for others to leave. A guess: few beside the descriptors
  /// that a process leaves free.
  static constexpr std::size_t leaving_max = 32;

  /// Binds and listens at `address` ("127.0.0.1:8080", "[::1]:0"); throws std::system_error,
  /// std::invalid_argument.
  listener(pool& where, const std::string& address, int backlog);
  /// On an executor that is not a pool, see io_threads.
  listener(io_threads& where, const std::string& address, int backlog);
  /// Takes over the descriptor, which becomes non-blocking for all who have the socket. close()
  /// leaves the socket as it is: it goes on listening for the others, who find in its backlog
  /// whatever comes. Throws std::system_error.
  listener(pool& where, inherited_socket socket);
  listener(io_threads& where, inherited_socket socket);
  /// close(). May come after the pool's end, which closes the socket; then nothing but this,
  /// close() and the numbers below may be used.
  ~listener();
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;

  /// The address bound, with the port that the kernel chose for port 0.
  [[nodiscard]] std::string address() const;
  /// The listening socket. What is set on it before start(), such as TCP_NOTSENT_LOWAT, holds for
  /// the connections that it accepts. Not once it is closed.
  [[nodiscard]] int native_handle() const noexcept;

  /// Starts accepting, once; each connection's task starts on the accepting worker, after its
  /// socket has been registered, and goes on wherever its bytes arrive. join() waits for the
  /// listener and for these tasks. At most `connections_max` at once. One above is let in where
  /// another, idle() for idle_min or more, is asked to leave in its place, the longest idle first;
  /// until those have left there are up to `leaving_max` more. The others are refused: they
  /// go to `on_refused`, which may tell them so, but at most `refusals_max` of them at once; those
  /// above that are closed at once, as all are by default. Whom `admits`, where there is one, does
  /// not admit is refused as well, and nobody makes room for it. An exception that escapes a task
  /// is std::terminate.
  ///
  /// What the handlers captured lives until the listener is closed and the last of these tasks has
  /// been freed, and is destroyed where that happens: on a worker, before join() returns. Where the
  /// pool ends first, that destroys it, while sockets and timers still work and what is posted is
  /// discarded. Throws std::system_error, std::bad_alloc; then it may be called again.
  void start(handler on_connection, std::size_t connections_max, handler on_refused = {},
             std::size_t refusals_max = 0, admission admits = {});

  /// Any thread: takes no new connections, accepts what the backlog holds once more, then closes
  /// the socket; an inherited one it closes at once. Idempotent; returns at once.
  void close() noexcept;

  [[nodiscard]] std::size_t connections() const noexcept;  ///< Open now, without those refused.
  [[nodiscard]] std::size_t accepted() const noexcept;  ///< Ever accepted, without those refused.
  [[nodiscard]] std::size_t refused() const noexcept;   ///< Ever: by connections_max, or no memory.
  /// Ever: those that were asked to leave because they were idle.
  [[nodiscard]] std::size_t made_room() const noexcept;
  [[nodiscard]] bool closed() const noexcept;  ///< The listening socket is closed.

  /// Any thread: ends the pending receive of each of its connections, refused ones too, or else the
  /// next one, with operation_canceled; those after that wait again.
  void interrupt_connections() noexcept;
  /// Any thread: asks each of its connections that is idle(), for idle_min or more, to leave, as a
  /// full listener asks some.
  void end_idle_connections() noexcept;

 private:
  listener(io_host& where, int fd, bool is_shared);

  struct state;
  std::shared_ptr<state> state_;
};

/// Any thread: a listening socket takes no new connections from now on, where the kernel lets this
/// user have socket filters (if not: nothing). Handshakes that have begun go on, so that closing it
/// a round trip later resets nobody; a peer that comes in between tries again a second later.
void ignore_new_connections(int listening_socket) noexcept;

}  // namespace bwos
