// Requests and replies are messages over a socket pair: a head of fixed size, then the text. The child limits itself:
// RLIMIT_AS bounds its memory, and a timer of its processor time ends it by SIGPROF. The limit is not wall-clock time,
// so that a loaded machine accepts the same inputs as an idle one. The parent also has a generous limit of wall-clock
// time, in case a child hangs.
#include "base/limited_process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>
#include <exception>
#include <new>

#include "base/error.h"
#include "base/io.h"
#include "base/sysinfo.h"

namespace amp {

namespace {

using Clock = std::chrono::steady_clock;

struct RequestHead {
  int64_t size;
  double seconds;  // limit of the child's total processor time; the child is ended when it is reached
  int64_t most;    // largest length of the reply
};
struct ReplyHead {
  int64_t size;
  LimitedProcess::Outcome outcome;
};

bool send_all(int fd, const void* bytes, size_t size) {
  for (const char* at = static_cast<const char*>(bytes); size > 0;) {
    const ssize_t n = retried([&] { return ::send(fd, at, size, MSG_NOSIGNAL); });
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

constexpr size_t kShort = 4096;  // texts up to this length are sent and received with their head, by one system call

template <class Head>
bool send_message(int fd, const Head& head, std::string_view text) {
  char buffer[sizeof(Head) + kShort];
  const size_t n = std::min(text.size(), kShort);
  std::memcpy(buffer, &head, sizeof head);
  std::copy_n(text.data(), n, buffer + sizeof head);  // text.data() may be null if n is 0
  return send_all(fd, buffer, sizeof head + n) && send_all(fd, text.data() + n, text.size() - n);
}

// Receives up to `size` bytes, at least one. Returns 0 at the end of the stream and after `deadline`. The deadline is
// checked each time that the socket's timeout has passed.
size_t receive(int fd, char* to, size_t size, Clock::time_point deadline) {
  while (true) {
    const ssize_t n = ::recv(fd, to, size, 0);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR && errno != EAGAIN) return 0;
    if (Clock::now() > deadline) return 0;
  }
}

// Waits for a message. At most one message is in flight, because the other process sends its next one only after the
// answer.
template <class Head>
bool receive_message(int fd, Head& head, std::string& text, Clock::time_point deadline = Clock::time_point::max()) {
  char buffer[sizeof(Head) + kShort];
  size_t have = 0;
  while (have < sizeof head) {
    const size_t n = receive(fd, buffer + have, sizeof buffer - have, deadline);
    if (n == 0) return false;
    have += n;
  }
  std::memcpy(&head, buffer, sizeof head);
  text.assign(buffer + sizeof head, have - sizeof head);
  size_t at = text.size();
  text.resize(static_cast<size_t>(head.size));
  while (at < text.size()) {
    const size_t n = receive(fd, text.data() + at, text.size() - at, deadline);
    if (n == 0) return false;
    at += n;
  }
  return true;
}

void lower_limit(int resource, int64_t value) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  limit.rlim_cur = std::min(static_cast<rlim_t>(value), limit.rlim_max);
  ::setrlimit(resource, &limit);
}

// Makes SIGPROF end this process when its total processor time reaches the limit.
void set_timer(double seconds) {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  const double left = seconds - static_cast<double>(used.tv_sec) - static_cast<double>(used.tv_nsec) * 1e-9;
  const auto microseconds = static_cast<int64_t>(std::max(left, 1e-3) * 1e6);
  itimerval timer{};
  timer.it_value.tv_sec = microseconds / 1'000'000;
  timer.it_value.tv_usec = microseconds % 1'000'000;
  ::setitimer(ITIMER_PROF, &timer, nullptr);
}

// Closes the files that the child has inherited from its parent, which also drops their locks, and resets signal
// handlers. The child ignores requests to stop; it ends when the parent closes its end of the socket.
void leave_parent(int keep) {
  for (int s = 1; s < NSIG; ++s) std::signal(s, SIG_DFL);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ}) std::signal(s, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const auto close_range = [](int from, int to) {
    if (from > to || ::syscall(SYS_close_range, from, to, 0) == 0) return;
    for (int fd = from; fd <= std::min(to, 65536); ++fd) ::close(fd);  // before Linux 5.9: no close_range()
  };
  close_range(0, std::min(1, keep - 1));
  close_range(3, keep - 1);
  close_range(std::max(3, keep + 1), INT_MAX);
  lower_limit(RLIMIT_CORE, 0);
  rlimit stack{};
  ::getrlimit(RLIMIT_STACK, &stack);
  if (stack.rlim_cur > rlim_t{8} << 20) lower_limit(RLIMIT_STACK, int64_t{8} << 20);
}

ReplyHead answer(const LimitedProcess::Function& function, const std::string& request, int64_t most,
                 std::string& text) {
  using Outcome = LimitedProcess::Outcome;
  Outcome outcome = Outcome::answered;
  try {
    text = function(request);
  } catch (const std::bad_alloc&) {
    outcome = Outcome::memory;
  } catch (const std::exception& e) {
    text = std::string(e.what()).substr(0, 2000);
    outcome = Outcome::refused;
  }
  if (outcome == Outcome::answered && static_cast<int64_t>(text.size()) > most) outcome = Outcome::reply;
  if (outcome == Outcome::memory || outcome == Outcome::reply) text.clear();
  return {static_cast<int64_t>(text.size()), outcome};
}

[[noreturn]] void run_child(const LimitedProcess::Function& function, const ProcessLimits& limits, int socket) {
  leave_parent(socket);
  const int64_t at_start = mapped_bytes();
  int64_t largest = -1;
  RequestHead head{};
  std::string request;
  while (receive_message(socket, head, request)) {
    if (head.size > largest) {
      largest = head.size;
      lower_limit(RLIMIT_AS, at_start + limits.bytes + limits.bytes_per_byte * largest);
    }
    set_timer(head.seconds);
    std::string text;
    const ReplyHead reply = answer(function, request, head.most, text);
    if (!send_message(socket, reply, text)) break;
  }
  ::_exit(0);
}

}  // namespace

