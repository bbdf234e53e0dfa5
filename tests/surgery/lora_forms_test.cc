// Tests adapters on each form of a weight: gradients against differences in float64, DoRA against its formula, and both
// forms of the export.
#include <onnx/defs/parser.h>

#include "base/text.h"
#include "graph/autodiff.h"
#include "importer/surgery/lora.h"
#include "surgery.h"

using namespace amp;
using namespace amp::test;

namespace {

struct Model {
  Imported imported;
  LoraResult lora;
  Tensors inputs;
  SourceGraph& graph() { return imported.graph; }
};

Imported import_text(const TempDir& f, const std::string& text) {
  onnx::ModelProto proto;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(proto);
  INFO(status.ErrorMessage());
  REQUIRE(status.IsOK());
  std::ofstream(f / "in.onnx", std::ios::binary) << proto.SerializeAsString();
  return import_model(f / "in.onnx");
}

// Returns numbers between -1 and 1 without a pattern.
HostTensor some(DType t, const Dims& dims, double scale, int64_t shift) {
  HostTensor x = HostTensor::empty(DType::f32, dims);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.as_mutable<float>()[i] = static_cast<float>(scale * std::sin(static_cast<double>(i * i + 7 * i + 13 * shift)));
  return x.cast(t);
}

LoraOptions options_of(const std::string& text, bool keep = false) {
  LoraOptions o = parse_lora(text);
  o.evaluate = cpu_evaluator();
  o.keep = keep;
  return o;
}

// Adds adapters and sets A, B and magnitudes to values as after training.
void adapt_as_trained(Model& m, const std::string& text, bool keep) {
  m.lora = add_lora(m.graph(), options_of(text, keep));
  int64_t n = 1;
  for (const LoraAdapter& a : m.lora.adapters) {
    for (const int v : {a.a, a.b}) {
      SourceValue& x = m.graph().values[static_cast<size_t>(v)];
      x.data = some(x.data.dtype(), x.data.dims(), 0.5, n++);
    }
    if (a.magnitude < 0) continue;
    SourceValue& x = m.graph().values[static_cast<size_t>(a.magnitude)];
    HostTensor t = HostTensor::empty(DType::f32, x.data.dims());
    for (int64_t i = 0; i < t.numel(); ++i)
      t.as_mutable<float>()[i] = x.data.as<float>()[i] * (1 + 0.1f * static_cast<float>(i % 4));
    x.data = t;
  }
}

struct Exact {
  double loss = 0;
  HostTensor y;
  std::map<int, HostTensor> grads;  // key: source value
};

// Computes sum(c y) of the first output in float64, with c = cos(1.7 i), and its gradients.
Exact exactly(const SourceGraph& g, const Tensors& inputs, const std::map<int, HostTensor>& values) {
  const ParamTable table(g);
  BindOptions o;
  o.float_type = DType::f64;
  o.outputs = {g.outputs[0]};
  Tensors wide;
  for (const auto& [name, t] : inputs) {
    o.input_dims[name] = t.dims();
    wide[name] = is_float(t.dtype()) ? t.cast(DType::f64) : t;
  }
  Graph graph;
  Builder b(graph, cpu_evaluator());
  const Bound bound = bind(g, table, o, b);
  std::vector<HostTensor> params;
  std::vector<ValueId> wrt;
  std::vector<int> source;
  for (const int v : table.source_value) {
    const auto it = values.find(v);
    params.push_back((it == values.end() ? g.value(v).data.cast(DType::f64) : it->second));
    const ValueId p = bound.values[static_cast<size_t>(v)];
    if (!g.value(v).trainable || !p) continue;
    wrt.push_back(p);
    source.push_back(v);
  }
  const ValueId y = bound.values[static_cast<size_t>(g.outputs[0])];
  std::vector<double> c;
  for (int64_t i = 0; i < numel(b.dims(y)); ++i) c.push_back(std::cos(1.7 * static_cast<double>(i)));
  Autodiff ad(b, wrt);
  ad.seed(y, b.constant(HostTensor::of<double>(b.dims(y), c)));
  ad.run();
  graph.outputs = {{"y", y}};
  for (const ValueId p : wrt) {
    REQUIRE(ad.reached(p));
    graph.param_grads.push_back({graph.value(p).slot, ad.grad(p)});
  }
  const Interpreted r = interpret(graph, wide, params);
  Exact out;
  out.y = r.outputs.at("y");
  const std::vector<double> ys = out.y.to_doubles();
  for (size_t i = 0; i < ys.size(); ++i) out.loss += c[i] * ys[i];
  for (size_t i = 0; i < wrt.size(); ++i) out.grads[source[i]] = r.param_grads.at(graph.value(wrt[i]).slot);
  return out;
}

// Compares the gradient of a parameter with central differences.
void check_differences(const SourceGraph& g, const Tensors& inputs, const Exact& at, int v) {
  const std::vector<double> got = at.grads.at(v).to_doubles();
  const std::vector<double> start = g.value(v).data.to_doubles();
  double largest = 1e-12;
  for (const double x : got) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < start.size(); ++i) {
    double side[2];
    for (int k = 0; k < 2; ++k) {
      std::vector<double> moved = start;
      moved[i] += k ? 1e-5 : -1e-5;
      side[k] = exactly(g, inputs, {{v, HostTensor::of<double>(g.value(v).data.dims(), moved)}}).loss;
    }
    INFO(g.value(v).name << " element " << i);
    CHECK(std::abs((side[1] - side[0]) / 2e-5 - got[i]) < 1e-7 * largest + 1e-9);
  }
}

