// Models for tests, written in ONNX's text form, and a temporary folder.
#pragma once

#include <onnx/defs/parser.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "importer/read/import.h"
#include "tests/support.h"

namespace amp::test {

inline std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline onnx::ModelProto parse(const std::string& text) {
  onnx::ModelProto m;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(m);
  INFO(status.ErrorMessage());
  REQUIRE(status.IsOK());
  return m;
}

inline std::string save(const TempDir& folder, const onnx::ModelProto& m, const std::string& name = "model.onnx") {
  write_bytes(folder / name, m.SerializeAsString());
  return folder / name;
}

inline Imported import_text(const TempDir& folder, const std::string& text, const ImportOptions& options = {}) {
  return import_model(save(folder, parse(text)), options);
}

// Returns the error of importing the file.
inline Error import_error(const std::string& path, const ImportOptions& options = {}) {
  try {
    import_model(path, options);
  } catch (const Error& e) {
    return e;
  }
  FAIL("no error for " << path);
  throw 0;
}

inline void expect(const Error& e, Exit exit, const std::string& id, const std::string& text = "") {
  INFO(e.what());
  CHECK(e.exit() == exit);
  CHECK(e.id() == id);
  CHECK(std::string(e.what()).find(text) != std::string::npos);
}

inline const SourceValue& value(const SourceGraph& g, const std::string& name) {
  const int v = g.find(name);
  INFO(name);
  REQUIRE(v >= 0);
  return g.values[static_cast<size_t>(v)];
}

const std::string kData = test_data("importer/");

// A two-layer perceptron: weights w0 [4,3], b0 [3], w1 [3,2], b1 [2].
inline const char* kMlp = R"(
  <ir_version: 8, opset_import: ["" : 17], producer_name: "hand", metadata_props: ["who": "us"]>
  mlp (float[N,4] x) => (float[N,2] y)
  <float[4,3] w0 = {1,2,3,4,5,6,7,8,9,10,11,12}, float[3] b0 = {0.1,0.2,0.3},
   float[3,2] w1 = {1,-1,2,-2,3,-3}, float[2] b1 = {0.5,0.25}, int64[2] shape = {-1,3}>
  { h = MatMul (x, w0)  a = Add (h, b0)  r = Relu (a)  s = Reshape (r, shape)  y = Gemm (s, w1, b1) })";

}  // namespace amp::test
