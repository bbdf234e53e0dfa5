// Tests that the outputs of detectors, heat maps, depth and sequence models are distinguished from the outputs of
// encoders and classifiers, to which a pooled classifier can be attached. The small graphs have the form that exporters
// write.
#include "backend/interpreter.h"
#include "graph/bind.h"
#include "importer/discover/output_evidence.h"
#include "models.h"

using namespace amp;
using namespace amp::test;

namespace {

using Strings = std::vector<std::string>;

// Builds a graph on images x [N, 3, 64, 64]. Each function adds a node and returns the name of its result.
class Net {
 public:
  Net() {
    m_.set_ir_version(8);
    m_.add_opset_import()->set_version(17);
    m_.mutable_graph()->set_name("net");
    info(*m_.mutable_graph()->add_input(), "x", {-1, 3, 64, 64});
  }

  std::string node(const std::string& op, const Strings& in,
                   const std::map<std::string, std::vector<int64_t>>& ints = {}, int outputs = 1) {
    auto& n = *m_.mutable_graph()->add_node();
    n.set_op_type(op);
    for (const std::string& i : in) n.add_input(i);
    const std::string name = "v" + std::to_string(count_++);
    for (int i = 0; i < outputs; ++i) n.add_output(i ? name + "_" + std::to_string(i) : name);
    for (const auto& [key, values] : ints) {
      auto& a = *n.add_attribute();
      a.set_name(key);
      const bool one = key == "axis" || key == "keepdims" || key == "hidden_size";
      a.set_type(one ? onnx::AttributeProto::INT : onnx::AttributeProto::INTS);
      if (one) a.set_i(values[0]);
      for (const int64_t v : values) {
        if (!one) a.add_ints(v);
      }
    }
    return name;
  }
  std::string weight(const Dims& dims) {
    auto& t = *m_.mutable_graph()->add_initializer();
    t.set_name("w" + std::to_string(count_++));
    t.set_data_type(onnx::TensorProto::FLOAT);
    int64_t n = 1;
    for (const int64_t d : dims) {
      t.add_dims(d);
      n *= d;
    }
    for (int64_t i = 0; i < n; ++i) t.add_float_data(static_cast<float>((i * 37 % 101 - 50) * 0.013));
    return t.name();
  }
  std::string scalar(float value) {
    auto& t = *m_.mutable_graph()->add_initializer();
    t.set_name("c" + std::to_string(count_++));
    t.set_data_type(onnx::TensorProto::FLOAT);
    t.add_float_data(value);
    return t.name();
  }
  std::string ints(const std::vector<int64_t>& values) {
    auto& t = *m_.mutable_graph()->add_initializer();
    t.set_name("i" + std::to_string(count_++));
    t.set_data_type(onnx::TensorProto::INT64);
    t.add_dims(static_cast<int64_t>(values.size()));
    for (const int64_t v : values) t.add_int64_data(v);
    return t.name();
  }
  std::string conv(const std::string& x, int64_t in, int64_t out, int64_t stride = 1) {
    return node("Conv", {x, weight({out, in, stride, stride}), weight({out})}, {{"strides", {stride, stride}}});
  }
  std::string relu(const std::string& x) { return node("Relu", {x}); }
  std::string features(int64_t c = 32, int64_t stride = 8) { return relu(conv("x", 3, c, stride)); }
  std::string reshape(const std::string& x, const std::vector<int64_t>& to) { return node("Reshape", {x, ints(to)}); }
  std::string turn(const std::string& x, const std::vector<int64_t>& perm) {
    return node("Transpose", {x}, {{"perm", perm}});
  }
  std::string linear(const std::string& x, int64_t in, int64_t out) {
    return node("Add", {node("MatMul", {x, weight({in, out})}), weight({out})});
  }
  std::string norm(const std::string& x, int64_t c) {
    return node("LayerNormalization", {x, weight({c}), weight({c})}, {{"axis", {-1}}});
  }
  // Adds a small encoder and returns its hidden states [N, 64, 32] before the last normalization.
  std::string tokens() {
    const std::string t = turn(reshape(features(), {0, 32, 64}), {0, 2, 1});
    return node("Add", {t, linear(relu(linear(norm(t, 32), 32, 64)), 64, 32)});
  }

  Net& output(const std::string& v, const std::string& name = {}) {
    std::string called = name.empty() ? v : name;
    if (!name.empty()) {
      auto& n = *m_.mutable_graph()->add_node();
      n.set_op_type("Identity");
      n.add_input(v);
      n.add_output(name);
    }
    auto& o = *m_.mutable_graph()->add_output();
    o.set_name(called);
    o.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    return *this;
  }

  OutputEvidence look(bool pooled = true) const {
    const TempDir f;
    const Imported m = import_model(save(f, m_));
    BindOptions o;
    o.outputs = m.graph.outputs;
    o.input_dims["x"] = {2, 3, 64, 64};
    return inspect_outputs(m.graph, probe_shapes(m.graph, ParamTable(m.graph), o, cpu_evaluator()), pooled);
  }

