// SPDX-License-Identifier: Apache-2.0
// nginx behind the flags and the ready line of the peers: writes a configuration into a folder of
// its own, starts nginx with it and ends when nginx does. SIGTERM and SIGINT are passed on.
//
// --threads N is worker_processes. There is no /work. nginx's answers have Server, Date and
// Connection more than those of the other peers, whatever --date says, and /echo's are chunked: the
// echo module does not know their length when it writes the head.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "common/http.hpp"
#include "common/options.hpp"
#include "common/socket.hpp"

namespace bwos::peer {
namespace {

constexpr auto start_patience = std::chrono::seconds(10);
constexpr timespec look_again{.tv_sec = 0, .tv_nsec = 20'000'000};

// Tuned as for any such test: a listener for each worker (reuseport) with a backlog like that of
// the other peers, whole batches accepted, no access log, connections that are never ended for
// their number of requests, and bodies kept in memory.
std::string configuration(const options& with, const std::string& folder) {
  const std::string body_bytes = std::to_string(body_bytes_max);
  const std::string ipv6 = is_ipv6(with) ? " ipv6only=off" : "";
  std::string text = "load_module /usr/lib/nginx/modules/ngx_http_echo_module.so;\n";
  text += "daemon off;\n";
  text += "worker_processes " + std::to_string(with.threads) + ";\n";
  text += "pid " + folder + "/pid;\n";
  text += "events { worker_connections 16384; multi_accept on; }\n";
  text += "http {\n";
  for (const char* of : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}) {
    text += std::string("  ") + of + "_temp_path " + folder + "/" + of + ";\n";
  }
  text += "  access_log off;\n";
  text += "  server_tokens off;\n";
  text += "  default_type text/plain;\n";
  text += "  keepalive_requests 1000000000;\n";
  text += "  client_max_body_size " + body_bytes + ";\n";
  text += "  client_body_buffer_size " + body_bytes + ";\n";
  text += "  server {\n";
  text += "    listen " + endpoint(with) + " reuseport backlog=" + std::to_string(SOMAXCONN) +
          ipv6 + ";\n";
  text += "    location = /plaintext { return 200 'Hello, World!'; }\n";
  text += "    location = /echo { echo_read_request_body; echo_request_body; }\n";
  text += "    location / { return 404; }\n";
  text += "  }\n}\n";
  return text;
}

// Removed with all that is in it.
class temporary_folder {
 public:
  temporary_folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "bwos-nginx-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) fail(pattern.c_str());
    path_ = pattern;
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

sigset_t signals_of_interest() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int each : {SIGTERM, SIGINT, SIGCHLD}) ::sigaddset(&set, each);
  return set;
}

[[noreturn]] void become_nginx(const std::string& file, pid_t parent, const sigset_t& blocked) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // also where we are killed
  if (::getppid() != parent) ::_exit(1);
  ::sigprocmask(SIG_UNBLOCK, &blocked, nullptr);
  // Debian's is in /usr/sbin, which few users have in their PATH.
  const char* const path = std::getenv("PATH");
  ::setenv("PATH", (std::string(path != nullptr ? path : "/usr/bin:/bin") + ":/usr/sbin").c_str(),
           1);
  ::execlp("nginx", "nginx", "-e", "stderr", "-c", file.c_str(), nullptr);
  std::perror("cannot run nginx");
  ::_exit(1);
}

// Until nginx ends. Its exit status. It listens once `pid_file` is there.
int watch_over(pid_t nginx, const std::string& pid_file, const options& with,
               const sigset_t& signals) {
  const auto began = std::chrono::steady_clock::now();
  bool ready = false;
  bool told = false;  // to end
  for (;;) {
    const int signal = ready && !told ? ::sigwaitinfo(&signals, nullptr)
                                      : ::sigtimedwait(&signals, nullptr, &look_again);
    if (signal == SIGTERM || signal == SIGINT) told = true;
    if (told) ::kill(nginx, SIGTERM);  // again and again: it forgets one that comes while it starts
    int status = 0;
    if (::waitpid(nginx, &status, WNOHANG) == nginx) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    if (ready || told) continue;
    if (std::filesystem::exists(pid_file)) {
      print_ready(with);
      ready = true;
    } else if (std::chrono::steady_clock::now() - began > start_patience) {
      std::fprintf(stderr, "nginx does not listen on %s\n", endpoint(with).c_str());
      told = true;
    }
  }
}

int serve(options with) {
  raise_descriptor_limit();
  if (with.pin >= 0) pin_to(with.pin, with.threads);
  // Ours until nginx has it, and it does not listen: no connection goes to it.
  const int reserved = bind_to(with);
  const sigset_t signals = signals_of_interest();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);  // from now on they end nginx, and we clean up
  const temporary_folder folder;
  const std::string file = folder.path() + "/nginx.conf";
  std::ofstream(file) << configuration(with, folder.path());
  const pid_t self = ::getpid();
  const pid_t nginx = ::fork();
  if (nginx < 0) fail("fork");
  if (nginx == 0) become_nginx(file, self, signals);
  const int status = watch_over(nginx, folder.path() + "/pid", with, signals);
  ::close(reserved);
  return status;
}

}  // namespace
}  // namespace bwos::peer

int main(int argc, char** argv) {
  return bwos::peer::serve(bwos::peer::parse_options(argc, argv));
}