struct Form {
  const char* what;
  std::string text, targets;
  size_t adapters;
  MapKind kind;
  bool mergeable;
};

const char* kBytes =
    "1,250,37,99,200,17,64,128,5,77,210,33,18,240,66,91,12,45,178,203,54,7,161,88,"
    "31,222,49,140,73,9,190,111";

std::vector<Form> forms() {
  const std::string head = R"(<ir_version: 8, opset_import: ["" : 21, "com.microsoft" : 1]> g )";
  const std::string bytes = kBytes;
  std::string floats;
  for (int i = 0; i < 72; ++i) floats += cat(i ? "," : "", std::sin(i * i + 3.0 * i));
  const auto first = [&](int n) {
    std::vector<std::string> all = split(floats, ',');
    all.resize(static_cast<size_t>(n));
    return join(all, ",");
  };
  return {
      {"MatMulNBits",
       head + "(float[N,16] x) => (float[N,4] y) <uint8[4,1,8] B = {" + bytes +
           "}, float[4] s = {0.1,-0.2,0.3,0.05}, float[4] c = {1,2,3,4}> { y = "
           "com.microsoft.MatMulNBits <K = 16, N = 4, bits = 4, block_size = 16> (x, B, s, , , c) }",
       "r=2", 1, MapKind::packed, false},
      {"MatMulBnb4",
       head + "(float[N,16] x) => (float[N,4] y) <uint8[32] B = {" + bytes +
           "}, float[4] s = {0.1,0.2,0.3,0.05}> { y = com.microsoft.MatMulBnb4 <K = 16, N = 4, "
           "block_size = 16, quant_type = 1> (x, B, s) }",
       "r=2", 1, MapKind::packed, false},
      {"DequantizeLinear",
       head + "(float[N,8] x) => (float[N,4] y) <uint8[8,4] B = {" + bytes +
           "}, float[4] s = {0.01,0.02,0.03,0.05}, uint8[4] z = {120,130,99,128}> { w = "
           "DequantizeLinear <axis = 1> (B, s, z) y = MatMul (x, w) }",
       "r=2", 1, MapKind::dequantized, false},
      {"DequantizeLinear, transposed",
       head + "(float[N,8] x) => (float[N,4] y) <uint8[4,8] B = {" + bytes +
           "}, float s = {0.02}, uint8 z = {128}, float[4] c = {1,2,3,4}> { w = "
           "DequantizeLinear (B, s, z) y = Gemm <transB = 1, alpha = 0.5, beta = 2.0> "
           "(x, w, c) }",
       "r=2", 1, MapKind::dequantized, false},
      {"Conv 1x1",
       head + "(float[N,3,4,4] x) => (float[N,4,2,2] y) <float[4,3,1,1] W = {" + first(12) +
           "}, float[4] c = {1,2,3,4}> { y = Conv <strides = [2,2]> (x, W, c) }",
       "r=2,targets=conv", 1, MapKind::convolution, true},
      {"Conv 3x3",
       head + "(float[N,2,4,4] x) => (float[N,4,4,4] y) <float[4,2,3,3] W = {" + first(72) +
           "}> { y = Conv <pads = [1,1,1,1], kernel_shape = [3,3]> (x, W) }",
       "r=3,targets=W", 1, MapKind::convolution, true},
      {"Gather", head + "(int64[N,3] x) => (float[N,3,4] y) <float[6,4] W = {" + first(24) + "}> { y = Gather (W, x) }",
       "r=2,targets=embedding", 1, MapKind::table, true},
      {"tied table and head",
       head + "(int64[N,3] x) => (float[N,3,6] y) <float[6,4] W = {" + first(24) +
           "}> { e = Gather (W, x) h = Tanh (e) t = Transpose <perm = [1,0]> (W) y = MatMul (h, "
           "t) }",
       "r=2,targets=embedding,targets=head", 2, MapKind::table, false},
      {"GatherBlockQuantized",
       head + "(int64[N,3] x) => (float[N,3,16] y) <uint8[4,8] W = {" + bytes +
           "}, float[4,1] s = {0.1,-0.2,0.3,0.05}> { y = com.microsoft.GatherBlockQuantized "
           "<bits = 4, block_size = 16, gather_axis = 0, quantize_axis = 1> (W, x, s) }",
       "r=2,targets=embedding", 1, MapKind::table, false},
  };
}

