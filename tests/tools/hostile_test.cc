// Small models of the kinds that once crashed the program, made it hang, exhausted memory or caused an internal error.
// Every verb must refuse them as faults of the file, name the node, and compute nothing.
#include <catch2/catch_all.hpp>
#include <iostream>
#include <sstream>

#include "base/safetensors.h"
#include "graph/op.h"
#include "graph/signature.h"
#include "tests/cli/cli_helper.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tools/run_verb.h"

using namespace amp;
using amp::test::TempDir;

namespace {

struct Outcome {
  int code = 0;
  std::string id, said;
};

Outcome run(const std::vector<std::string>& words) {
  std::ostringstream quiet;
  auto* const out = std::cout.rdbuf(quiet.rdbuf());
  auto* const err = std::cerr.rdbuf(quiet.rdbuf());
  Outcome o;
  try {
    o.code = run_verb(::parse(words));
  } catch (const Error& e) {
    o = {static_cast<int>(e.exit()), e.id(), cli::with_flags(e).what()};
  }
  std::cout.rdbuf(out);
  std::cerr.rdbuf(err);
  return o;
}

// Returns the errors of predict, grad and one training step for a model. `check` does not stop at an error: it prints a
// summary at its end.
void refused(const onnx::ModelProto& m, const Dims& x, Exit exit, const std::string& id, const std::string& part) {
  const test::TempDir f;
  const std::string model = amp::test::save(f, m), batch = f / "batch.safetensors";
  write_safetensors(batch, {{"x", HostTensor::zeros(DType::f32, x)}, {"label", HostTensor::zeros(DType::i64, {x[0]})}});
  const auto expect = [&](const std::vector<std::string>& words) {
    const Outcome o = run(words);
    INFO(words[0] << ": " << o.said);
    CHECK(o.code == static_cast<int>(exit));
    CHECK(o.id == id);
    CHECK(o.said.find(part) != std::string::npos);
    CHECK(o.said.find("at node") != std::string::npos);
  };
  expect({"predict", model, "--inputs", batch, "--out", f / "out.safetensors"});
  expect({"grad", model, "--inputs", batch, "--loss", "cross_entropy", "--out", f / "out.safetensors"});
  expect({model, "--train", batch, "--loss", "cross_entropy", "--max_steps", "1", "--output_dir", f / "run"});
  const int code = run({"check", model}).code;
  CHECK((code == static_cast<int>(Exit::model) || code == static_cast<int>(Exit::unsupported)));
}

void refused(const std::string& body, const std::string& weights, const Dims& x, Exit exit, const std::string& id,
             const std::string& part, int opset = 17) {
  INFO(body);
  const std::string rank = x.size() == 2 ? "N,4" : "N,2,4";
  refused(amp::test::parse(cat("<ir_version: 8, opset_import: [\"\" : ", opset, "]> g (float[", rank,
                               "] x) => (float[N,M] y) <", weights, "> { ", body, " }")),
          x, exit, id, part);
}
const Dims kPlane{2, 4}, kSpace{2, 2, 4};

}  // namespace

TEST_CASE("inputs of another count, rank or type than the operator's are refused", "[hostile]") {
  refused("y = MatMul (x, w)", "float w = {1}", kPlane, Exit::model, "E_RANK", "rank 1 or more");
  refused("y = MatMul (x)", "float w = {1}", kPlane, Exit::model, "E_ATTR", "lacks input 1");
  refused("y, z = Add (x, w)", "float w = {1}", kPlane, Exit::model, "E_ATTR", "outputs");
  refused("y = Gemm (x, w)", "float[8] w = {1,2,3,4,5,6,7,8}", kPlane, Exit::model, "E_RANK", "rank 2");
  refused("y = Gemm (x, w)", "int32[4,2] w = {1,2,3,4,5,6,7,8}", kPlane, Exit::model, "E_NODE_TYPE", "int32[4,2]");
  refused("y = Where (x, x, x)", "float w = {1}", kPlane, Exit::model, "E_NODE_TYPE", "booleans");
  refused("y = GatherND (x, i)", "int64[1,3] i = {0,0,0}", kPlane, Exit::model, "E_SHAPE", "GatherND");
  refused("y = ScatterND (x, i, x)", "int64[1,3] i = {0,0,0}", kPlane, Exit::model, "E_SHAPE", "ScatterND");
  refused("y = Unsqueeze (x, i)", "int64[2] i = {3,3}", kPlane, Exit::model, "E_ATTR", "twice");
  refused("y = Slice (x, i, i, j)", "int64[1] i = {0}, int64[2] j = {0,1}", kPlane, Exit::model, "E_ATTR", "axes");
  refused("y, z = TopK (x, i)", "int64[1] i = {5}", kPlane, Exit::model, "E_SHAPE", "the first 5 of 4");
  refused("y = Softmax <axis = 0.5> (x)", "float w = {1}", kPlane, Exit::model, "E_ATTR", "axis");
}

