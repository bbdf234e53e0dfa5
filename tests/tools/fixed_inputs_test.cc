// Inputs that determine branches and shapes are bound to constants if all of the data has one value
// (run/model/fixed_inputs.h).
#include <catch2/catch_all.hpp>

#include "base/npz.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

constexpr int64_t kRows = 24;

HostTensor rows_of_numbers() {
  std::vector<float> x;
  for (int64_t i = 0; i < kRows * 4; ++i) x.push_back(static_cast<float>(i % 7) - 3);
  return HostTensor::of<float>({kRows, 4}, x);
}

HostTensor labels_by_turns() {
  std::vector<int64_t> y;
  for (int64_t i = 0; i < kRows; ++i) y.push_back(i % 2);
  return HostTensor::of<int64_t>({kRows}, y);
}

// Returns a model with weights w [4,2], one input besides x, and nodes that use this second input.
std::string with_input(const std::string& type, const std::string& middle) {
  return "<ir_version: 8, opset_import: [\"\" : 17]> g (float[N,4] x, " + type +
         " k) => (float[N,2] y) <float[4,2] w = {1,-1,2,-2,3,-3,4,-4}, float[4,2] v = {1,2,3,4,5,6,7,8}, "
         "int64[1] one = {1}, int64[1] zero = {0}, int64 turns = {2}, int64 scalar_zero = {0}> { " +
         middle + " }";
}

Said trained(const TempDir& f, const std::string& model, const HostTensor& k) {
  save(f, parse(model));
  write_safetensors(f / "d.safetensors", {{"x", rows_of_numbers()}, {"k", k}, {"label", labels_by_turns()}});
  return run_verb({f / "model.onnx", "--train", f / "d.safetensors", "--val", f / "d.safetensors", "--loss",
                   "cross_entropy,output=y", "--batch_size", "8", "--max_steps", "3", "--output_dir", f / "run",
                   "--overwrite", "--device", "cpu", "--dropout", "0"});
}

std::vector<int64_t> times(int64_t n, int64_t v) { return std::vector<int64_t>(static_cast<size_t>(n), v); }

}  // namespace

TEST_CASE("an input of one value for the whole file decides an If, a Loop, TopK, axes, a shape and a Slice",
          "[fixed]") {
  const TempDir f;
  const HostTensor two = HostTensor::of<int64_t>({1}, {2});
  struct Case {
    std::string name, model;
    HostTensor k;
  };
  const std::vector<Case> cases = {
      {"If",
       with_input("bool",
                  "y = If (k) <then_branch = t () => (float[N,2] a) { a = MatMul (x, w) }, "
                  "else_branch = e () => (float[N,2] b) { b = MatMul (x, v) }>"),
       HostTensor::of<uint8_t>({}, {1}).cast(DType::boolean)},
      {"Loop",
       with_input("int64",
                  "h = MatMul (x, w) t = Cast <to = 9> (scalar_zero) c = Not (t) y = Loop (k, c, h) <body = b "
                  "(int64 i, bool ci, float[N,2] s) => (bool co, float[N,2] n) { co = Identity (ci) n = Add (s, s) }>"),
       HostTensor::scalar<int64_t>(2)},
      {"TopK", with_input("int64[1]", "t, i = TopK <axis = 1> (x, k) h = Concat <axis = 1> (t, t) y = MatMul (h, w)"),
       two},
      {"axes", with_input("int64[1]", "s = ReduceSum <keepdims = 1> (x, k) h = Mul (x, s) y = MatMul (h, w)"),
       HostTensor::of<int64_t>({1}, {1})},
      {"Reshape",
       with_input("int64[3]",
                  "r = Reshape (x, k) s = ReduceSum <keepdims = 0> (r, one) "
                  "h = Concat <axis = 1> (s, s) y = MatMul (h, w)"),
       HostTensor::of<int64_t>({3}, {-1, 2, 2})},
      {"Slice", with_input("int64[1]", "s = Slice (x, zero, k, one) h = Concat <axis = 1> (s, s) y = MatMul (h, w)"),
       two}};
  for (const Case& c : cases) {
    INFO(c.name);
    const Said said = trained(f, c.model, c.k);
    if (said.error) FAIL(said.id << ": " << said.fact);
    CHECK_THAT(said.err, ContainsSubstring("input 'k' is") && ContainsSubstring("bound as a constant"));
    const json run = json::parse(bytes_of(f / "run/run.json"));
    CHECK(run["final_metrics"]["samples"] == kRows);  // batches of 8 rows, not one batch of all rows
    const Said eval = must_run({"eval", f / "run/model.onnx", "--val", f / "d.safetensors", "--loss",
                                "cross_entropy,output=y", "--device", "cpu"});
    CHECK(std::abs(json::parse(eval.out)["loss"].get<double>() - run["final_metrics"]["loss"].get<double>()) < 1e-6);
    must_run({"export", f / "run", "--out", f / "again.onnx"});
    const Said predicted =
        must_run({"predict", f / "run/model.onnx", "--inputs", f / "d.safetensors", "--out", f / "p.npz"});
    CHECK_THAT(predicted.err, ContainsSubstring("input 'k' is"));
    // X is the data of the operator, so it cannot be bound.
    CHECK_THAT(predicted.err, !ContainsSubstring("input 'x' is"));
    CHECK(read_npz(f / "p.npz").at(0).tensor.dims() == Dims{kRows, 2});
  }
}

TEST_CASE("a value for each row is bound where all rows have it, and refused where they differ", "[fixed]") {
  const TempDir f;
  const std::string model =
      with_input("int64[N]",
                 "m = ReduceMax <keepdims = 0> (k) c = Equal (m, turns) y = If (c) <then_branch = t () => "
                 "(float[N,2] a) { a = MatMul (x, w) }, else_branch = e () => (float[N,2] b) { b = MatMul (x, v) }>");
  const Said same = trained(f, model, HostTensor::of<int64_t>({kRows}, times(kRows, 2)));
  if (same.error) FAIL(same.id << ": " << same.fact);
  const auto weights = import_model(f / "run/model.onnx");
  const auto before = import_model(f / "model.onnx");
  const auto changed = [&](const char* name) {
    return value(weights.graph, name).data.to_doubles() != value(before.graph, name).data.to_doubles();
  };
  CHECK(changed("w"));
  CHECK_FALSE(changed("v"));  // v is read only in the branch that is not taken
  std::vector<int64_t> mixed = times(kRows, 2);
  mixed[5] = 3;
  const Said several = trained(f, model, HostTensor::of<int64_t>({kRows}, mixed));
  CHECK(several.id == "E_DYNAMIC");
  CHECK_THAT(several.err, ContainsSubstring("input 'k' has several values"));
  // In the model the input k is a scalar, without rows. The file contains one value of k per row.
  const std::string scalar =
      with_input("int64",
                 "c = Equal (k, turns) y = If (c) <then_branch = t () => (float[N,2] a) { a = MatMul (x, w) }, "
                 "else_branch = e () => (float[N,2] b) { b = MatMul (x, v) }>");
  const Said rows = trained(f, scalar, HostTensor::of<int64_t>({kRows}, times(kRows, 2)));
  if (rows.error) FAIL(rows.id << ": " << rows.fact);
}
