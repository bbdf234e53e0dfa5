// docs/operators.md is generated from the operator tables. It lists every ONNX operator with its versions, whether it
// can be differentiated once and twice, its lowering and its precision class. Differentiability is found by examples:
// ONNX's node tests and the small models of tests/data/importer. UPDATE_DOCS=1 test_node "[docs]" writes the file.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include "backend/interpreter.h"
#include "backend/kernel.h"
#include "base/error.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "graph/autodiff.h"
#include "graph/bind.h"
#include "graph/decompositions.h"
#include "graph/lists.h"
#include "graph/passes.h"
#include "importer/read/import.h"
#include "importer/read/tensor_file.h"
#include "precision/op_list.h"
#include "tests/node/markdown.h"
#include "tests/node/ort_gradients.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
namespace fs = std::filesystem;

namespace {

enum class Flow { none, zero, yes };  // kinds of gradients of floating inputs

struct Seen {
  bool example = false;
  Flow flow = Flow::none;
  std::set<std::string> core;
  bool twice = true;  // false if an example prevents a second derivative
};

bool all_zero(const Builder& b, ValueId v) {
  if (b.is_constant(v, 0)) return true;
  const NodeId p = b.value(v).producer;
  return p && b.graph().node(p).op->name == "Expand" && b.is_constant(b.graph().node(p).in[0], 0);
}

std::vector<ValueId> leaves(const Graph& graph) {
  std::vector<ValueId> out;
  for (int32_t i = 0; i < graph.n_values(); ++i) {
    const Value& v = graph.value(ValueId{i});
    if ((v.kind == ValueKind::input || v.kind == ValueKind::param) && is_float(v.dtype)) out.push_back(ValueId{i});
  }
  return out;
}

// Returns the source nodes that prevent a second derivative of the outputs "y".
std::set<int> in_the_way(Graph graph) {
  graph = decompose_operators(prune(graph), cpu_evaluator());
  const std::vector<ValueId> wrt = leaves(graph);
  {
    Builder b(graph, cpu_evaluator());
    Autodiff ad(b, wrt);
    for (const Graph::Output& o : graph.outputs)
      ad.seed(o.value, graph.add_input("d" + o.name, b.dtype(o.value), b.dims(o.value)));
    std::vector<std::pair<NodeId, Error>> faults;
    ad.run(&faults);
    graph.outputs.clear();
    for (size_t i = 0; i < wrt.size(); ++i) {
      if (const ValueId d = ad.grad(wrt[i])) graph.outputs.push_back({cat("g", i), d});
    }
  }
  graph = decompose_operators(std::move(graph), cpu_evaluator());
  std::vector<ValueId> gradients;
  for (const Graph::Output& o : graph.outputs) gradients.push_back(o.value);
  std::set<int> out;
  for (const NodeId n : gradient_blockers(graph, leaves(graph), gradients))
    out.insert(graph.node(n).origin.source_node);
  return out;
}

// Returns the bound graph with the outputs that in_the_way() differentiates.
Graph with_outputs(Graph graph, const SourceGraph& g, const Bound& bound) {
  graph.outputs.clear();
  for (const int v : g.outputs) {
    const ValueId y = bound.values[static_cast<size_t>(v)];
    if (y && is_float(graph.value(y).dtype)) graph.outputs.push_back({cat("y", v), y});
  }
  return graph;
}

// Binds a model of one node for the inputs' shapes and differentiates it.
void examine(const SourceGraph& g, const std::vector<std::pair<std::string, Dims>>& shapes, Seen& seen) {
  Graph graph;
  Builder b(graph, cpu_evaluator());
  BindOptions o;
  o.outputs = g.outputs;
  for (const auto& [name, dims] : shapes) o.input_dims[name] = dims;
  const Bound bound = bind(g, ParamTable(g), o, b);
  seen.example = true;
  const std::vector<ValueId> wrt = leaves(graph);
  if (!in_the_way(with_outputs(graph, g, bound)).empty()) seen.twice = false;
  for (int32_t n = 0; n < graph.n_nodes(); ++n) seen.core.insert(graph.node(NodeId{n}).op->name);
  Autodiff ad(b, wrt);
  for (const int v : o.outputs) {
    const ValueId y = bound.values[static_cast<size_t>(v)];
    if (y && is_float(b.dtype(y))) ad.seed(y, graph.add_input(cat("dy", v), b.dtype(y), b.dims(y)));
  }
  std::vector<std::pair<NodeId, Error>> faults;
  ad.run(&faults);
  for (const ValueId w : wrt) {
    const ValueId d = ad.grad(w);
    if (d) seen.flow = std::max(seen.flow, all_zero(b, d) ? Flow::zero : Flow::yes);
  }
}

using Table = std::map<std::string, Seen>;  // key: domain::name

void look_at_node_tests(const fs::path& root, Table& table) {
  for (const auto& folder : fs::directory_iterator(root)) {
    if (folder.path().string().ends_with("_expanded")) continue;
    // Inputs that become constants of the model: none, all but the first floating one, all. Finally an integer example
    // is tried with floating inputs.
    for (const int baked : {0, 1, 2, 3}) {
      try {
        Imported m = import_model((folder.path() / "model.onnx").string());
        SourceGraph& g = m.graph;
        if (g.nodes.size() != 1) break;
        std::vector<std::pair<std::string, Dims>> shapes;
        bool data = false;
        for (size_t i = 0; i < g.inputs.size(); ++i) {
          const fs::path file = folder.path() / "test_data_set_0" / cat("input_", i, ".pb");
          if (!fs::exists(file)) break;
          const HostTensor t = read_tensor_proto(file.string());
          SourceValue& v = g.values[static_cast<size_t>(g.inputs[i])];
          const bool integer = t.dtype() == DType::i64 || t.dtype() == DType::i32;
          const bool first = (is_float(t.dtype()) || (baked == 3 && integer && i == 0)) && !data;
          data = data || first;
          if (baked == 3 && first) v.dtype = DType::f32;
          if (baked == 2 || (baked == 3 && !first) || (baked == 1 && !first)) {
            v.kind = SourceKind::constant;
            v.data = t;
          } else {
            shapes.emplace_back(v.name, t.dims());
          }
        }
        Seen& seen = table[g.nodes[0].domain + "::" + g.nodes[0].op];
        if (baked == 3 && (!seen.example || seen.flow != Flow::none || !data)) break;
        examine(g, shapes, seen);
        if (data) break;
      } catch (const Error&) {  // tries the next form of the inputs; the node tests cover unsupported cases
      }
    }
  }
}

// Examines operators without an example elsewhere, each by a node with floating inputs of these dims.
void look_at_others(Table& table) {
  struct Other {
    const char *domain, *op;
    std::vector<Dims> in;
    Attrs attrs;
    DType type = DType::f32;
  };
  const char* const ms = "com.microsoft";
  const Attrs shape{{"shape", std::vector<int64_t>{2, 3}}};
  for (const Other& x : {Other{"", "Not", {{2}}, {}, DType::boolean},
                         {"", "GlobalLpPool", {{1, 2, 4, 4}}, {}},
                         {"", "RandomNormal", {}, shape},
                         {"", "RandomUniform", {}, shape},
                         {"", "RandomNormalLike", {{2}}, {}},
                         {"", "RandomUniformLike", {{2}}, {}},
                         {ms, "GemmFastGelu", {{2, 3}, {3, 4}, {4}}, {}},
                         {ms, "LayerNormalization", {{2, 3}, {3}, {3}}, {}},
                         {ms, "SimplifiedLayerNormalization", {{2, 3}, {3}}, {}},
                         {ms, "QuantizeLinear", {{2, 3}, {}}, {}},
                         {ms, "DequantizeLinear", {{2, 3}, {}}, {}}}) {
    SourceGraph g;
    SourceNode n;
    std::vector<std::pair<std::string, Dims>> shapes;
    const auto value = [&](const std::string& name, SourceKind kind) {
      SourceValue v;
      v.name = name;
      v.kind = kind;
      v.dtype = x.type;
      return g.add_value(std::move(v));
    };
    n.name = n.op = x.op;
    n.domain = x.domain;
    n.version = n.domain.empty() ? 17 : 1;
    n.attrs = x.attrs;
    for (const Dims& d : x.in) {
      shapes.emplace_back(cat("x", shapes.size()), d);
      n.inputs.push_back(value(shapes.back().first, SourceKind::input));
    }
    g.inputs = n.inputs;
    g.outputs = n.outputs = {value("y", SourceKind::temp)};
    g.add_node(std::move(n));
    examine(g, shapes, table[cat(x.domain, "::", x.op)]);
  }
}

// Records for every operator of a model with several nodes whether its inputs get a gradient.
void look_inside(const SourceGraph& g, const std::vector<std::pair<std::string, Dims>>& shapes, Table& table) {
  Graph graph;
  Builder b(graph, cpu_evaluator());
  BindOptions o;
  o.outputs = g.outputs;
  for (const auto& [name, dims] : shapes) o.input_dims[name] = dims;
  const Bound bound = bind(g, ParamTable(g), o, b);
  const int32_t nodes = graph.n_nodes();
  const std::vector<ValueId> wrt = leaves(graph);
  const std::set<int> blocking = in_the_way(with_outputs(graph, g, bound));
  Autodiff ad(b, wrt);
  for (const int v : o.outputs) {
    const ValueId y = bound.values[static_cast<size_t>(v)];
    if (is_float(b.dtype(y))) ad.seed(y, graph.add_input(cat("dy", v), b.dtype(y), b.dims(y)));
  }
  ad.run();
  const auto arrives = [&](ValueId v) {
    const std::vector<ValueId>* list = v ? list_of(graph, v) : nullptr;
    const std::vector<ValueId> all = list ? *list : std::vector<ValueId>{v};
    return std::any_of(all.begin(), all.end(), [&](ValueId x) { return x && ad.wanted(x) && ad.reached(x); });
  };
  const auto arrives_at = [&](int v) { return v >= 0 && arrives(bound.values[static_cast<size_t>(v)]); };
  const auto through = [&](const auto& in, const auto& out, const auto& here) {
    return std::any_of(in.begin(), in.end(), here) && std::any_of(out.begin(), out.end(), here);
  };
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const SourceNode& node = g.nodes[n];
    Seen& seen = table[node.domain + "::" + node.op];
    seen.example = true;
    bool passes = through(node.inputs, node.outputs, arrives_at);
    for (int32_t i = 0; i < nodes; ++i) {
      const Node& core = graph.node(NodeId{i});
      if (core.origin.source_node != static_cast<int>(n) || list_of(graph, core.out[0])) continue;
      seen.core.insert(core.op->name);
      passes = passes || through(core.in, core.out, arrives);
    }
    if (passes) seen.flow = Flow::yes;
    if (blocking.count(static_cast<int>(n))) seen.twice = false;
  }
}