Tensors inputs_of(const SourceGraph& g) {
  const SourceValue& x = g.value(g.inputs[0]);
  Dims d;
  for (const Dim& e : x.dims) d.push_back(e.value > 0 ? e.value : 2);
  if (is_float(x.dtype)) return {{"x", some(DType::f32, d, 1, 5)}};
  return {{"x", HostTensor::of<int64_t>(d, {0, 3, 1, 2, 3, 0})}};
}

// Freezes all parameters except the adapters', because a file's quantized weight has trained scales, too.
void freeze_others(SourceGraph& g) {
  for (SourceValue& v : g.values) v.trainable = v.trainable && v.reason == "LoRA";
}

// Imports an exported file that contains adapters: their scales must be constants. A second LoRA run must adapt the
// same weights as the first run did, and not the A and B of the first run.
void check_second_stage(const std::string& path, const Form& form, bool merged) {
  Imported again = import_model(path);
  size_t scales = 0;
  for (const SourceValue& v : again.graph.values) {
    if (!v.name.ends_with(".lora_scale")) continue;
    ++scales;
    INFO(v.name << ": " << v.reason);
    CHECK(v.kind == SourceKind::constant);
  }
  CHECK(scales == (merged ? 0 : form.adapters));
  // The importer would take a floating-point W for a constant, because its numbers in these texts have few digits.
  if (const int w = again.graph.find("W"); w >= 0 && is_float(again.graph.value(w).data.dtype()))
    again.graph.values[static_cast<size_t>(w)].kind = SourceKind::parameter;
  // A tied weight is not recognized as a head if its product is added to that of its adapter.
  const LoraResult second =
      add_lora(again.graph, options_of(form.adapters == 2 ? "r=2,targets=W,targets=Gather_0" : form.targets));
  CHECK(second.adapters.size() == form.adapters);
  const std::string lines = join(second.lines, "\n");
  CHECK((lines.find("part of adapters in the file") != std::string::npos) == !merged);
}

}  // namespace

