// Parses the text form of SourceGraphs line by line (text_graph.h), and prints the decisions of plans for comparison.
#include "tests/precision/text_graph.h"

#include <catch2/catch_all.hpp>
#include <regex>
#include <sstream>

#include "precision/op_list.h"

namespace amp::test {

static std::string trim(const std::string& s) {
  const size_t a = s.find_first_not_of(" \t"), b = s.find_last_not_of(" \t");
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

static std::vector<std::string> list(const std::string& s) {
  std::vector<std::string> out;
  std::istringstream in(s);
  for (std::string part; std::getline(in, part, ',');) out.push_back(trim(part));
  return out;
}

static int leaf(SourceGraph& g, const std::string& line) {
  std::istringstream in(line.substr(0, line.find('=')));
  std::string kind, name, word;
  in >> kind >> name;
  SourceValue v;
  v.name = name;
  v.kind = kind == "input" ? SourceKind::input : kind == "param" ? SourceKind::parameter : SourceKind::constant;
  v.dtype_known = true;
  Dims dims;
  while (in >> word) {
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      dims.push_back(std::stoll(word));
    } else {
      v.dtype = dtype_from_name(word);
    }
  }
  if (v.kind != SourceKind::input) {
    std::vector<float> data;
    std::istringstream values(line.find('=') == std::string::npos ? "0.5" : line.substr(line.find('=') + 1));
    while (values >> word) data.push_back(std::stof(word));
    while (static_cast<int64_t>(data.size()) < numel(dims)) data.push_back(data.back());
    v.data = HostTensor::of<float>(dims, data).cast(v.dtype);
    v.rank_known = true;
    for (const int64_t d : dims) v.dims.push_back({d, ""});
  }
  return g.add_value(v);
}

static Attrs attributes(const std::string& text) {
  Attrs out;
  for (const std::string& item : list(text)) {
    const size_t eq = item.find('=');
    const std::string key = item.substr(0, eq), value = item.substr(eq + 1);
    if (value[0] == '[') {
      std::istringstream numbers(value.substr(1, value.size() - 2));
      std::vector<int64_t> all;
      for (int64_t n; numbers >> n;) all.push_back(n);
      out.set(key, all);
    } else if (value.find('.') != std::string::npos) {
      out.set(key, std::stod(value));
    } else if (value.find_first_not_of("-0123456789") == std::string::npos) {
      out.set(key, static_cast<int64_t>(std::stoll(value)));
    } else {
      out.set(key, value);
    }
  }
  return out;
}

SourceGraph text_graph(const std::string& text) {
  static const std::regex statement(R"(^(?:(\S+):\s+)?([^=]+?)\s*=\s*([\w.]+::)?(\w+)(?:\{(.*)\})?\((.*)\)$)");
  SourceGraph g;
  std::istringstream in(text);
  for (std::string raw; std::getline(in, raw);) {
    const std::string line = trim(raw);
    if (line.empty() || line[0] == '#') continue;
    std::smatch m;
    if (line.starts_with("input ")) {
      g.inputs.push_back(leaf(g, line));
    } else if (line.starts_with("param ") || line.starts_with("const ")) {
      leaf(g, line);
    } else if (line.starts_with("output ")) {
      g.outputs.push_back(g.find(trim(line.substr(7))));
      REQUIRE(g.outputs.back() >= 0);
    } else {
      INFO(line);
      REQUIRE(std::regex_match(line, m, statement));
      SourceNode n;
      n.op = m[4];
      n.domain = m[3].matched ? m[3].str().substr(0, m[3].length() - 2) : "";
      n.version = 17;
      n.attrs = attributes(m[5]);
      for (const std::string& name : list(m[6])) {
        n.inputs.push_back(name.empty() ? -1 : g.find(name));
        REQUIRE((name.empty() || n.inputs.back() >= 0));
      }
      const std::vector<std::string> outputs = list(m[2]);
      for (const std::string& name : outputs) {
        SourceValue v;
        v.name = name;
        n.outputs.push_back(g.add_value(v));
      }
      n.name = m[1].matched ? m[1].str() : outputs[0];
      g.add_node(n);
    }
  }
  return g;
}

int node_index(const SourceGraph& g, const std::string& name) {
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (g.nodes[i].name == name) return static_cast<int>(i);
  }
  FAIL("no node " << name);
  return -1;
}

const Decision& decision(const SourceGraph& g, const PrecisionPlan& plan, const std::string& node) {
  return plan.nodes[static_cast<size_t>(node_index(g, node))];
}

static std::string joined(const SourceGraph& g, const PrecisionPlan& plan, bool names) {
  std::string out;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (plan.nodes[i].cls == "not-float") continue;
    out += (out.empty() ? "" : " ") + (names ? g.nodes[i].name : g.nodes[i].op) + ":" +
           std::string(name_of(plan.nodes[i].compute));
  }
  return out;
}

std::string types_of(const SourceGraph& g, const PrecisionPlan& plan) { return joined(g, plan, false); }
std::string named_types(const SourceGraph& g, const PrecisionPlan& plan) { return joined(g, plan, true); }

PrecisionPlan plan_of(const SourceGraph& g, const std::string& list, DType low) {
  return decide(g, parse_op_list(list, "my.json"), low);
}

bool warned(const PrecisionPlan& plan, const std::string& text) {
  for (const std::string& w : plan.warnings) {
    if (w.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace amp::test