LimitedProcess::LimitedProcess(const Function& function, ProcessLimits limits)
    : limits_(limits), seconds_(limits.seconds) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    fail(Exit::memory, "E_OOM", cat("cannot connect a helper process: ", std::strerror(errno)));
  // All signals are blocked during fork(), so that no signal handler of the parent runs in the child.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  child_ = ::fork();
  if (child_ == 0) run_child(function, limits_, pair[1]);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(pair[1]);
  socket_ = pair[0];
  const timeval second{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  if (child_ < 0) {
    ::close(socket_);
    fail(Exit::memory, "E_OOM", cat("cannot start a helper process: ", std::strerror(error)),
         "allow this program more processes");
  }
}

LimitedProcess::~LimitedProcess() {
  if (child_ > 0) ended();
}

// Ends the child if it still runs. Returns the reason why it ended.
LimitedProcess::Reply LimitedProcess::ended() {
  ::kill(child_, SIGKILL);  // does nothing if the child has ended
  int status = 0;
  retried([&] { return ::waitpid(child_, &status, 0); });
  ::close(socket_);
  child_ = socket_ = -1;
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return {signal == SIGPROF || signal == SIGKILL ? Outcome::time : Outcome::crashed, {}};
}

LimitedProcess::Reply LimitedProcess::ask(std::string_view request, int64_t steps) {
  if (child_ < 0) return {};
  const auto size = static_cast<int64_t>(request.size());
  const double allowed =
      static_cast<double>(steps) * (limits_.seconds_per_step + limits_.seconds_per_byte * static_cast<double>(size));
  seconds_ += allowed;
  const RequestHead head{size, seconds_, limits_.reply + limits_.reply_per_byte * size};
  const auto deadline = Clock::now() + std::chrono::seconds(30 + static_cast<int64_t>(20 * allowed));
  ReplyHead reply{};
  Reply out;
  // If the child has ended, the parent receives the end of the stream instead of a reply.
  if (!send_message(socket_, head, request) || !receive_message(socket_, reply, out.text, deadline)) return ended();
  out.outcome = reply.outcome;
  if (out.outcome != Outcome::answered && out.outcome != Outcome::refused) ended();
  return out;
}

}  // namespace amp