TEST_CASE("recurrent weights of another rank or size are refused", "[hostile]") {
  const std::string w = "float[1,4,4] w = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}", r = "float[1,4,1] r = {1,2,3,4}";
  refused("y = LSTM <hidden_size = 1> (x, w, r)", w + ", float[4] r = {1,2,3,4}", kSpace, Exit::model, "E_RANK",
          "rank 3");
  refused("y = LSTM <hidden_size = 1> (x, w, r, b)", cat(w, ", ", r, ", float[8] b = {1,2,3,4,5,6,7,8}"), kSpace,
          Exit::model, "E_RANK", "rank 2");
  refused("y = LSTM <hidden_size = 1> (x, w, r, b)", cat(w, ", ", r, ", float[1,4] b = {1,2,3,4}"), kSpace, Exit::model,
          "E_SHAPE", "extent of 4");
  refused("y = LSTM <hidden_size = 1> (x, w, r, , n)", cat(w, ", ", r, ", int32[5] n = {1,1,1,1,1}"), kSpace,
          Exit::model, "E_SHAPE", "lengths");
  refused("y = LSTM <hidden_size = 1> (x, w, r, , , , , p)", cat(w, ", ", r, ", float[1,2] p = {1,1}"), kSpace,
          Exit::model, "E_SHAPE", "peepholes");
}

TEST_CASE("strings never reach a kernel", "[hostile]") {
  onnx::ModelProto m = amp::test::parse(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x) => (float[N,4] y) <float[4] w = {1,2,3,4}> { y = Div (x, w) })");
  onnx::TensorProto& w = *m.mutable_graph()->mutable_initializer(0);
  w.clear_float_data();
  w.set_data_type(onnx::TensorProto::STRING);
  for (int i = 0; i < 4; ++i) w.add_string_data("one");
  refused(m, kPlane, Exit::unsupported, "E_TYPE", "strings");
}

TEST_CASE("tensors of any size are refused before memory is touched", "[hostile]") {
  const std::string out = "--max_activation_bytes", constant = "--max_constant_bytes";
  refused("y = Expand (x, n)", "int64[3] n = {4294967296,1,1}", kPlane, Exit::unsupported, "E_TENSOR_BYTES", out);
  refused("y = Tile (x, n)", "int64[2] n = {1,4294967296}", kPlane, Exit::unsupported, "E_TENSOR_BYTES", out);
  refused("y = Tile (x, n)", "int64[2] n = {1,4611686018427387904}", kPlane, Exit::model, "E_DIM_OVERFLOW", "64 bits");
  refused("y = Pad (x, n)", "int64[4] n = {0,8589934592,0,0}", kPlane, Exit::unsupported, "E_TENSOR_BYTES", out);
  refused("y = Pad <mode = \"edge\"> (x, n)", "int64[4] n = {0,8589934592,0,0}", kPlane, Exit::unsupported,
          "E_FOLD_BUDGET", constant);
  refused("y = Resize (x, , , n)", "int64[2] n = {2,2147483648}", kPlane, Exit::unsupported, "E_FOLD_BUDGET", constant);
  refused("c = ConstantOfShape (n) y = Add (x, c)", "int64[2] n = {1099511627776,4}", kPlane, Exit::unsupported,
          "E_TENSOR_BYTES", out);
  refused("c = Range (a, n, s) y = Add (x, c)", "float a = {0}, float n = {1e18}, float s = {1}", kPlane,
          Exit::unsupported, "E_FOLD_BUDGET", constant);
  refused("i = ArgMax (x) y = OneHot (i, n, v)", "int64 n = {1099511627776}, float[2] v = {0,1}", kPlane,
          Exit::unsupported, "E_FOLD_BUDGET", constant);
  refused("y = Split <num_outputs = 0> (x)", "float w = {1}", kPlane, Exit::model, "E_ATTR", "into 0 parts", 18);
  refused("y = Split <num_outputs = 1> (x)", "float w = {1}", kPlane, Exit::model, "E_ATTR",
          "has attribute 'num_outputs', which the operator does not have in opset 17");
}

