// Op lists: the presets and their classes, inheritance and edits of lists, modes and domains of operators, loss_scale,
// and the errors of bad files.
#include "precision/op_list.h"

#include <unistd.h>

#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "precision/presets.h"
#include "tests/support.h"

using namespace amp;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string class_of(const OpList& list, const std::string& op, const std::string& mode = "") {
  const OpClassEntry* e = list.find("", op, mode);
  return e ? std::string(name_of(e->cls)) : "unlisted";
}

OpList parse(const std::string& text) { return parse_op_list(text, "my.json"); }

void check_error(const std::string& text, const std::string& id, const std::string& fact, const std::string& where,
                 const std::string& hint = "") {
  INFO(text);
  try {
    parse(text);
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::usage);
    CHECK(e.id() == id);
    CHECK_THAT(e.fact(), ContainsSubstring(fact));
    CHECK_THAT(e.what(), ContainsSubstring(where) && ContainsSubstring("my.json"));
    CHECK_THAT(e.hint(), ContainsSubstring(hint));
  }
}

struct Folder : test::TempDir {
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

}  // namespace

TEST_CASE("every preset parses, names known operators and stands alone") {
  CHECK(preset_names() == std::vector<std::string>{"O0", "O1", "O2", "O3", "apex", "paddle", "pytorch", "tensorflow"});
  for (const std::string& name : preset_names()) {
    INFO(name);
    const OpList list = preset(name);
    CHECK(list.name == name);
    CHECK(list.warnings.empty());
    CHECK_FALSE(list.classes.empty());
    CHECK((list.propagation == Propagation::inputs) == (name == "pytorch" || name == "apex" || name == "paddle"));
  }
}

TEST_CASE("O1's classes are the documented ones") {
  const OpList o1 = preset("O1");
  const std::pair<const char*, std::vector<const char*>> table[] = {
      {"allow", {"MatMul", "Gemm", "Einsum", "Attention", "Conv", "ConvTranspose", "LSTM", "GRU", "RNN"}},
      {"deny",
       {"Softmax",
        "LogSoftmax",
        "LayerNormalization",
        "RMSNormalization",
        "GroupNormalization",
        "InstanceNormalization",
        "ReduceSum",
        "CumSum",
        "ReduceMean",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "Exp",
        "Pow",
        "Log",
        "Reciprocal",
        "Softplus",
        "Tan",
        "Acos",
        "Asin",
        "Cosh",
        "Sinh",
        "TopK",
        "NonMaxSuppression",
        "RoiAlign",
        "Range",
        "SoftmaxCrossEntropyLoss"}},
      {"infer",
       {"PRelu",
        "BatchNormalization",
        "GlobalAveragePool",
        "Sqrt",
        "Erf",
        "Gelu",
        "Tanh",
        "Sigmoid",
        "Elu",
        "Selu",
        "LeakyRelu",
        "HardSigmoid",
        "HardSwish",
        "Swish",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Sum",
        "Where",
        "AveragePool",
        "Dropout",
        "GridSample",
        "ScatterND",
        "ScatterElements"}},
      {"clear", {"Concat",      "Relu",      "Clip",      "Abs",       "Neg",     "Min",
                 "Max",         "MaxPool",   "ReduceMax", "ReduceMin", "Gather",  "GatherElements",
                 "GatherND",    "Slice",     "Split",     "Pad",       "Reshape", "Transpose",
                 "Squeeze",     "Unsqueeze", "Expand",    "Tile",      "Flatten", "Identity",
                 "DepthToSpace"}}};
  for (const auto& [cls, ops] : table) {
    for (const char* op : ops) {
      INFO(op);
      CHECK(class_of(o1, op) == cls);
    }
  }
  CHECK(class_of(o1, "Resize", "nearest") == "infer");
  CHECK(class_of(o1, "Resize", "linear") == "deny");
  CHECK(class_of(o1, "Resize", "cubic") == "deny");
  CHECK(o1.loss_scale == LossScaleConfig{});
}

TEST_CASE("O0 denies all, O3 allows all, O2 all but norms and O1's risky operators") {
  CHECK(class_of(preset("O0"), "MatMul") == "deny");
  CHECK(class_of(preset("O3"), "Exp") == "allow");
  const OpList o2 = preset("O2");
  for (const char* norm : {"LayerNormalization", "RMSNormalization", "GroupNormalization", "InstanceNormalization",
                           "BatchNormalization", "SkipLayerNormalization", "LRN"})
    CHECK(class_of(o2, norm) == "deny");
  for (const char* op : {"Softmax", "Add", "ReduceMean"}) CHECK(class_of(o2, op) == "allow");
  CHECK(class_of(o2, "Exp") == "deny");
  CHECK(o2.find("", "Exp")->source == "O1");
  CHECK(o2.find("", "Gelu")->source == "O2");
}