TEST_CASE("each form of a weight takes adapters: gradients, and both exports compute the same") {
  for (const Form& form : forms()) {
    for (const bool keep : {false, true}) {
      DYNAMIC_SECTION(form.what << (keep ? " kept" : "")) {
        const TempDir f;
        Model m{import_text(f, form.text), {}, {}};
        const Imported plain = import_text(f, form.text);
        m.inputs = inputs_of(m.graph());
        adapt_as_trained(m, form.targets, keep);
        REQUIRE(m.lora.adapters.size() == form.adapters);
        CHECK(m.lora.adapters[0].kind == form.kind);
        CHECK(m.lora.adapters[0].merged == (form.mergeable && !keep));
        freeze_others(m.graph());
        const Exact now = exactly(m.graph(), m.inputs, {});
        CHECK(difference(now.y, exactly(plain.graph, m.inputs, {}).y) > 0.01);
        for (const auto& [v, t] : now.grads) check_differences(m.graph(), m.inputs, now, v);
        CHECK(now.grads.size() == 2 * form.adapters);

        Session s(m.graph(), {});
        export_model(*m.imported.doc, m.graph(), merge_lora(m.graph(), m.lora.adapters, all_parameters(s)), {},
                     f / "out.onnx");
        const Imported again = import_model(f / "out.onnx");
        CHECK(difference(exactly(again.graph, m.inputs, {}).y, now.y) < 1e-6);
        if (form.mergeable && !keep) CHECK(again.graph.nodes.size() == plain.graph.nodes.size());
        check_second_stage(f / "out.onnx", form, form.mergeable && !keep);
      }
    }
  }
}

TEST_CASE("DoRA computes m (W + S) / |W + S| with a constant norm, on weights with a bias and without") {
  for (const Form& form : forms()) {
    if (form.kind == MapKind::convolution || form.kind == MapKind::table) continue;
    INFO(form.what);
    const TempDir f;
    Model m{import_text(f, form.text), {}, {}};
    m.inputs = inputs_of(m.graph());
    // Before training, the model with adapters computes the same as the file.
    {
      Imported first = import_text(f, form.text);
      add_lora(first.graph, options_of("r=2,dora=true"));
      CHECK(difference(exactly(first.graph, m.inputs, {}).y, exactly(m.graph(), m.inputs, {}).y) < 1e-6);
    }
    adapt_as_trained(m, "r=2,alpha=3,dora=true", false);
    freeze_others(m.graph());
    const Exact now = exactly(m.graph(), m.inputs, {});
    const LoraAdapter& a = m.lora.adapters.at(0);
    check_differences(m.graph(), m.inputs, now, a.magnitude);

    // DoRA's formula; W is computed from products with unit vectors.
    const Imported plain = import_text(f, form.text);
    const int64_t in = a.in, out = a.out, rows = 2;
    HostTensor unit = HostTensor::zeros(DType::f32, {in, in});
    for (int64_t i = 0; i < in; ++i) unit.as_mutable<float>()[i * in + i] = 1;
    const std::vector<double> w_and_bias = exactly(plain.graph, {{"x", unit}}, {}).y.to_doubles();
    const std::vector<double> bias =
        exactly(plain.graph, {{"x", HostTensor::zeros(DType::f32, {1, in})}}, {}).y.to_doubles();
    const auto value = [&](int v) { return m.graph().value(v).data.to_doubles(); };
    const std::vector<double> pa = value(a.a), pb = value(a.b), pm = value(a.magnitude);
    const std::vector<double> x = m.inputs.at("x").to_doubles();
    const double alpha = std::string(form.text).find("alpha = 0.5") == std::string::npos ? 1 : 0.5;
    const auto weight = [&](int64_t i, int64_t j) {  // W + S
      double s = w_and_bias[static_cast<size_t>(i * out + j)] - bias[static_cast<size_t>(j)];
      s /= alpha;
      for (int64_t k = 0; k < a.rank; ++k)
        s += a.scale * pa[static_cast<size_t>(i * a.rank + k)] * pb[static_cast<size_t>(k * out + j)];
      return s;
    };
    std::vector<double> y, da(pa.size()), db(pb.size());
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t j = 0; j < out; ++j) {
        double norm = 0, sum = 0;
        for (int64_t i = 0; i < in; ++i) {
          norm += weight(i, j) * weight(i, j);
          sum += x[static_cast<size_t>(n * in + i)] * weight(i, j);
        }
        const double gain = alpha * pm[static_cast<size_t>(j)] / std::sqrt(norm);
        y.push_back(gain * sum + bias[static_cast<size_t>(j)]);
        const double c = std::cos(1.7 * static_cast<double>(n * out + j)) * gain * a.scale;
        for (int64_t i = 0; i < in; ++i) {
          for (int64_t k = 0; k < a.rank; ++k) {
            da[static_cast<size_t>(i * a.rank + k)] +=
                c * x[static_cast<size_t>(n * in + i)] * pb[static_cast<size_t>(k * out + j)];
            db[static_cast<size_t>(k * out + j)] +=
                c * x[static_cast<size_t>(n * in + i)] * pa[static_cast<size_t>(i * a.rank + k)];
          }
        }
      }
    }
    CHECK(difference(now.y, HostTensor::of<double>(now.y.dims(), y)) < 1e-6);
    CHECK(difference(now.grads.at(a.a), HostTensor::of<double>({in, a.rank}, da)) < 1e-6);
    CHECK(difference(now.grads.at(a.b), HostTensor::of<double>({a.rank, out}, db)) < 1e-6);
    Session s(m.graph(), {});
    export_model(*m.imported.doc, m.graph(), merge_lora(m.graph(), m.lora.adapters, all_parameters(s)), {},
                 f / "out.onnx");
    const Imported again = import_model(f / "out.onnx");
    CHECK(difference(exactly(again.graph, m.inputs, {}).y, now.y) < 2e-6);
    size_t constants = 0;
    for (const SourceValue& v : again.graph.values) {
      if (!v.data || v.name.find(".lora_norm/") == std::string::npos) continue;
      ++constants;
      INFO(v.name << ": " << v.reason);
      CHECK(v.kind == SourceKind::constant);
    }
    // The constants are |W|^2, the exponent 2 and the smallest square; some forms also have axes as an input.
    CHECK(constants >= 3);
  }
}

