// Connections of other programs, and of processes without the token, while ranks connect by TCP. They may delay nothing
// and end nothing; ranks whose tokens differ end with an error that says so.
#include <poll.h>
#include <sys/socket.h>

#include <atomic>

#include "tests/trainer/tcp_ranks.h"

using namespace amp;
using namespace amp::test;

namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using nlohmann::json;

const std::string kToken = "the ranks' token";

void meet(Communicator& r) { r.barrier(); }

std::string frame_text(const std::string& body, size_t length) {
  std::string out = "AMPRANK\n";
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(length >> shift & 255);
  return out + body;
}
std::string frame_text(const json& j) { return frame_text(j.dump(), j.dump().size()); }

void send_text(const Socket& s, const std::string& text) {
  CHECK(::send(s.descriptor(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

// Reads the challenge, sends the text, and returns what becomes of the connection.
FrameResult answer_to(int port, const std::string& text) {
  const Socket s = connected(port);
  json challenge, answer;
  CHECK(read_frame(s.descriptor(), challenge, later()) == FrameResult::frame);
  CHECK(challenge.value("challenge", "").size() == 32);
  send_text(s, text);
  ::shutdown(s.descriptor(), SHUT_WR);
  const FrameResult result = read_frame(s.descriptor(), answer, later());
  return result == FrameResult::frame && answer == json{{"refused", "the proof is wrong"}} ? FrameResult::unproven
                                                                                           : result;
}

// Lets strangers connect to rank 0, and then rank 1. Returns the notes of rank 0.
std::vector<std::string> meeting_with(const std::function<void(int port)>& strangers) {
  const int port = free_port();
  std::vector<std::string> errors, notes;
  std::thread first([&] { errors = on_places({{place(0, 2, port), kToken}}, meet, kConnectTimeout, &notes); });
  strangers(port);
  const double before = steady_seconds();
  CHECK(on_places({{place(1, 2, port), kToken}}, meet)[0] == "");
  CHECK(steady_seconds() - before < 4);  // a silent connection is closed after 5 s
  first.join();
  CHECK(errors[0] == "");
  return notes;
}

// Listens in rank 0's place, with `body` for each connection, until the run has ended.
std::string error_of_rank_1_with(const std::function<void(const Socket&)>& body, double connect_timeout) {
  const Listener l = listen_on(INADDR_LOOPBACK, 0, 8);
  std::atomic<bool> over = false;
  std::thread server([&] {
    while (!over) {
      wait_for(l.socket.descriptor(), POLLIN, 0.05);
      if (const Socket s = accepted(l.socket.descriptor()); s.open()) body(s);
    }
  });
  const std::string error = on_places({{place(1, 2, l.port), kToken}}, meet, connect_timeout)[0];
  over = true;
  server.join();
  return error;
}

}  // namespace

TEST_CASE("a run without strangers has no notes", "[ranks][tcp]") {
  CHECK(meeting_with([](int) {}).empty());
}

TEST_CASE("silent connections delay nothing and are counted", "[ranks][tcp]") {
  const size_t count = GENERATE(1u, 20u, 300u);  // 300 exceeds the limit of pending connections
  std::vector<Socket> silent;
  const std::vector<std::string> notes = meeting_with([&](int port) {
    for (size_t i = 0; i < count; ++i) silent.push_back(connected(port));
  });
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], StartsWith(cat(count, count == 1 ? " connection was not" : " connections were not")));
  CHECK_THAT(notes[0], ContainsSubstring(cat(" of this run: ", count, " silent; the last one from 127.0.0.1")));
}

TEST_CASE("bytes of other programs end nothing and are counted", "[ranks][tcp]") {
  json other_size = hello_of(1, 3), other_protocol = hello_of(1, 2, 1), other_rank = hello_of(7, 2);
  const std::string text = GENERATE_COPY(
      std::string("GET / HTTP/1.1\r\n\r\n"), std::string(5'000, '\xff'), frame_text("", 0xffffffff),
      frame_text("{", 64 * 1024 + 1), frame_text("", 0), frame_text("[]", 2), frame_text("{x}", 3),
      frame_text(std::string(60'000, '['), 60'000), frame_text("{\"a\":" + std::string(30'000, '[') + "}", 30'006));
  CHECK(meeting_with([&](int port) {
          const FrameResult result = answer_to(port, text);
          CHECK((result == FrameResult::closed || result == FrameResult::late));
        }).at(0) ==
        "1 connection was not from a rank of this run: 1 with bytes of other programs; the last one from "
        "127.0.0.1");
}

TEST_CASE("frames without the token end nothing and are counted", "[ranks][tcp]") {
  std::string text;
  SECTION("an empty object") { text = frame_text(json::object()); }
  SECTION("another world size") { text = frame_text(hello_of(1, 3)); }
  SECTION("another protocol") { text = frame_text(hello_of(1, 2, 1)); }
  SECTION("no rank of this run") { text = frame_text(hello_of(7, 2)); }
  SECTION("a second rank 0") { text = frame_text(hello_of(0, 2)); }
  SECTION("members of other types") {
    text = frame_text(json{{"hello", 7}, {"nonce", json::array()}, {"proof", true}});
  }
  SECTION("an empty proof") {
    text = frame_text(json{{"hello", hello_of(1, 2).dump()}, {"nonce", std::string(32, 'a')}, {"proof", ""}});
  }
  CHECK(meeting_with([&](int port) { CHECK(answer_to(port, text) == FrameResult::unproven); }).at(0) ==
        "1 connection was not from a rank of this run: 1 without the run's token; the last one from 127.0.0.1");
}

TEST_CASE("an impostor without the right token is not rank 1", "[ranks][tcp]") {
  const std::string token = GENERATE(std::string(), std::string("another"), kToken + " ");
  const json hello = GENERATE(hello_of(1, 2), hello_of(1, 3), hello_of(1, 2, 9));
  std::vector<Socket> open;
  const std::vector<std::string> notes = meeting_with([&](int port) {
    open.push_back(connected(port));
    Handshake handshake = entrance(token);
    json answer;
    CHECK(handshake.send_hello(open[0].descriptor(), hello, later()) == FrameResult::frame);
    CHECK(handshake.read_answer(open[0].descriptor(), answer, later()) == FrameResult::unproven);
  });
  CHECK_THAT(notes.at(0), ContainsSubstring("1 without the run's token"));
}

TEST_CASE("a recorded hello is worth nothing on another connection", "[ranks][tcp]") {
  json recorded;
  CHECK_THAT(error_of_rank_1_with(
                 [&](const Socket& s) {
                   Handshake handshake = entrance(kToken);
                   json frame;
                   handshake.send_challenge(s.descriptor());
                   if (read_frame(s.descriptor(), frame, steady_seconds() + 1) == FrameResult::frame) {
                     CHECK(handshake.proven_hello(frame));
                     CHECK_FALSE(Handshake(handshake_key({kToken}, "another kind")).proven_hello(frame));
                     recorded = frame;
                   }
                 },
                 1),
             StartsWith("10 E_RANK"));
  REQUIRE(recorded.contains("proof"));
  CHECK_THAT(
      meeting_with([&](int port) { CHECK(answer_to(port, frame_text(recorded)) == FrameResult::unproven); }).at(0),
      ContainsSubstring("1 without the run's token"));
}

TEST_CASE("strangers do not keep higher ranks from lower ones", "[ranks][tcp]") {
  const int port = free_port();
  std::atomic<bool> over = false;
  std::vector<std::string> errors;
  std::thread others([&] {
    errors = on_places({{place(0, 3, port), kToken}, {place(1, 3, port), kToken}}, [&](Communicator& rank) {
      while (rank.is_root() && !over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  });
  // Connects as rank 2 by hand. The directory that rank 0 sends contains the port of rank 1.
  const Socket to_first = connected(port);
  const Handshake entered = say_hello(to_first, 2, 3, 2, kToken);
  json welcome, answer;
  REQUIRE(entered.read_answer(to_first.descriptor(), welcome, later()) == FrameResult::frame);
  const int second_port = welcome.at("ranks").at(1).at("port");
  const std::string purpose = cat("ranks to each other, ", welcome.at("secret").get<std::string>());
  const double before = steady_seconds();
  std::vector<Socket> open;
  for (int i = 0; i < 20; ++i) open.push_back(connected(second_port));
  const auto hear = [&](const std::string& token, int rank) {
    open.push_back(connected(second_port));
    Handshake handshake(handshake_key({token}, purpose));
    CHECK(handshake.send_hello(open.back().descriptor(), {{"rank", rank}}, later()) == FrameResult::frame);
    return handshake.read_answer(open.back().descriptor(), answer, later());
  };
  CHECK(hear("another", 2) == FrameResult::unproven);
  CHECK(hear(kToken, 1) == FrameResult::closed);
  CHECK(hear(kToken, 2) == FrameResult::frame);
  CHECK(answer == json{{"rank", 1}});
  over = true;
  others.join();
  CHECK(steady_seconds() - before < 4);  // a silent connection is closed after 5 s
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("a hello is no answer", "[ranks][tcp]") {
  const std::string error = error_of_rank_1_with(
      [](const Socket& s) {
        Handshake handshake = entrance(kToken);
        json frame;
        handshake.send_challenge(s.descriptor());
        if (read_frame(s.descriptor(), frame, steady_seconds() + 1) == FrameResult::frame)
          send_frame(s.descriptor(), {{"answer", frame["hello"]}, {"proof", frame["proof"]}}, later());
      },
      kConnectTimeout);
  CHECK_THAT(error, StartsWith("10 E_RANKS: the tokens differ: what listens at 127.0.0.1:"));
}

TEST_CASE("ranks with different tokens end and say so", "[ranks][tcp]") {
  const auto [first, second] = GENERATE(std::pair(kToken, std::string("another")), std::pair(kToken, std::string()),
                                        std::pair(std::string(), kToken));
  const int port = free_port();
  const std::vector<std::string> errors = on_places({{place(0, 2, port), first}, {place(1, 2, port), second}}, meet, 5);
  CHECK_THAT(errors[0], StartsWith(cat("10 E_RANKS: of 2 ranks these did not connect to rank 0 at 127.0.0.1:", port,
                                       " within 5 s: 1; ")));
  CHECK_THAT(errors[0], ContainsSubstring(" without the run's token; the last one from 127.0.0.1"));
  CHECK_THAT(errors[1], StartsWith(cat("10 E_RANKS: the tokens differ: what listens at 127.0.0.1:", port,
                                       " does not have the token of rank 1 (host ")));
}

TEST_CASE("a mistake of a rank with the token is an error with the difference", "[ranks][tcp]") {
  const int port = free_port();
  for (const std::string& e :
       on_places({{place(0, 2, port), kToken}, {place(1, 3, port), kToken}}, [](Communicator&) {})) {
    CHECK_THAT(e, StartsWith("10 E_RANKS: "));
    CHECK_THAT(e, ContainsSubstring("is one of 3 (WORLD_SIZE), rank 0 one of 2"));
  }
}

TEST_CASE("a rank without a host, with the token, is no rank", "[ranks][tcp]") {
  CHECK_THAT(
      meeting_with([](int port) {
        const Socket s = connected(port);
        Handshake handshake = entrance(kToken);
        json answer;
        CHECK(handshake.send_hello(s.descriptor(), {{"rank", "1"}, {"protocol", 2}}, later()) == FrameResult::frame);
        CHECK(handshake.read_answer(s.descriptor(), answer, later()) == FrameResult::closed);
      }).at(0),
      ContainsSubstring("1 with bytes of other programs"));
}

TEST_CASE("what listens in rank 0's place for long and is none is reported", "[ranks][tcp]") {
  const std::string error =
      error_of_rank_1_with([](const Socket& s) { send_text(s, "HTTP/1.1 400 Bad Request\r\n\r\n"); }, kConnectTimeout);
  CHECK_THAT(error, StartsWith("10 E_RANKS: what answers at 127.0.0.1:"));
  CHECK_THAT(error, Catch::Matchers::EndsWith(" is no rank of this program"));
}

TEST_CASE("what listens in rank 0's place for a moment ends nothing", "[ranks][tcp]") {
  const std::string text = GENERATE(std::string("HTTP/1.1 400 Bad Request\r\n\r\n"),
                                    frame_text(json{{"refused", "go away"}}), frame_text(json{{"ranks", "none"}}));
  std::optional<Listener> l = listen_on(INADDR_LOOPBACK, free_port(), 8);  // rank 0 can use the port afterwards
  const int port = l->port;
  std::vector<std::string> errors;
  std::thread second([&] { errors = on_places({{place(1, 2, port), kToken}}, meet); });
  wait_for(l->socket.descriptor(), POLLIN, kConnectTimeout);
  send_text(accepted(l->socket.descriptor()), text);
  l.reset();
  CHECK(on_places({{place(0, 2, port), kToken}}, meet)[0] == "");
  second.join();
  CHECK(errors[0] == "");
}