void look_at_models(const fs::path& root, bool inside, Table& table) {
  for (const auto& file : fs::directory_iterator(root)) {
    if (file.path().extension() != ".onnx") continue;
    const Imported m = import_model(file.path().string());
    if (m.graph.nodes.size() != 1 && !inside) continue;
    std::vector<std::pair<std::string, Dims>> shapes;
    fs::path data = file.path();
    for (const NamedTensor& t : read_safetensors(data.replace_extension(".safetensors").string()).tensors)
      shapes.emplace_back(t.name, t.tensor.dims());
    if (inside)
      look_inside(m.graph, shapes, table);
    else
      examine(m.graph, shapes, table[m.graph.nodes[0].domain + "::" + m.graph.nodes[0].op]);
  }
}

std::string class_of(const OpList& list, const std::string& domain, const std::string& op) {
  const OpClassEntry* e = list.find(domain, op);
  return e ? std::string(name_of(e->cls)) : "infer (unlisted)";
}

// The differences were found by bench/engine_operators.py.
const char* const kDifferences = R"(
## Differences between engines and onnx.reference

Exported models are run by engines such as onnxruntime. Where onnxruntime differs from
`onnx.reference`, the reference implementation of the standard, this program computes what
onnxruntime does. `bench/engine_operators.py` compared both on every combination of the attributes
of Resize, GridSample, RoiAlign, Pad and the pools, with onnxruntime 1.31. This section lists what
onnxruntime and this program compute where the reference differs. PyTorch agrees with them or has no
such operator, unless noted.

