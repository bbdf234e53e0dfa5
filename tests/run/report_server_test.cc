// The live report server over real sockets: its responses, and its reactions to malformed, slow and foreign requests.
#include "run/report/report_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using amp::test::expect_error;
using amp::test::TempDir;
using nlohmann::json;

namespace {

class Client {
 public:
  explicit Client(int port, const char* address = "127.0.0.1") : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    ::inet_pton(AF_INET, address, &to.sin_addr);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { ::close(fd_); }
  bool connected() const { return connected_; }
  void send(const std::string& text) const { CHECK(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) >= 0); }
  // Returns everything that arrives until the server closes.
  std::string receive() const {
    std::string out;
    char block[65536];
    for (pollfd p{fd_, POLLIN, 0}; ::poll(&p, 1, 20000) == 1;) {
      const ssize_t n = ::recv(fd_, block, sizeof block, 0);
      if (n <= 0) break;
      out.append(block, static_cast<size_t>(n));
    }
    return out;
  }

 private:
  int fd_;
  bool connected_ = false;
};

std::string ask(const ReportServer& server, const std::string& request) {
  const Client c(server.port());
  c.send(request);
  return c.receive();
}

std::string get(const ReportServer& server, const std::string& path, const std::string& host = "localhost",
                const std::string& method = "GET") {
  return ask(server, method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
}

int status(const std::string& answer) {
  return answer.starts_with("HTTP/1.") && answer.size() > 12 ? std::stoi(answer.substr(9, 3)) : 0;
}
std::string body(const std::string& answer) {
  return answer.substr(std::min(answer.size(), answer.find("\r\n\r\n") + 4));
}

std::string policy(const std::string& answer) {
  const std::string name = "\r\nContent-Security-Policy: ";
  const size_t at = std::min(answer.size(), answer.find(name));
  return at == answer.size() ? "" : answer.substr(at + name.size(), answer.find("\r\n", at + 2) - at - name.size());
}

struct Served {
  TempDir f;
  std::optional<ReportServer> server;
  Served() {
    std::ofstream(f / "run.json") << json{{"config", {{"model", "m.onnx"}}}, {"finished", false}};
    std::ofstream(f / "metrics.jsonl") << "{\"step\":0,\"loss\":2}\n";
    std::ofstream(f / "secret.txt") << "secret";
    server.emplace(f.path.string(), 0);
  }
};

}  // namespace

TEST_CASE("a live report answers with the page, what it shows and the lines of the logs") {
  Served s;
  const std::string page = get(*s.server, "/");
  CHECK(status(page) == 200);
  CHECK(page.find("Content-Type: text/html") != std::string::npos);
  CHECK(page.find("X-Content-Type-Options: nosniff") != std::string::npos);
  CHECK(page.find("Access-Control") == std::string::npos);
  CHECK(policy(page).starts_with("default-src 'none'; script-src 'sha256-"));
  CHECK(policy(page).ends_with("; frame-ancestors 'none'"));
  // The page's meta element has the same policy.
  const std::string inside = policy(page).substr(0, policy(page).rfind(';'));
  CHECK(body(page).find("Content-Security-Policy\" content=\"" + inside + "\"") != std::string::npos);
  for (const char* path : {"/report.json", "/metrics.jsonl", "/none"})
    CHECK(policy(get(*s.server, path)) == policy(page));
  CHECK(body(page).starts_with("<!DOCTYPE html>"));
  const json first = json::parse(body(get(*s.server, "/report.json")));
  CHECK(first["running"] == true);
  CHECK(first["runs"][0]["steps"]["loss"] == json{2});
  CHECK(body(get(*s.server, "/metrics.jsonl")) == "{\"step\":0,\"loss\":2}\n");
  CHECK(body(get(*s.server, "/eval.jsonl?x=1")).empty());
  CHECK(status(get(*s.server, "/eval.jsonl")) == 200);
  std::ofstream(s.f / "metrics.jsonl", std::ios::app) << "{\"step\":1,\"loss\":1}\n";
  ::usleep(600000);  // the server caches files for half a second
  CHECK(json::parse(body(get(*s.server, "/report.json")))["runs"][0]["steps"]["loss"] == json{2, 1});
}

