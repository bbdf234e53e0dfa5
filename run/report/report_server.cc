// HTTP server of a live report, with GNU libmicrohttpd in one thread. Requests are answered from memory or from two log
// files that are opened by fixed names. The Host header is checked against DNS rebinding.
#include "run/report/report_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/io.h"
#include "base/steady_seconds.h"
#include "base/text.h"
#include "run/report/report_page.h"

namespace amp {

namespace {

constexpr unsigned kConnections = 16, kSeconds = 10;
constexpr size_t kMemory = 32768;  // bytes per connection: the request and the response headers
constexpr double kFresh = 0.5;     // seconds during which data that were read are reused

struct HttpAnswer {
  unsigned status = MHD_HTTP_OK;
  std::string type = "text/plain; charset=utf-8", text = {};
  int file = -1;  // descriptor of a file that is sent instead of the text; -1: none
  uint64_t size = 0;
};

bool is_this_machine(const char* host) {
  if (!host) return false;
  std::string_view name = host;
  const size_t colon = name.rfind(':');
  if (colon != std::string_view::npos && all_digits(name.substr(colon + 1))) name = name.substr(0, colon);
  return name == "127.0.0.1" || name == "localhost" || name == "[::1]";
}

int listen_on(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int yes = 1;  // a later run may reuse the port
  if (fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
      ::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 && ::listen(fd, kConnections) == 0)
    return fd;
  const int why = errno;
  if (fd >= 0) ::close(fd);
  fail(Exit::usage, "E_SERVE", cat("cannot listen on 127.0.0.1:", port, ": ", std::strerror(why)),
       "`serve` without a port takes a free one");
}

int port_of(int fd) {
  sockaddr_in at{};
  socklen_t size = sizeof at;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0 ? ntohs(at.sin_port) : 0;
}

// Blocks all signals in threads that are created during its lifetime, so that other threads handle them.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

struct ReportServer::Daemon {
  std::mutex mutex;
  std::string folder;              // guarded by the mutex
  std::optional<ReportData> data;  // data of `folder`; read by the daemon's thread, replaced under the mutex
  std::string json;                // the JSON of `data` that was read last
  double read_at = 0;
  int port = 0;
  MHD_Daemon* mhd = nullptr;

  std::string report() {
    const std::lock_guard lock(mutex);
    if (!data) data.emplace(folder);
    if (json.empty() || steady_seconds() - read_at > kFresh) {
      json = page_json(page_data({data->read()}, true));
      read_at = steady_seconds();
    }
    return json;
  }

  HttpAnswer lines(const char* name) {
    std::string path;
    {
      const std::lock_guard lock(mutex);
      path = folder + "/" + name;
    }
    HttpAnswer out;
    out.type = "application/jsonl; charset=utf-8";
    struct stat s {};
    out.file = open_file(path.c_str(), O_RDONLY | O_NOFOLLOW);
    if (out.file >= 0 && ::fstat(out.file, &s) == 0 && S_ISREG(s.st_mode)) {
      out.size = static_cast<uint64_t>(s.st_size);
      return out;
    }
    if (out.file >= 0) ::close(out.file);
    out.file = -1;  // an empty answer, because the file does not exist yet
    return out;
  }

  HttpAnswer answer(std::string_view path) {
    if (path == "/" || path == "/report.html")
      return {MHD_HTTP_OK, "text/html; charset=utf-8", page_of(nlohmann::json::parse(report()))};
    if (path == "/report.json") return {MHD_HTTP_OK, "application/json", report()};
    if (path == "/metrics.jsonl" || path == "/eval.jsonl") return lines(path.data() + 1);
    return {MHD_HTTP_NOT_FOUND, "text/plain; charset=utf-8",
            "There is /, /report.json, /metrics.jsonl, /eval.jsonl.\n"};
  }
};

namespace {

MHD_Result send(MHD_Connection* to, const HttpAnswer& a) {
  MHD_Response* const r = a.file >= 0 ? MHD_create_response_from_fd64(a.size, a.file)  // libmicrohttpd closes the file
                                      : MHD_create_response_from_buffer(a.text.size(), const_cast<char*>(a.text.data()),
                                                                        MHD_RESPMEM_MUST_COPY);
  if (!r) {
    if (a.file >= 0) ::close(a.file);
    return MHD_NO;
  }
  static constexpr std::array<std::pair<const char*, const char*>, 5> headers{
      {{"Cache-Control", "no-store"},
       {"X-Content-Type-Options", "nosniff"},
       {"Cross-Origin-Resource-Policy", "same-origin"},
       {"Referrer-Policy", "no-referrer"},
       {"X-Frame-Options", "DENY"}}};
  for (const auto& [name, value] : headers) MHD_add_response_header(r, name, value);
  // The page has the same policy in a meta element, for the file report.html. There, frame-ancestors has no effect.
  static const std::string policy = page_policy() + "; frame-ancestors 'none'";
  MHD_add_response_header(r, "Content-Security-Policy", policy.c_str());
  MHD_add_response_header(r, "Content-Type", a.type.c_str());
  if (a.status == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(r, "Allow", "GET, HEAD");
  const MHD_Result sent = MHD_queue_response(to, a.status, r);
  MHD_destroy_response(r);
  return sent;
}

HttpAnswer refused(unsigned status, std::string text) { return {status, "text/plain; charset=utf-8", std::move(text)}; }

// Called from C, so it must not throw.
template <class D>
MHD_Result respond(void* self, MHD_Connection* from, const char* url, const char* method, const char*, const char*,
                   size_t*, void**) {
  try {
    if (std::strcmp(method, "GET") != 0 && std::strcmp(method, "HEAD") != 0)
      return send(from, refused(MHD_HTTP_METHOD_NOT_ALLOWED, "This server is read-only.\n"));
    if (!is_this_machine(MHD_lookup_connection_value(from, MHD_HEADER_KIND, "Host")))
      return send(from, refused(MHD_HTTP_FORBIDDEN, "This server is called 127.0.0.1 or localhost.\n"));
    return send(from, static_cast<D*>(self)->answer(url));
  } catch (const std::exception&) {  // a file is being moved; the next request will find it
    return send(from, refused(MHD_HTTP_SERVICE_UNAVAILABLE, "The run's files are being moved.\n"));
  }
}

}  // namespace

ReportServer::ReportServer(std::string run_folder, int port) : daemon_(std::make_unique<Daemon>()) {
  daemon_->folder = std::move(run_folder);
  const int fd = listen_on(port);
  daemon_->port = port_of(fd);
  const NoSignals block;
  daemon_->mhd = MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD, 0, nullptr, nullptr, respond<Daemon>, daemon_.get(),
                                  MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, kConnections,
                                  MHD_OPTION_CONNECTION_TIMEOUT, kSeconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, kMemory,
                                  MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
  if (daemon_->mhd) return;
  const int why = errno;
  ::close(fd);
  fail(Exit::usage, "E_SERVE", cat("cannot serve on 127.0.0.1:", daemon_->port, ": ", std::strerror(why)));
}

ReportServer::~ReportServer() { MHD_stop_daemon(daemon_->mhd); }

std::string ReportServer::address() const { return cat("http://127.0.0.1:", daemon_->port, "/"); }

int ReportServer::port() const { return daemon_->port; }

void ReportServer::moved(std::string run_folder) {
  const std::lock_guard lock(daemon_->mutex);
  daemon_->folder = std::move(run_folder);
  daemon_->data.reset();
  daemon_->json.clear();
}

}  // namespace amp
