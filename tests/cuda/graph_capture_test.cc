// Tests a fake driver that refuses to capture CUDA graphs: the run continues, and no resources leak.
#include "backend/cuda/graph_capture.h"

#include <catch2/catch_all.hpp>
#include <iostream>
#include <sstream>
#include <stdexcept>

using namespace amp;

namespace {

struct FakeCapture final : cuda::GraphCapture {
  struct Nothing final : Recording {
    void replay() override {}
  };
  const char* fails_in = "";
  bool open = false;
  int abandoned = 0;

  void step(const char* name) const {
    if (std::string(fails_in) == name) fail(Exit::memory, "E_CUDA", cat("the fake refuses in ", name));
  }
  void begin() override {
    step("begin");
    open = true;
  }
  std::unique_ptr<Recording> finish() override {
    step("finish");
    open = false;
    return std::make_unique<Nothing>();
  }
  void abandon() override {
    ++abandoned;
    open = false;
  }
};

struct Outcome {
  bool recorded;
  std::string warning;
};
Outcome record(FakeCapture& capture, const std::function<void()>& work) {
  std::ostringstream said;
  std::streambuf* const before = std::cerr.rdbuf(said.rdbuf());
  bool recorded = false;
  try {
    recorded = cuda::record_if_possible(capture, work) != nullptr;
  } catch (...) {
    std::cerr.rdbuf(before);
    throw;
  }
  std::cerr.rdbuf(before);
  return {recorded, said.str()};
}

}  // namespace

TEST_CASE("a capture that fails is abandoned with a warning", "[cuda]") {
  for (const char* where : {"begin", "finish"}) {
    FakeCapture capture;
    capture.fails_in = where;
    const Outcome o = record(capture, [] {});
    CHECK_FALSE(o.recorded);
    CHECK(capture.abandoned == 1);
    CHECK_FALSE(capture.open);
    CHECK(o.warning.find("W_GRAPH") != std::string::npos);
    CHECK(o.warning.find(where) != std::string::npos);
  }
  FakeCapture capture;
  const Outcome o = record(capture, [] { fail(Exit::memory, "E_CUDA", "this launch cannot be captured"); });
  CHECK_FALSE(o.recorded);
  CHECK(capture.abandoned == 1);
  CHECK(o.warning.find("this launch cannot be captured") != std::string::npos);
  CHECK_THROWS_AS(record(capture, [] { throw std::logic_error("a mistake"); }), std::logic_error);
  CHECK_FALSE(capture.open);
}

TEST_CASE("a capture that succeeds is a recording", "[cuda]") {
  FakeCapture capture;
  int runs = 0;
  const Outcome o = record(capture, [&] { ++runs; });
  CHECK(o.recorded);
  CHECK(runs == 1);
  CHECK(capture.abandoned == 0);
  CHECK(o.warning.empty());
}
