// Parses core graphs from text, for tests. One statement per line:
//   input x f32 2 3        param W f32 3 4        const c = 0.5        const t i64 2 = 0 1
//   y = MatMul(x, W) {transB=1; alpha=0.5}        a, b = Split(y) {axis=1; sizes=[1 3]}        o = LayerNorm(x, W, )
//   output y
// `@3` at the end of a node sets its source node to 3 (for precision plans). Types have the names of base/dtype.h.
// Numbers with '.' or 'e' are floats; lists are in brackets. Nodes are created by a Builder, so its rules apply. Params
// get slots in order.
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "backend/interpreter.h"
#include "base/error.h"
#include "graph/builder.h"

namespace amp::test {

struct CoreText {
  explicit CoreText(const std::string& text, Evaluator evaluator = cpu_evaluator())
      : builder(graph, std::move(evaluator)) {
    add(text);
  }

  void add(const std::string& text);
  ValueId operator[](const std::string& name) const {
    if (!names.count(name)) bug("text graph: no value " + name);
    return names.at(name);
  }
  const Node& producer(const std::string& name) const { return graph.node(graph.value((*this)[name]).producer); }

  Graph graph;
  Builder builder;
  std::map<std::string, ValueId> names;
  int params = 0;

 private:
  void leaf(const std::string& kind, std::istringstream& in);
  void node(const std::string& line);
};

namespace text_detail {
inline std::string trim(const std::string& s) {
  const size_t b = s.find_first_not_of(" \t"), e = s.find_last_not_of(" \t");
  return b == std::string::npos ? "" : s.substr(b, e - b + 1);
}
inline std::vector<std::string> split(const std::string& s, char by) {
  std::vector<std::string> out;
  std::istringstream in(s);
  for (std::string part; std::getline(in, part, by);) out.push_back(trim(part));
  if (!s.empty() && s.back() == by) out.emplace_back();
  return out;
}
inline bool floating(const std::string& s) { return s.find_first_of(".en") != std::string::npos; }
inline Attrs::Value value(const std::string& s) {
  if (s[0] != '[') return floating(s) ? Attrs::Value(std::stod(s)) : Attrs::Value(static_cast<int64_t>(std::stoll(s)));
  std::istringstream in(s.substr(1, s.size() - 2));
  std::vector<int64_t> ints;
  std::vector<double> floats;
  for (std::string t; in >> t;) {
    floats.push_back(std::stod(t));
    if (!floating(t)) ints.push_back(std::stoll(t));
  }
  return ints.size() == floats.size() ? Attrs::Value(ints) : Attrs::Value(floats);
}
}  // namespace text_detail

inline void CoreText::leaf(const std::string& kind, std::istringstream& in) {
  std::string name, word;
  in >> name;
  DType type = DType::f32;
  Dims dims;
  while (in >> word && word != "=") {
    if (std::isdigit(static_cast<unsigned char>(word[0])))
      dims.push_back(std::stoll(word));
    else
      type = dtype_from_name(word);
  }
  if (kind == "input")
    names[name] = graph.add_input(name, type, dims);
  else if (kind == "param")
    names[name] = graph.add_param(params++, name, type, dims);
  else {
    std::vector<double> v;
    while (in >> word) v.push_back(std::stod(word));
    v.resize(static_cast<size_t>(numel(dims)), v.empty() ? 0 : v.back());
    names[name] = builder.constant(HostTensor::of<double>(dims, v).cast(type));
  }
}

inline void CoreText::node(const std::string& line) {
  using text_detail::split;
  using text_detail::trim;
  const size_t equals = line.find('='), open = line.find('('), close = line.find(')'), brace = line.find('{');
  std::vector<ValueId> in;
  const std::string arguments = line.substr(open + 1, close - open - 1);
  for (const std::string& a : split(arguments, ',')) in.push_back(a.empty() ? ValueId{} : (*this)[a]);
  Attrs attrs;
  if (brace != std::string::npos) {
    for (const std::string& a : split(line.substr(brace + 1, line.find('}') - brace - 1), ';')) {
      const size_t eq = a.find('=');
      attrs.set(trim(a.substr(0, eq)), text_detail::value(trim(a.substr(eq + 1))));
    }
  }
  const size_t at = line.find('@');
  builder.origin = Origin{at == std::string::npos ? -1 : std::stoi(line.substr(at + 1))};
  const std::vector<ValueId> out = builder.ops(trim(line.substr(equals + 1, open - equals - 1)), in, attrs);
  const std::vector<std::string> outs = split(line.substr(0, equals), ',');
  for (size_t i = 0; i < outs.size(); ++i) names[outs[i]] = out.at(i);
}

inline void CoreText::add(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = text_detail::trim(line);
    if (line.empty() || line[0] == '#') continue;
    std::istringstream in(line);
    std::string word;
    in >> word;
    if (word == "input" || word == "param" || word == "const") {
      leaf(word, in);
    } else if (word == "output") {
      in >> word;
      graph.outputs.push_back({word, (*this)[word]});
    } else {
      node(line);
    }
  }
}

// Prints the nodes, one per line: "t0 float16[2,3] = Cast(W)". Inputs and params are printed by name, scalar constants
// by value, and results are numbered in order.
inline std::string text_of(const Graph& g) {
  std::ostringstream s;
  std::map<int32_t, std::string> names;
  const auto name = [&](ValueId v) -> std::string {
    if (!v) return "";
    const Value& x = g.value(v);
    if (x.kind == ValueKind::constant)
      return x.constant.numel() == 1 ? cat(x.constant.to_doubles()[0]) : cat("const", to_string(x.dims));
    if (x.kind == ValueKind::temp) {
      const std::string fresh = cat('t', names.size());
      return names.emplace(v.index, fresh).first->second;
    }
    return x.name;
  };
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    const Node& node = g.node(NodeId{n});
    std::string in;
    for (size_t i = 0; i < node.in.size(); ++i) in += (i ? ", " : "") + name(node.in[i]);
    for (size_t i = 0; i < node.out.size(); ++i) {
      const Value& y = g.value(node.out[i]);
      s << (i ? ", " : "") << name(node.out[i]) << ' ' << name_of(y.dtype) << to_string(y.dims);
    }
    s << " = " << node.op->name << '(' << in << ")\n";
  }
  for (const auto& o : g.outputs) s << "output " << o.name << " = " << name(o.value) << '\n';
  for (const auto& p : g.param_grads) s << "grad " << p.slot << " = " << name(p.value) << '\n';
  return s.str();
}

// Returns the operators in order: "MatMul Add Relu".
inline std::string ops_of(const Graph& g) {
  std::string s;
  for (int32_t n = 0; n < g.n_nodes(); ++n) s += (n ? " " : "") + g.node(NodeId{n}).op->name;
  return s;
}

}  // namespace amp::test