TEST_CASE("a live report is read-only, and nothing but the report") {
  Served s;
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"}) {
    CAPTURE(method);
    const std::string answer = get(*s.server, "/", "localhost", method);
    CHECK(status(answer) == 405);
    CHECK(answer.find("Allow: GET, HEAD") != std::string::npos);
  }
  const std::string head = get(*s.server, "/metrics.jsonl", "localhost", "HEAD");
  CHECK(status(head) == 200);
  CHECK(body(head).empty());
  for (const char* path : {"/secret.txt", "/../secret.txt", "/run.json", "/%2e%2e/secret.txt", "//metrics.jsonl", "/.",
                           "/metrics.jsonl/", "/secret.txt%00/metrics.jsonl", "/checkpoints", "/METRICS.JSONL"}) {
    CAPTURE(path);
    const std::string answer = get(*s.server, path);
    CHECK(status(answer) == 404);
    CHECK(answer.find("secret\n") == std::string::npos);
  }
  // a log that is a symbolic link is not read
  std::filesystem::create_symlink(s.f / "secret.txt", s.f / "eval.jsonl");
  CHECK(body(get(*s.server, "/eval.jsonl")).empty());
}

TEST_CASE("a live report answers to this machine's names alone") {
  Served s;
  const std::string port = std::to_string(s.server->port());
  for (const std::string host : {"localhost", "127.0.0.1", "[::1]"}) {
    CHECK(status(get(*s.server, "/", host)) == 200);
    CHECK(status(get(*s.server, "/", host + ":" + port)) == 200);
    CHECK(status(get(*s.server, "/", host + ":8080")) == 200);  // as in a request through an SSH tunnel
  }
  for (const std::string host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80",
                                 "evil.example:127", "", "localhost:80:80"}) {
    CAPTURE(host);
    CHECK(status(get(*s.server, "/report.json", host)) == 403);
  }
  CHECK(status(ask(*s.server, "GET / HTTP/1.0\r\n\r\n")) == 403);  // HTTP/1.0: a request without a host name
  // the server listens on the loopback address only
  CHECK_FALSE(Client(s.server->port(), "127.0.0.2").connected());
}

TEST_CASE("malformed, huge and slow requests leave a live report answering") {
  Served s;
  for (const std::string& request :
       {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), std::string("GET\r\n\r\n"),
        std::string("GET / HTTP/9.9\r\nHost: localhost\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nHost localhost\r\n\r\n"),
        "GET /" + std::string(60000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(60000, 'b') + "\r\n\r\n",
        std::string("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n")}) {
    const Client c(s.server->port());
    c.send(request);
    CHECK(status(get(*s.server, "/")) == 200);
  }
  CHECK(status(ask(*s.server, "GET /" + std::string(60000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n")) >= 400);
  const Client slow(s.server->port());  // sends half of a request
  slow.send("GET / HTTP/1.1\r\nHo");
  CHECK(status(get(*s.server, "/")) == 200);
  const Client idle(s.server->port());
  s.server.reset();  // clients do not prevent the server from ending
}

TEST_CASE("more clients than a live report has room for are turned away, and the others answered") {
  Served s;
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 40; ++i) idle.push_back(std::make_unique<Client>(s.server->port()));
  idle.clear();
  for (int tries = 0; tries < 100; ++tries) {  // waits until the server notices closed connections
    if (status(get(*s.server, "/")) == 200) return;
    ::usleep(100000);
  }
  FAIL("no answer after the idle clients had left");
}

TEST_CASE("a live report follows the run's folder, and refuses a port that is taken") {
  Served s;
  const TempDir other;
  CHECK(status(get(*s.server, "/")) == 200);
  s.server->moved(other.path.string());
  CHECK(status(get(*s.server, "/")) == 503);  // no report yet: the new folder has no files
  std::ofstream(other / "run.json") << json{{"finished", true}};
  CHECK(json::parse(body(get(*s.server, "/report.json")))["runs"][0]["run"]["finished"] == true);
  CHECK(s.server->address() == "http://127.0.0.1:" + std::to_string(s.server->port()) + "/");
  expect_error(
      "E_SERVE", "cannot listen on 127.0.0.1:" + std::to_string(s.server->port()),
      [&] { ReportServer(s.f.path.string(), s.server->port()); }, Exit::usage);
}