 private:
  static void info(onnx::ValueInfoProto& v, const std::string& name, const Dims& dims) {
    v.set_name(name);
    auto& t = *v.mutable_type()->mutable_tensor_type();
    t.set_elem_type(onnx::TensorProto::FLOAT);
    for (const int64_t d : dims) {
      auto& dim = *t.mutable_shape()->add_dim();
      if (d < 0) {
        dim.set_dim_param("N");
      } else {
        dim.set_dim_value(d);
      }
    }
  }

  onnx::ModelProto m_;
  int count_ = 0;
};

bool says(const OutputEvidence& look, const std::string& what) { return look.what.find(what) != std::string::npos; }

// Returns maps of two scales, [N, c, 8, 8] and [N, c, 4, 4].
Strings two_scales(Net& n, int64_t c) {
  const std::string a = n.features(32, 8), b = n.relu(n.conv(a, 32, 32, 2));
  return {n.conv(a, 32, c), n.conv(b, 32, c)};
}

}  // namespace

TEST_CASE("heads of detectors are not taken for hidden states or feature maps", "[look]") {
  {
    Net n;  // YOLOv8 before decoding, one scale: [N, 4 + classes, cells]
    CHECK(says(n.output(n.reshape(n.conv(n.features(), 32, 84), {0, 84, 64})).look(), "detector"));
  }
  {
    Net n;  // YOLOv8 before decoding, with 4 + classes = 80
    CHECK(says(n.output(n.reshape(n.conv(n.features(), 32, 80), {0, 80, 64})).look(), "detector"));
  }
  {
    Net n;  // YOLOv8 decoded: scales joined, classes after a sigmoid, boxes = (anchor - left, anchor + right) by stride
    const Strings s = two_scales(n, 8);
    const std::string all =
        n.node("Concat", {n.reshape(s[0], {0, 8, 64}), n.reshape(s[1], {0, 8, 16})}, {{"axis", {2}}});
    const std::string part = n.node("Split", {all, n.ints({2, 2, 4})}, {{"axis", {1}}}, 3);
    const std::string from = n.node("Sub", {n.weight({2, 80}), part});
    const std::string to = n.node("Add", {n.weight({2, 80}), part + "_1"});
    const std::string center = n.node("Mul", {n.node("Add", {from, to}), n.weight({1})});
    const std::string boxes = n.node("Concat", {center, n.node("Sub", {to, from})}, {{"axis", {1}}});
    const std::string scores = n.node("Sigmoid", {part + "_2"});
    CHECK(says(n.output(n.node("Concat", {boxes, scores}, {{"axis", {1}}})).look(), "detector"));
  }
  {
    Net n;  // YOLOv5 in training: [N, anchors, h, w, values]
    const std::string c = n.reshape(n.conv(n.features(), 32, 18), {0, 3, 6, 8, 8});
    CHECK(says(n.output(n.turn(c, {0, 1, 3, 4, 2})).look(), "detector"));
  }
  {
    Net n;  // YOLOv3: maps of several scales
    const Strings s = two_scales(n, 24);
    CHECK(says(n.output(s[0]).output(s[1]).look(), "detector"));
  }
  {
    Net n;  // SSD, RetinaNet: offsets and classes of all anchors, joined
    const Strings a = two_scales(n, 24), b = two_scales(n, 16);
    Strings locs, confs;
    for (const std::string& x : a) locs.push_back(n.reshape(n.turn(x, {0, 2, 3, 1}), {0, -1, 4}));
    for (const std::string& x : b) confs.push_back(n.reshape(n.turn(x, {0, 2, 3, 1}), {0, -1, 4}));
    const std::string scores = n.node("Softmax", {n.node("Concat", confs, {{"axis", {1}}})}, {{"axis", {-1}}});
    CHECK(says(n.output(n.node("Concat", locs, {{"axis", {1}}})).output(scores).look(), "detector"));
  }
  {
    Net n;  // a single level of RetinaNet: 9 anchors of 4 numbers per position
    CHECK(n.output(n.reshape(n.turn(n.conv(n.features(), 32, 36), {0, 2, 3, 1}), {0, -1, 4})).look());
  }
  {
    Net n;  // DETR: a linear map on decoded queries, and boxes after a sigmoid
    const std::string q = n.norm(n.tokens(), 32);
    CHECK(n.output(n.linear(q, 32, 7)).output(n.node("Sigmoid", {n.linear(q, 32, 4)})).look());
  }
  {
    Net n;
    const std::string q = n.norm(n.tokens(), 32);
    CHECK(says(n.output(q, "last_hidden_state").output(n.node("Sigmoid", {n.linear(q, 32, 4)}), "pred_boxes").look(),
               "boxes"));
  }
}