TEST_CASE("a file edits what it inherits") {
  const OpList list = parse(R"({"version": 1, "dtype": "bf16",
    "allow": {"add": ["Swish"], "remove": ["LSTM"]}, "deny": {"add": ["Gelu"]},
    "rules": [{"op": "MatMul", "node": "/encoder/layer.11/*", "precision": "fp32", "why": "outliers"},
              {"param": "*classifier*", "precision": "follow"}],
    "loss_scale": {"init": 1024, "max": "inf"}})");
  CHECK(list.dtype == DType::bf16);
  CHECK(class_of(list, "Swish") == "allow");
  CHECK(class_of(list, "LSTM") == "infer");    // removed from the list: it gets the class infer
  CHECK(class_of(list, "Gelu") == "deny");     // the file moves it out of infer
  CHECK(class_of(list, "MatMul") == "allow");  // inherited from O1, the default
  CHECK(list.find("", "Gelu")->source == "my.json");
  CHECK(list.find("", "MatMul")->source == "O1");
  REQUIRE(list.rules.size() == 2);
  CHECK(list.rules[0].why == "outliers");
  CHECK(list.rules[0].source == "rule 1 of my.json");
  CHECK(list.rules[1].precision == Precision::follow);
  CHECK(list.loss_scale.init == 1024);
  CHECK(list.loss_scale.growth_interval == 2000);
  CHECK(std::isinf(list.loss_scale.max));
}

TEST_CASE("a plain array replaces the inherited class; naming an operator elsewhere moves it") {
  const OpList list = parse(R"({"version": 1, "deny": ["MatMul"]})");
  CHECK(class_of(list, "MatMul") == "deny");
  CHECK(class_of(list, "Conv") == "allow");
  CHECK(class_of(list, "Softmax") == "unlisted");
}

TEST_CASE("an operator speaks for all its modes unless a mode is named") {
  CHECK(class_of(parse(R"({"version": 1, "allow": {"add": ["Resize"]}})"), "Resize", "linear") == "allow");
  const OpList list = parse(R"({"version": 1, "deny": {"add": ["Resize"]}, "allow": {"add": ["Resize.cubic"]}})");
  CHECK(class_of(list, "Resize", "nearest") == "deny");
  CHECK(class_of(list, "Resize", "cubic") == "allow");
}

TEST_CASE("operators of other domains and the star") {
  const OpList list = parse(R"({"version": 1, "extends": "none", "deny": ["*"], "allow": ["com.acme::Foo", "Gelu"],
                                "clear": ["com.microsoft::Gelu"]})");
  CHECK(list.find("com.acme", "Foo")->cls == OpClass::allow);
  CHECK(list.find("com.other", "Foo")->cls == OpClass::deny);
  CHECK(list.find("", "Gelu")->cls == OpClass::allow);
  CHECK(list.find("com.microsoft", "Gelu")->cls == OpClass::clear);
}

TEST_CASE("a removal of what is not there is a warning") {
  CHECK(parse(R"({"version": 1, "allow": {"remove": ["Softmax"]}})").warnings ==
        std::vector<std::string>{"my.json: 'Softmax' is removed from allow, where it was not"});
}

TEST_CASE("loss_scale: number, word or object") {
  using Mode = LossScaleConfig::Mode;
  CHECK(parse(R"({"version": 1, "loss_scale": 128})").loss_scale.mode == Mode::fixed);
  CHECK(parse(R"({"version": 1, "loss_scale": 128})").loss_scale.init == 128);
  CHECK(parse(R"({"version": 1, "loss_scale": 0})").loss_scale.mode == Mode::off);
  CHECK(parse(R"({"version": 1, "extends": "O3", "loss_scale": {"mode": "dynamic", "init": 8}})").loss_scale.mode ==
        Mode::dynamic);
}

