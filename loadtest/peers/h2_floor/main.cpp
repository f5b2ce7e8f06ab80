// SPDX-License-Identifier: Apache-2.0
// The floor of gRPC: a bare epoll loop on nghttp2 and protobuf, the least that a server may cost
// which leaves HTTP/2 to nghttp2. It answers unary calls of two methods; what one read brought is
// answered with one write. Listeners and sets are those of epoll_floor. It trusts its clients: no
// server should copy it.
#include <helloworld.pb.h>
#include <nghttp2/nghttp2.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <work.pb.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/burn.hpp"
#include "common/options.hpp"
#include "common/socket.hpp"

namespace bwos::peer {
namespace {

constexpr std::size_t receive_bytes = 64 * 1024;
constexpr std::size_t prefix_bytes = 5;  // of a gRPC message: compressed or not, length
constexpr std::size_t message_bytes_max = 1024 * 1024;
constexpr std::uint32_t streams_max = 1000;
constexpr std::uint32_t window_bytes = 1024 * 1024;

enum class method { unknown, say_hello, burn };

class loop;
struct connection;

struct call {
  connection* of = nullptr;  // null: free
  method what = method::unknown;
  std::string request;      // with its prefix
  std::string answer;       // the same; empty: trailers only
  std::size_t sent = 0;     // of the answer
  const char* status = "";  // grpc-status
  call* next_free = nullptr;
};

struct connection {
  loop& in;
  int fd;
  nghttp2_session* session = nullptr;
  bool writing = false;  // it waits to write; while it does, nothing is read
  std::string output = {};
};

nghttp2_nv field(std::string_view name, std::string_view value) {
  // Without a copy: all names and values here are literals.
  const auto bytes = [](std::string_view of) {
    return const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(of.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

class loop {
 public:
  explicit loop(int listener) : listener_(listener) {
    set_ = ::epoll_create1(EPOLL_CLOEXEC);
    if (set_ < 0) fail("epoll_create1");
    watch(set_, EPOLL_CTL_ADD, listener_, EPOLLIN, nullptr);
    ::nghttp2_session_callbacks_new(&callbacks_);
    ::nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks_, on_begin_headers);
    ::nghttp2_session_callbacks_set_on_header_callback(callbacks_, on_header);
    ::nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks_, on_data);
    ::nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks_, on_frame);
    ::nghttp2_session_callbacks_set_on_stream_close_callback(callbacks_, on_close);
    ::nghttp2_option_new(&option_);
    ::nghttp2_option_set_no_closed_streams(option_, 1);
  }

  [[noreturn]] void run() {
    std::array<epoll_event, 256> events;
    for (;;) {
      const int ready = ::epoll_wait(set_, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < ready; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        if (event.data.ptr == nullptr) {
          accept_all(listener_, [&](int fd) { open(fd); });
        } else {
          serve(*static_cast<connection*>(event.data.ptr));
        }
      }
    }
  }

 private:
  void open(int fd) {
    auto* const made = new connection{*this, fd};
    if (::nghttp2_session_server_new2(&made->session, callbacks_, made, option_) != 0) {
      fail("nghttp2_session_server_new2");
    }
    const std::array<nghttp2_settings_entry, 2> settings{
        {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams_max},
         {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window_bytes}}};
    ::nghttp2_submit_settings(made->session, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
    ::nghttp2_session_set_local_window_size(made->session, NGHTTP2_FLAG_NONE, 0, window_bytes);
    watch(set_, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, made);
  }

  // Runs until the socket has nothing more to read or takes no more.
  void serve(connection& from) {
    if (from.writing) {
      if (!write(from)) return;
      from.writing = false;
      watch(set_, EPOLL_CTL_MOD, from.fd, EPOLLIN | EPOLLET, &from);
    }
    for (;;) {
      const ssize_t got = ::recv(from.fd, received_.data(), received_.size(), 0);
      if (got > 0) {
        const auto size = static_cast<std::size_t>(got);
        if (::nghttp2_session_mem_recv(from.session, received_.data(), size) != got) {
          return close(from);
        }
        if (!write(from)) return;
        if (size < received_.size()) return;  // what comes later is a new edge
      } else if (got < 0 && errno == EAGAIN) {
        return;
      } else if (got == 0 || errno != EINTR) {
        return close(from);
      }
    }
  }

  // All that the session has to say, in one go. False when the connection is closed or waits.
  bool write(connection& to) {
    const std::uint8_t* bytes = nullptr;
    ssize_t size = 0;
    while ((size = ::nghttp2_session_mem_send(to.session, &bytes)) > 0) {
      to.output.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    }
    const bool over = size < 0 || (::nghttp2_session_want_read(to.session) == 0 &&
                                   ::nghttp2_session_want_write(to.session) == 0);
    if (!to.output.empty()) {
      const ssize_t sent = ::send(to.fd, to.output.data(), to.output.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) {
        close(to);
        return false;
      }
      to.output.erase(0, sent < 0 ? 0 : static_cast<std::size_t>(sent));
    }
    if (over) {
      close(to);
      return false;
    }
    if (to.output.empty()) return true;
    if (!to.writing) watch(set_, EPOLL_CTL_MOD, to.fd, EPOLLOUT | EPOLLET, &to);
    to.writing = true;
    return false;
  }

  // A set reports a descriptor at most once per wait, so no later event names this connection.
  void close(connection& which) {
    ::nghttp2_session_del(which.session);
    for (const auto& each : all_) {
      if (each->of == &which) give_back(each.get());  // of a stream that it left open
    }
    ::close(which.fd);
    delete &which;
  }

  call* take_call(connection& of) {
    if (free_ == nullptr) give_back(all_.emplace_back(std::make_unique<call>()).get());
    call* const taken = free_;
    free_ = taken->next_free;
    taken->of = &of;
    return taken;
  }

  void give_back(call* which) {
    which->of = nullptr;
    which->what = method::unknown;
    which->request.clear();
    which->answer.clear();
    which->sent = 0;
    which->next_free = free_;
    free_ = which;
  }

  static call* call_of(nghttp2_session* session, std::int32_t stream) {
    return static_cast<call*>(::nghttp2_session_get_stream_user_data(session, stream));
  }

  static int on_begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* from) {
    connection& its = *static_cast<connection*>(from);
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      ::nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, its.in.take_call(its));
    }
    return 0;
  }

  static int on_header(nghttp2_session* session, const nghttp2_frame* frame,
                       const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                       std::size_t value_size, std::uint8_t /*flags*/, void* /*from*/) {
    if (name_size != 5 || std::memcmp(name, ":path", 5) != 0) return 0;
    const std::string_view path(reinterpret_cast<const char*>(value), value_size);
    call* const of = call_of(session, frame->hd.stream_id);
    if (path == "/helloworld.Greeter/SayHello") {
      of->what = method::say_hello;
    } else if (path == "/bwos.Work/Burn") {
      of->what = method::burn;
    }
    return 0;
  }

  static int on_data(nghttp2_session* session, std::uint8_t /*flags*/, std::int32_t stream,
                     const std::uint8_t* bytes, std::size_t size, void* /*from*/) {
    call* const of = call_of(session, stream);
    if (of->request.size() + size > message_bytes_max) return NGHTTP2_ERR_CALLBACK_FAILURE;
    of->request.append(reinterpret_cast<const char*>(bytes), size);
    return 0;
  }

  static int on_frame(nghttp2_session* session, const nghttp2_frame* frame, void* from) {
    const bool request = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (request && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      static_cast<connection*>(from)->in.answer(session, frame->hd.stream_id);
    }
    return 0;
  }

  static int on_close(nghttp2_session* session, std::int32_t stream, std::uint32_t /*error*/,
                      void* from) {
    call* const of = call_of(session, stream);
    if (of != nullptr) static_cast<connection*>(from)->in.give_back(of);
    return 0;
  }

  void answer(nghttp2_session* session, std::int32_t stream) {
    call& of = *call_of(session, stream);
    of.status = run(of);
    const std::array<nghttp2_nv, 3> head{field(":status", "200"),
                                         field("content-type", "application/grpc"),
                                         field("grpc-status", of.status)};
    if (of.answer.empty()) {
      ::nghttp2_submit_response(session, stream, head.data(), 3, nullptr);
      return;
    }
    nghttp2_data_provider body{};
    body.source.ptr = &of;
    body.read_callback = read_answer;
    ::nghttp2_submit_response(session, stream, head.data(), 2, &body);
  }

  // The grpc-status; the answer where it is "0".
  const char* run(call& of) {
    const std::string& all = of.request;
    if (of.what == method::unknown) return "12";
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(all[at]); };
    if (all.size() < prefix_bytes || byte(0) != 0) return "13";
    const std::size_t size = std::size_t{byte(1)} << 24 | std::size_t{byte(2)} << 16 |
                             std::size_t{byte(3)} << 8 | byte(4);
    if (size != all.size() - prefix_bytes) return "13";
    const char* const message = all.data() + prefix_bytes;
    if (of.what == method::say_hello) {
      if (!hello_request_.ParseFromArray(message, static_cast<int>(size))) return "13";
      hello_reply_.mutable_message()->assign("Hello ").append(hello_request_.name());
      write_message(of.answer, hello_reply_);
    } else {
      if (!burn_request_.ParseFromArray(message, static_cast<int>(size))) return "13";
      burn_reply_.set_us(burn_thread_cpu(burn_request_.us()));
      write_message(of.answer, burn_reply_);
    }
    return "0";
  }

  template <class Message>
  static void write_message(std::string& out, const Message& message) {
    const std::size_t size = message.ByteSizeLong();
    out.resize(prefix_bytes + size);
    out[0] = 0;
    for (std::size_t i = 0; i < 4; ++i) out[1 + i] = static_cast<char>(size >> (24 - 8 * i));
    message.SerializeWithCachedSizesToArray(
        reinterpret_cast<std::uint8_t*>(out.data() + prefix_bytes));
  }

  static ssize_t read_answer(nghttp2_session* session, std::int32_t stream, std::uint8_t* to,
                             std::size_t room, std::uint32_t* flags, nghttp2_data_source* source,
                             void* /*from*/) {
    call& of = *static_cast<call*>(source->ptr);
    const std::size_t size = of.answer.copy(reinterpret_cast<char*>(to), room, of.sent);
    of.sent += size;
    if (of.sent == of.answer.size()) {
      *flags = NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
      const nghttp2_nv status = field("grpc-status", of.status);
      ::nghttp2_submit_trailer(session, stream, &status, 1);
    }
    return static_cast<ssize_t>(size);
  }

  int listener_;
  int set_ = -1;
  nghttp2_session_callbacks* callbacks_ = nullptr;
  nghttp2_option* option_ = nullptr;
  std::vector<std::unique_ptr<call>> all_;  // as many as were ever in flight at once
  call* free_ = nullptr;
  // One of each, so that their strings keep their memory.
  helloworld::HelloRequest hello_request_;
  helloworld::HelloReply hello_reply_;
  BurnRequest burn_request_;
  BurnReply burn_reply_;
  std::array<std::uint8_t, receive_bytes> received_;
};

void serve(options with) {
  raise_descriptor_limit();
  std::vector<int> listeners;
  for (int i = 0; i < with.threads; ++i) listeners.push_back(listen_on(with));
  const auto run = [&](int index) {
    pin_this_thread(with, index);
    loop(listeners[static_cast<std::size_t>(index)]).run();
  };
  std::vector<std::thread> others;
  for (int i = 1; i < with.threads; ++i) others.emplace_back(run, i);
  print_ready(with, speaks::grpc);
  run(0);
}

}  // namespace
}  // namespace bwos::peer

int main(int argc, char** argv) {
  using namespace bwos::peer;
  serve(parse_options(argc, argv, speaks::grpc));
}