### Resize

* The coordinate modes align_corners, half_pixel_symmetric and tf_crop_and_resize use the length of
  the output axis. The reference uses length times scale, which differs if it is rounded down.
* Length times scale, the nearest pixel and positions inside a crop are computed in fp32.
* Resize copies an axis whose scale is 1, an antialiased axis that keeps its length, and a tensor
  that keeps its size.
* With pytorch_half_pixel, an output axis of length 1 has its element at position 0 of the input.
  The standard agrees; the reference and PyTorch do not.
* In opset 10, mode nearest rounds positions up if Resize makes the tensor smaller.

### Other operators

* GridSample: with mode bicubic and padding_mode border, each pixel that the interpolation reads is
  clamped to the image. The reference clamps the position at which it interpolates.
* MaxPool, AveragePool, LpPool: auto_pad SAME_* pads as if dilations were 1; the standard takes
  dilations into account. With ceil_mode a window may be wider than the padded axis.

In two cases this program follows PyTorch instead:

* Pools: a window larger than the padded input is an error. onnxruntime returns an empty tensor.
* ScatterElements, ScatterND: gradients of max and min are divided evenly among ties, and those of
  mul are exact at zeros.
)";

// Returns the text before the rows. ort: operators with gradients in ONNX Runtime; missing: those without one here.
std::string opening(size_t operators, size_t with_gradient, size_t with_second, size_t ort,
                    const std::vector<std::string>& missing) {
  std::string out = "# Operators\n\n";
  out += wrapped(cat("The program lowers ", operators, " ONNX operators to ", all_core_ops().size(),
                     " core operators, which have the kernels. By name, so that an operator in two domains counts "
                     "once, gradients pass through ",
                     with_gradient, " ONNX operators, and second gradients through ", with_second,
                     ". Operators on integers, comparisons and steps such as Floor have no gradient. An operator that "
                     "is not in the table works if the ONNX standard defines a function body for it."));
  out += "\n";
  out += wrapped(cat("ONNX Runtime training 1.19.2, its last release, had gradients for ", ort, " operators. ",
                     ort - missing.size(),
                     " of these have gradients here. The others do not occur in exported files, because only ONNX "
                     "Runtime's graph builder creates them: ",
                     join(missing, ", "), "."));
  out += "\n";
  for (const char* line :
       {"versions: the opset from which on a lowering rule is valid, one for each rule.",
        "gradient: `yes` if a gradient passes through the operator, `zero` if it is 0 everywhere, `-` if none "
        "is defined. Found by differentiating test models; `no example` if none has the operator.",
        "second gradient: `yes` if the gradient can be differentiated again, as `grad --hvp` does.",
        "core operators: those to which the operator is lowered in the test models.",
        "CPU kernel, CUDA kernel: `yes` if these core operators have kernels, `folded` if no operator remains "
        "once shapes are known. CUDA kernels are tested in the emulator ([cuda.md](cuda.md)).",
        "class: the class in the op-list O1, which decides the precision. `allow` computes in 16 bits and `deny` in "
        "fp32; `infer` and `clear` follow the neighboring nodes. `infer (unlisted)` is not in the list."})
    out += wrapped(line, "* ");
  return out +
         "\n`UPDATE_DOCS=1 ./build/tests/test_node \"[docs]\"` generates this page from the operator tables,\n"
         "and the same test compares it with them.\n\n"
         "| operator | versions | gradient | second gradient | core operators | CPU kernel | CUDA kernel | class "
         "|\n|---|---|---|---|---|---|---|---|\n";
}