TEST_CASE("windows of any size and step are refused", "[hostile]") {
  refused("y = AveragePool <kernel_shape = [1], strides = [4611686018427387904]> (x)", "float w = {1}", kSpace,
          Exit::model, "E_ATTR", "strides");
  refused("y = MaxPool <kernel_shape = [1000000], pads = [1000000, 1000000]> (x)", "float w = {1}", kSpace, Exit::model,
          "E_ATTR", "a window of");
  refused("y = Conv <dilations = [-1]> (x, w)", "float[1,2,1] w = {1,2}", kSpace, Exit::model, "E_ATTR", "dilations");
}

TEST_CASE("loops inside loops do not run away", "[hostile]") {
  refused(R"(y = Loop (n, t, x) <body = outer (int64 i, bool c, float[N,4] a) => (bool d, float[N,4] b) {
               d = Identity (c)  b = Loop (n, t, a) <body = inner (int64 j, bool e, float[N,4] p) => (bool q, float[N,4] r) {
                 q = Identity (e)  r = Identity (p) }> }>)",
          "int64 n = {9999}, bool t = {1}", kPlane, Exit::unsupported, "E_NODES", "--max_graph_nodes");
}

TEST_CASE("a constant index out of range is the model's fault, not the data's", "[hostile]") {
  for (const char* body :
       {"y = Gather <axis = 1> (x, i)", "a = Constant <value = float[3] {1,2,3}> () b = Gather (a, i) y = Add (x, b)",
        "y = GatherElements <axis = 1> (x, i)"}) {
    const bool elements = std::string(body).find("Elements") != std::string::npos;
    const std::string index = elements ? "int64[2,1] i = {9,0}" : "int64[2] i = {9,0}";
    refused(body, index, kPlane, Exit::model, "E_INDEX", "9");
  }
}

TEST_CASE("every operator says what it takes", "[hostile]") {
  std::string missing;
  for (const OnnxOp* op : all_onnx_ops()) {
    if (!has_signature(RegisterSignatures::onnx, op->domain, op->name)) missing += op->domain + "::" + op->name + " ";
  }
  INFO("no row in ops/signatures.cc: " << missing);
  CHECK(missing.empty());
}

TEST_CASE("GroupNormalization's scale and bias have one element a group, from opset 21 on one a channel", "[hostile]") {
  const auto of = [](int opset, int scale, int bias, const std::string& part) {
    const auto tensor = [](const char* name, int n) {
      std::string values;
      for (int i = 0; i < n; ++i) values += i ? ",1" : "1";
      return cat("float[", n, "] ", name, " = {", values, "}");
    };
    refused(test::parse(cat("<ir_version: 10, opset_import: [\"\" : ", opset,
                            "]> g (float[N,4,2] x) => (float[N,4,2] y) <", tensor("s", scale), ", ", tensor("b", bias),
                            "> { y = GroupNormalization <num_groups = 2> (x, s, b) }")),
            {2, 4, 2}, Exit::model, "E_SHAPE", part);
  };
  of(18, 4, 2, "GroupNormalization's scale has 4 elements, 2 are needed: one for each group before opset 21");
  of(18, 2, 1, "GroupNormalization's bias has 1 elements, 2 are needed");
  of(21, 2, 4, "GroupNormalization's scale has 2 elements, 4 are needed: one for each channel from opset 21 on");
}
