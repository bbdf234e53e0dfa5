// Rendezvous by an abstract Unix socket named after the launcher's job. Rank 0 listens; the other ranks connect and
// identify themselves. Only processes of the same user are accepted. Rank 0 answers when all ranks have connected.

#include "trainer/comm/local_rendezvous.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/steady_seconds.h"
#include "base/text.h"

namespace amp {

namespace {

using nlohmann::json;

constexpr double kLobbyRetrySeconds = 0.02;
constexpr double kLobbyHelloSeconds = 5;

const char* word(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

[[noreturn]] void lost(const std::string& fact) {
  fail(Exit::distributed, "E_RANK_LOST", fact, "its own messages say why");
}

// An address in Linux's abstract socket namespace. It is not a file, so nothing has to be removed afterwards.
struct Name {
  sockaddr_un at = {};
  socklen_t size = 0;
  explicit Name(const std::string& name) {
    at.sun_family = AF_UNIX;
    const size_t n = std::min(name.size(), sizeof at.sun_path - 1);
    std::memcpy(at.sun_path + 1, name.data(), n);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
  }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&at); }
};

bool same_user(int socket) {
  ucred who = {};
  socklen_t size = sizeof who;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == ::getuid();
}

Socket unix_socket() { return Socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

class LocalRendezvous {
 public:
  LocalRendezvous(const LocalEndpoint& place, double connect_timeout)
      : place_(place),
        connect_timeout_(connect_timeout),
        until_(steady_seconds() + connect_timeout),
        me_(this_process(place.rank)) {}

  std::vector<Connected> run_root() {
    const Socket listener = unix_socket();
    const Name name(place_.name);
    if (!listener.open() || ::bind(listener.descriptor(), name.address(), name.size) != 0 ||
        ::listen(listener.descriptor(), place_.size) != 0)
      fail(Exit::distributed, "E_MPI", cat("rank 0 cannot listen for the others: ", std::strerror(errno)),
           "another run of the same job still listens");
    others_.resize(static_cast<size_t>(place_.size - 1));
    for (int missing = place_.size - 1; missing > 0;) {
      if (steady_seconds() > until_) tell_absent();
      wait(listener);
      missing -= admit(Socket(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
    }
    for (Connected& c : others_) c.socket.send({{"host", me_.host}, {"pid", me_.pid}});
    return std::move(others_);
  }

  std::vector<Connected> join() {
    const Name name(place_.name);
    while (true) {
      if (steady_seconds() > until_) missing("rank 0");
      Socket s = unix_socket();
      if (s.open() && ::connect(s.descriptor(), name.address(), name.size) == 0 && same_user(s.descriptor()))
        return welcomed(LineSocket(std::move(s)));
      std::this_thread::sleep_for(std::chrono::duration<double>(kLobbyRetrySeconds));
    }
  }

 private:
  [[noreturn]] void missing(const std::string& who) const {
    fail(Exit::distributed, "E_MPI",
         cat("of ", place_.size, " ranks on this machine did not come within ", connect_timeout_, " s: ", who),
         "another process failed at its start, or hangs; else a longer `heartbeat`");
  }

  [[noreturn]] void tell_absent() {
    std::string who;
    for (size_t i = 0; i < others_.size(); ++i) {
      if (others_[i].socket.descriptor() < 0) who += cat(who.empty() ? "rank " : ", rank ", i + 1);
    }
    missing(who);
  }

  // Waits up to 0.2 s for a new connection. Fails if a connected rank disconnects meanwhile.
  void wait(const Socket& listener) {
    std::vector<pollfd> waits{{listener.descriptor(), POLLIN, 0}};
    std::vector<const Connected*> who;
    for (const Connected& c : others_) {
      if (c.socket.descriptor() < 0) continue;
      waits.push_back({c.socket.descriptor(), POLLRDHUP, 0});
      who.push_back(&c);
    }
    ::poll(waits.data(), waits.size(), 200);
    for (size_t i = 1; i < waits.size(); ++i) {
      if (!waits[i].revents) continue;
      const std::string fact = cat(who[i - 1]->process.text(), " left before all ranks had started");
      for (Connected& c : others_) {
        if (c.socket.descriptor() >= 0) c.socket.send({{"lost", fact}});
      }
      lost(fact);
    }
  }

  int admit(Socket socket) {
    if (!socket.open() || !same_user(socket.descriptor())) return 0;
    LineSocket s(std::move(socket));
    const std::optional<json> hello = s.first(std::min(until_, steady_seconds() + kLobbyHelloSeconds));
    const json rank = hello ? hello->value("rank", json()) : json();
    if (!rank.is_number_integer() || rank < 1 || rank >= place_.size) return 0;
    Connected& c = others_[rank.get<size_t>() - 1];
    if (c.socket.descriptor() >= 0) return 0;
    c = {std::move(s), {rank.get<int>(), printable(hello->value("host", "")), hello->value("pid", int64_t{0})}};
    return 1;
  }

  std::vector<Connected> welcomed(LineSocket socket) {
    socket.send({{"rank", me_.rank}, {"host", me_.host}, {"pid", me_.pid}});
    const std::optional<json> answer = socket.first(until_ + kLobbyHelloSeconds);
    if (!answer && socket.closed()) lost("rank 0 left before all ranks had started");
    if (!answer) missing("rank 0 does not answer");
    if (answer->contains("lost")) lost(printable(answer->value("lost", "")));
    std::vector<Connected> out(1);
    out[0] = {std::move(socket), {0, printable(answer->value("host", "")), answer->value("pid", int64_t{0})}};
    return out;
  }

  const LocalEndpoint& place_;
  const double connect_timeout_, until_;
  const RankProcess me_;
  std::vector<Connected> others_;
};

}  // namespace

std::optional<LocalEndpoint> local_endpoint() {
  const std::string size = word("OMPI_COMM_WORLD_SIZE"), here = word("OMPI_COMM_WORLD_LOCAL_SIZE");
  const std::string job = word("PMIX_NAMESPACE"), rank = word("OMPI_COMM_WORLD_RANK");
  if (size.empty() || size != here || job.empty() || rank.empty()) return {};
  LocalEndpoint out{std::atoi(rank.c_str()), std::atoi(size.c_str()), cat("onnx-amp-finetune.", ::getuid(), ".", job)};
  if (out.size < 2 || out.rank < 0 || out.rank >= out.size) return {};
  return out;
}

std::vector<Connected> rendezvous_on_this_machine(const LocalEndpoint& place, double connect_timeout) {
  LocalRendezvous rendezvous(place, connect_timeout);
  return place.rank == 0 ? rendezvous.run_root() : rendezvous.join();
}

}  // namespace amp