TEST_CASE("some parts of a packed product take adapters, and the others stay as they are") {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 21]> g (float[N,4] x) => (float[N,4] y)
    <float[4,6] W = {0.3,-0.2,0.5,0.7,-0.4,0.1,0.9,-0.8,0.25,0.6,-0.35,0.45,-0.1,0.2,0.15,-0.6,0.8,-0.7,0.4,0.55,-0.9,
     0.05,0.65,-0.3}, float[3,4] D = {0.7,-0.5,0.3,0.2,0.6,-0.8,0.45,0.9,-0.25,0.35,0.15,-0.4}>
    { h = MatMul (x, W)  a, b = Split <axis = -1, num_outputs = 2> (h)  s = Sigmoid (a)  c = Mul (s, a)  d = Mul (c, b)
      e = MatMul (d, D)  y = Add (e, x) })";
  for (const char* options : {"r=2,alpha=3,targets=up", "r=2,alpha=3,targets=gate,targets=up",
                              "r=2,alpha=3,targets=gate_up,fused=true", "r=2,alpha=3,targets=W.gate,dora=true"}) {
    for (const bool keep : {false, true}) {
      INFO(options << (keep ? " kept" : ""));
      const TempDir f;
      Model m{import_text(f, text), {}, {}};
      m.inputs = inputs_of(m.graph());
      const HostTensor plain = exactly(m.graph(), m.inputs, {}).y;
      {
        Imported first = import_text(f, text);
        add_lora(first.graph, options_of(options));
        CHECK(difference(exactly(first.graph, m.inputs, {}).y, plain) < 1e-6);
      }
      adapt_as_trained(m, options, keep);
      const LoraAdapter& a = m.lora.adapters.at(0);
      const bool fused = std::string(options).find("fused") != std::string::npos;
      CHECK(a.part == (fused ? "" : std::string(options).find("gate") != std::string::npos ? "gate" : "up"));
      CHECK(a.first == (a.part == "up" ? 3 : 0));
      CHECK(a.out == (fused ? 6 : 3));
      CHECK(a.name == (fused ? "W" : "W." + a.part));
      const Exact now = exactly(m.graph(), m.inputs, {});
      CHECK(difference(now.y, plain) > 0.01);
      const bool dora = a.magnitude >= 0;
      for (const auto& [v, t] : now.grads) {
        if (!dora || v == a.magnitude) check_differences(m.graph(), m.inputs, now, v);
      }
      Session s(m.graph(), {});
      export_model(*m.imported.doc, m.graph(), merge_lora(m.graph(), m.lora.adapters, all_parameters(s)), {},
                   f / "out.onnx");
      const Imported again = import_model(f / "out.onnx");
      CHECK(difference(exactly(again.graph, m.inputs, {}).y, now.y) < 2e-6);
    }
  }
}