TEST_CASE("maps and sequences of predictions are not taken for features", "[look]") {
  {
    Net n;  // CenterNet: a heat map of centers
    const std::string f = n.features(32, 4);
    n.output(n.node("Sigmoid", {n.conv(f, 32, 80)})).output(n.conv(f, 32, 2)).output(n.conv(f, 32, 2));
    CHECK(n.look());
  }
  {
    Net n;  // key points
    CHECK(n.output(n.conv(n.features(32, 4), 32, 17)).look());
  }
  {
    Net n;  // a depth map: positive, without a channel dimension
    CHECK(n.output(n.node("Squeeze", {n.relu(n.conv(n.features(), 32, 1)), n.ints({1})})).look());
  }
  {
    Net n;  // segmentation at the size of the image
    CHECK(n.output(n.node("ConvTranspose", {n.features(), n.weight({32, 24, 8, 8})}, {{"strides", {8, 8}}})).look());
  }
  {
    Net n;  // OCR with CTC: columns of the image are steps
    const std::string columns =
        n.turn(n.node("ReduceMean", {n.features()}, {{"axes", {2}}, {"keepdims", {0}}}), {0, 2, 1});
    CHECK(says(n.output(n.node("LogSoftmax", {n.linear(columns, 32, 37)}, {{"axis", {-1}}})).look(), "every step"));
  }
}

TEST_CASE("encoders, backbones and classifiers are what they were", "[look]") {
  const auto fine = [](Net& n) {
    const OutputEvidence look = n.look();
    INFO(look.what << ", " << look.why);
    CHECK_FALSE(look);
    CHECK_FALSE(n.look(false));
  };
  {
    Net n;
    fine(n.output(n.norm(n.tokens(), 32)));
  }
  {
    Net n;  // CLIP's vision encoder, which has no last normalization
    fine(n.output(n.tokens()));
  }
  {
    Net n;  // a normalization that consists of single operators
    const std::string x = n.tokens();
    const std::string centered = n.node("Sub", {x, n.node("ReduceMean", {x}, {{"axes", {-1}}})});
    const std::string variance = n.node("ReduceMean", {n.node("Mul", {centered, centered})}, {{"axes", {-1}}});
    const std::string scaled = n.node("Div", {centered, n.node("Sqrt", {n.node("Add", {variance, n.weight({1})})})});
    fine(n.output(n.node("Add", {n.node("Mul", {scaled, n.weight({32})}), n.weight({32})})));
  }
  {
    Net n;
    fine(n.output(n.features()));
  }
  {
    Net n;  // a backbone that ends in SiLU
    const std::string c = n.conv("x", 3, 40, 8);
    fine(n.output(n.node("Mul", {c, n.node("Sigmoid", {c})})));
  }
  {
    Net n;  // a backbone that ends in a residual block with folded normalizations
    const std::string f = n.features();
    fine(n.output(n.node("Add", {n.conv(f, 32, 32), f})));
  }
  {
    Net n;  // a backbone that ends in a linear bottleneck
    fine(n.output(n.conv(n.features(32, 16), 32, 64)));
  }
  {
    Net n;  // the map of a backbone, reshaped to a sequence of positions
    fine(n.output(n.turn(n.reshape(n.features(), {0, 32, 64}), {0, 2, 1})));
  }
  {
    Net n;  // several stages of a backbone
    const std::string a = n.features(), b = n.relu(n.conv(a, 32, 64, 2));
    fine(n.output(a).output(b));
  }
  {
    Net n;  // several stages of a backbone with ReLU6
    const auto relu6 = [&](const std::string& x) { return n.node("Clip", {x, n.scalar(0), n.scalar(6)}); };
    const std::string a = relu6(n.conv("x", 3, 32, 8)), b = relu6(n.conv(a, 32, 64, 2));
    fine(n.output(a).output(b));
  }
  {
    Net n;
    const std::string pooled = n.node("ReduceMean", {n.features()}, {{"axes", {2, 3}}, {"keepdims", {0}}});
    fine(n.output(n.linear(pooled, 32, 10)));
  }
}

TEST_CASE("tensors with a label at every place keep their default loss", "[look]") {
  {
    Net n;  // segmentation: a label at every pixel
    CHECK_FALSE(n.output(n.conv(n.features(), 32, 21)).look(false));
  }
  {
    Net n;  // two maps of one size: two tasks
    const std::string f = n.features();
    CHECK_FALSE(n.output(n.conv(f, 32, 21)).output(n.conv(f, 32, 2)).look(false));
  }
  {
    Net n;  // a label for each part of the image
    CHECK_FALSE(n.output(n.linear(n.norm(n.tokens(), 32), 32, 7)).look(false));
  }
  {
    Net n;
    const Strings s = two_scales(n, 24);
    CHECK(n.output(s[0]).output(s[1]).look(false));
  }
}
