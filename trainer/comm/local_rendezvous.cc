// Rendezvous by an abstract Unix socket named after the launcher's job. Rank 0 listens; the other ranks connect and
// identify themselves by a handshake. Only processes of the same user are accepted. Rank 0 answers the handshakes when
// all ranks have connected.

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
#include "trainer/comm/pending_connections.h"

namespace amp {

namespace {

using nlohmann::json;

constexpr double kLocalRetrySeconds = 0.02;
constexpr double kLocalHelloSeconds = 5;
constexpr double kLocalGoneSeconds = 0.5;  // rank 0 is lost if it disconnected and is then unreachable for so long

const char* word(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

[[noreturn]] void lost(const std::string& fact) {
  fail(Exit::distributed, "E_RANK_LOST", fact, "its own messages give the reason");
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
  LocalRendezvous(const LocalEndpoint& place, const RankAccess& access, double connect_timeout)
      : place_(place),
        access_(access),
        key_(handshake_key(access, "ranks of one machine")),
        connect_timeout_(connect_timeout),
        until_(steady_seconds() + connect_timeout),
        me_(this_process(place.rank)) {}

  std::vector<Connected> run_root() {
    const Socket listener = unix_socket();
    const Name name(place_.name);
    if (!listener.open() || ::bind(listener.descriptor(), name.address(), name.size) != 0 ||
        ::listen(listener.descriptor(), SOMAXCONN) != 0)
      fail(Exit::distributed, "E_MPI", cat("rank 0 cannot listen for the others: ", std::strerror(errno)),
           "another run of the same job still listens");
    others_.resize(static_cast<size_t>(place_.size - 1));
    handshakes_.resize(others_.size());
    PendingConnections pending(listener.descriptor(), key_, place_.size, same_user);
    for (int missing = place_.size - 1; missing > 0;) {
      if (steady_seconds() > until_) fail_missing(pending.strangers());
      for (PendingConnections::Arrival& a : wait(pending)) {
        if (admit(a))
          --missing;
        else
          pending.count_foreign(a);
      }
    }
    answer_all({{"host", me_.host}, {"pid", me_.pid}});
    if (const std::string strangers = pending.strangers(); !strangers.empty()) access_.log.note(strangers);
    return std::move(others_);
  }

  std::vector<Connected> join() {
    const Name name(place_.name);
    double closed = 0;  // time at which rank 0 closed the connection; 0: it did not
    while (true) {
      if (steady_seconds() > until_) missing("rank 0");
      Socket s = unix_socket();
      if (s.open() && ::connect(s.descriptor(), name.address(), name.size) == 0 && same_user(s.descriptor())) {
        Handshake handshake(key_);
        const json hello{{"rank", me_.rank}, {"host", me_.host}, {"pid", me_.pid}};
        const FrameResult sent =
            handshake.send_hello(s.descriptor(), hello, std::min(until_, steady_seconds() + kLocalHelloSeconds));
        if (sent == FrameResult::frame) return welcomed(std::move(s), handshake);
        closed = sent == FrameResult::closed ? steady_seconds() : 0;
      }
      if (closed > 0 && steady_seconds() - closed > kLocalGoneSeconds) lost("rank 0 left before all ranks had started");
      std::this_thread::sleep_for(std::chrono::duration<double>(kLocalRetrySeconds));
    }
  }

 private:
  [[noreturn]] void missing(const std::string& who) const {
    fail(Exit::distributed, "E_MPI",
         cat("of ", place_.size, " ranks on this machine did not connect within ", connect_timeout_, " s: ", who),
         "another process failed at its start, or hangs; else a longer `heartbeat`");
  }

  [[noreturn]] void fail_missing(const std::string& strangers) {
    std::string who;
    for (size_t i = 0; i < others_.size(); ++i) {
      if (others_[i].socket.descriptor() < 0) who += cat(who.empty() ? "rank " : ", rank ", i + 1);
    }
    if (!strangers.empty()) who += cat("; ", strangers);
    missing(who);
  }

  // Waits up to 0.2 s for processes that have the key. Fails if a connected rank disconnects meanwhile.
  std::vector<PendingConnections::Arrival> wait(PendingConnections& pending) {
    std::vector<pollfd> waits;
    std::vector<const Connected*> who;
    for (const Connected& c : others_) {
      if (c.socket.descriptor() < 0) continue;
      waits.push_back({c.socket.descriptor(), POLLRDHUP, 0});
      who.push_back(&c);
    }
    std::vector<PendingConnections::Arrival> arrivals = pending.wait(0.2, waits);
    for (size_t i = 0; i < waits.size(); ++i) {
      if (!waits[i].revents) continue;
      const std::string fact = cat(who[i]->process.text(), " left before all ranks had started");
      answer_all({{"lost", fact}});
      lost(fact);
    }
    return arrivals;
  }

  void answer_all(const json& answer) {
    for (size_t i = 0; i < others_.size(); ++i) {
      const int socket = others_[i].socket.descriptor();
      if (socket >= 0) handshakes_[i].send_answer(socket, answer, steady_seconds() + 1);
    }
  }

  bool admit(PendingConnections::Arrival& a) {
    const json rank = a.hello.value("rank", json()), host = a.hello.value("host", json()),
               pid = a.hello.value("pid", json());
    if (!rank.is_number_integer() || rank < 1 || rank >= place_.size || !host.is_string() || !pid.is_number_integer())
      return false;
    const size_t at = rank.get<size_t>() - 1;
    if (others_[at].socket.descriptor() >= 0) return false;
    others_[at] = {LineSocket(std::move(a.socket)),
                   {rank.get<int>(), printable(host.get<std::string>()), pid.get<int64_t>()}};
    handshakes_[at] = std::move(a.handshake);
    return true;
  }

  std::vector<Connected> welcomed(Socket socket, const Handshake& handshake) {
    json answer;
    const FrameResult result = handshake.read_answer(socket.descriptor(), answer, until_ + kLocalHelloSeconds);
    if (result == FrameResult::closed) lost("rank 0 left before all ranks had started");
    if (result == FrameResult::unproven) tokens_differ(me_, cat("the socket ", place_.name));
    if (result != FrameResult::frame) missing("rank 0 does not answer");
    if (answer.contains("lost")) lost(printable(answer.value("lost", "")));
    std::vector<Connected> out(1);
    out[0] = {LineSocket(std::move(socket)), {0, printable(answer.value("host", "")), answer.value("pid", int64_t{0})}};
    return out;
  }

  const LocalEndpoint& place_;
  const RankAccess& access_;
  const std::string key_;
  const double connect_timeout_, until_;
  const RankProcess me_;
  std::vector<Connected> others_;
  std::vector<Handshake> handshakes_;  // one per element of others_
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

std::vector<Connected> rendezvous_on_this_machine(const LocalEndpoint& place, const RankAccess& access,
                                                  double connect_timeout) {
  LocalRendezvous rendezvous(place, access, connect_timeout);
  return place.rank == 0 ? rendezvous.run_root() : rendezvous.join();
}

}  // namespace amp