std::string document(const Table& seen) {
  std::map<std::pair<std::string, std::string>, std::set<int64_t>> versions;
  for (const OnnxOp* op : all_onnx_ops()) versions[{op->domain, op->name}].insert(op->since);
  const OpList o1 = load_op_list("O1");
  std::set<std::string> with_gradient, with_second;
  std::string rows;
  for (const auto& [key, since] : versions) {
    const auto& [domain, name] = key;
    const auto it = seen.find(domain + "::" + name);
    const bool example = it != seen.end() && it->second.example;
    std::string gradient = "no example", second = "no example", core, kernel = "-", cuda_kernel = "-";
    if (example) {
      gradient = it->second.flow == Flow::yes ? "yes" : it->second.flow == Flow::zero ? "zero" : "-";
      second = it->second.twice ? gradient : "no";
      if (it->second.flow == Flow::yes) with_gradient.insert(name);
      if (it->second.flow == Flow::yes && it->second.twice) with_second.insert(name);
      std::vector<std::string> names(it->second.core.begin(), it->second.core.end());
      const auto on = [&](DeviceKind device) {
        const auto runs = [&](const std::string& n) { return core_op(n).view || find_kernel(device, n) != nullptr; };
        return names.empty() ? "folded" : std::all_of(names.begin(), names.end(), runs) ? "yes" : "NO";
      };
      kernel = on(DeviceKind::cpu);
      cuda_kernel = on(DeviceKind::cuda);
      const size_t many = names.size();
      if (many > 5) names.resize(4);
      core = join(names, ", ") + (many > 5 ? cat(", and ", many - 4, " more") : "");
    }
    std::vector<std::string> from;
    for (const int64_t v : since) from.push_back(cat(v, "+"));
    rows += cat("| ", domain.empty() ? "" : domain + "::", name, " | ", join(from, ", "), " | ", gradient, " | ",
                second, " | ", core, " | ", kernel, " | ", cuda_kernel, " | ", class_of(o1, domain, name), " |\n");
  }
  const std::set<std::string> ort = ort_gradients();
  std::vector<std::string> missing;
  for (const std::string& name : ort) {
    const auto inside = kOrtInside.find(name);
    if (!with_gradient.count(inside == kOrtInside.end() ? name : inside->second)) missing.push_back(name);
  }
  return cat(opening(versions.size(), with_gradient.size(), with_second.size(), ort.size(), missing), rows,
             kDifferences);
}

}  // namespace

TEST_CASE("docs/operators.md equals the operator tables", "[docs]") {
  const fs::path root = fs::path(test::onnx_test_data()) / "node";
  if (!fs::exists(root)) SKIP("no ONNX test data at " << root);
  Table seen;
  look_at_node_tests(root, seen);
  look_at_models(test::test_data("importer/contrib"), false, seen);
  look_at_models(test::test_data("importer/contrib_more"), true, seen);
  look_at_others(seen);
  const std::string want = document(seen);
  const std::string path = test::source_root() + "/docs/operators.md";
  if (std::getenv("UPDATE_DOCS")) std::ofstream(path) << want;
  std::ifstream in(path);
  const std::string have{std::istreambuf_iterator<char>(in), {}};
  INFO("stale: UPDATE_DOCS=1 test_node \"[docs]\" writes it anew");
  CHECK(have == want);
  size_t differentiated = 0;
  for (const auto& [name, s] : seen) differentiated += s.flow == Flow::yes;
  CHECK(differentiated > ort_gradients().size());
}
