// Models with one learned layer, fc, and nodes that the test adds. "__" stands for "." in names and "onnxXX" for
// "onnx::".
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/text.h"
#include "tests/importer/models.h"
#include "tests/importer/values.h"
#include "tests/support.h"

namespace amp::test {

using Formula = std::function<double(int64_t)>;

inline std::string listed(int64_t n, const Formula& f) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < n; ++i) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", f(i));
    all.push_back(text);
  }
  return join(all, ",");
}

inline std::string tensor_of(const std::string& dims, const std::string& name, int64_t n, const Formula& f) {
  return cat("float[", dims, "] ", name, " = {", listed(n, f), "}");
}

inline std::string dotted(std::string s) {
  for (size_t at; (at = s.find("__")) != std::string::npos;) s.replace(at, 2, ".");
  if (s.rfind("onnxXX", 0) == 0) s.replace(0, 6, "onnx::");
  return s;
}

inline void with_dots(onnx::GraphProto& g) {
  for (auto& t : *g.mutable_initializer()) t.set_name(dotted(t.name()));
  for (auto& n : *g.mutable_node()) {
    for (auto& i : *n.mutable_input()) i = dotted(i);
    for (auto& o : *n.mutable_output()) o = dotted(o);
  }
}

// Returns a model that passes x [N,8] through a learned layer `fc` and then through `nodes`.
inline onnx::ModelProto beside_a_layer(const std::string& tensors, const std::string& nodes,
                                       const std::string& inputs = "", const std::string& producer = "pytorch") {
  const std::string text =
      cat(R"(<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1], producer_name: ")", producer, R"(">
      g (float[N,8] x)",
          inputs, ") => (float[A,B] y) <", tensor_of("8,8", "fc__weight", 64, learned), ", ",
          tensor_of("8", "fc__bias", 8, [](int64_t i) { return learned(i + 100); }), tensors.empty() ? "" : ", ",
          tensors, "> { h = Gemm <transB = 1> (x, fc__weight, fc__bias) ", nodes, " }");
  onnx::ModelProto m = parse(text);
  with_dots(*m.mutable_graph());
  return m;
}

struct Verdicts {
  Imported m;
  bool trains(const std::string& name) const { return value(m.graph, name).trainable; }
  const Verdict& of(const std::string& name) const { return m.verdicts.at(static_cast<size_t>(m.graph.find(name))); }
};

inline Verdicts judge(const onnx::ModelProto& m) {
  const TempDir f;
  return {import_model(save(f, m))};
}

}  // namespace amp::test