TEST_CASE("errors say what, where and what to do") {
  check_error("{\"version\": 1,\n\"deny\": [}", "E_OP_LIST_JSON", "not JSON", "line 2");
  check_error("<html>", "E_OP_LIST_JSON", "not JSON", "line 1");
  check_error("", "E_OP_LIST_JSON", "not JSON", "line 1");
  check_error("[1]", "E_OP_LIST_KEY", "expected an object", "");
  check_error(R"({"version": 1, "deny": ["Exp"], "deny": ["Log"]})", "E_OP_LIST_JSON", "'deny' is given twice", "");
  check_error(R"({"extends": "O1"})", "E_OP_LIST_KEY", "'version' is missing", "");
  check_error(R"({"version": 2})", "E_OP_LIST_KEY", "version 2", "version");
  check_error(R"({"version": 1, "dent": []})", "E_OP_LIST_KEY", "unknown key 'dent'", "", "'deny'");
  check_error(R"({"version": 1, "deny": {"ad": []}})", "E_OP_LIST_KEY", "unknown key 'ad'", "deny", "'add'");
  check_error(R"({"version": 1, "deny": {"add": ["Softmax", "Sofmax"]}})", "E_OP_LIST_OPERATOR", "'Sofmax'",
              "deny.add[1]", "'Softmax'");
  check_error(R"({"version": 1, "deny": ["ai.onnx::Sofmax"]})", "E_OP_LIST_OPERATOR", "'ai.onnx::Sofmax'", "deny[0]",
              "'Softmax'");
  check_error(R"({"version": 1, "deny": ["com.microsoft::Sofmax"]})", "E_OP_LIST_OPERATOR", "'com.microsoft::Sofmax'",
              "deny[0]");
  check_error(R"({"version": 1, "deny": [7]})", "E_OP_LIST_KEY", "expected a string, got number", "deny[0]");
  check_error(R"({"version": 1, "deny": "Exp"})", "E_OP_LIST_KEY", "expected an array or {add, remove}", "deny");
  check_error(R"({"version": 1, "allow": ["Exp"], "deny": ["Exp"]})", "E_OP_LIST_OVERLAP", "in allow and deny", "");
  check_error(R"({"version": 1, "allow": {"add": ["Exp"]}, "clear": {"add": ["Exp"]}})", "E_OP_LIST_OVERLAP",
              "in allow and clear", "");
  check_error(R"({"version": 1, "allow": {"add": ["Exp"], "remove": ["Exp"]}})", "E_OP_LIST_OVERLAP", "both added", "");
  check_error(R"({"version": 1, "dtype": "fp8"})", "E_OP_LIST_PRECISION", "'fp8'", "dtype", "fp16");
  check_error(R"({"version": 1, "propagation": "pain"})", "E_OP_LIST_PRECISION", "'pain'", "propagation", "'paint'");
  check_error(R"({"version": 1, "rules": [{"op": "Exp", "precision": "low"}, {"op": "Exp", "precision": "fp_16"}]})",
              "E_OP_LIST_PRECISION", "'fp_16'", "rules[1].precision", "fp16");
  check_error(R"({"version": 1, "rules": [{"precision": "low"}]})", "E_OP_LIST_KEY", "at least one of", "rules[0]");
  check_error(R"({"version": 1, "rules": [{"op": "Exp"}]})", "E_OP_LIST_KEY", "needs a precision", "rules[0]");
  check_error(R"({"version": 1, "rules": [{"op": "MatMull", "precision": "low"}]})", "E_OP_LIST_OPERATOR", "'MatMull'",
              "rules[0].op", "'MatMul'");
  check_error(R"({"version": 1, "loss_scale": {"backoff_factor": 2}})", "E_LOSS_SCALE", "backoff_factor", "");
  check_error(R"({"version": 1, "loss_scale": {"growth_interval": 1.5}})", "E_OP_LIST_KEY", "whole number",
              "loss_scale.growth_interval");
  check_error(R"({"version": 1, "extends": "o11"})", "E_OP_LIST_EXTENDS", "'o11' is neither a preset", "extends",
              "'O1'");
}

TEST_CASE("files extend files beside them; circles and missing files are found") {
  const Folder folder;
  folder.write("base.json", R"({"version": 1, "deny": {"add": ["Tanh"]},
                               "rules": [{"node": "a", "precision": "fp32"}]})");
  const std::string child = folder.write("child.json", R"({"version": 1, "extends": "base.json",
      "infer": {"add": ["Tanh"]}, "rules": [{"node": "b", "precision": "low"}]})");
  const OpList list = load_op_list(child);
  CHECK(class_of(list, "Tanh") == "infer");
  REQUIRE(list.rules.size() == 2);
  CHECK(list.rules[0].source == "rule 1 of base.json");
  CHECK(list.rules[1].source == "rule 1 of child.json");

  folder.write("x.json", R"({"version": 1, "extends": "y.json"})");
  const std::string y = folder.write("y.json", R"({"version": 1, "extends": "x.json"})");
  CHECK_THROWS_WITH(load_op_list(y), ContainsSubstring("in a circle") && ContainsSubstring("x.json"));
  CHECK_THROWS_WITH(load_op_list("no_such.json"), ContainsSubstring("neither a preset"));
  CHECK_THROWS_WITH(preset("Pytorch"), ContainsSubstring("did you mean 'pytorch'"));
}
