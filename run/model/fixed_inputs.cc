// Finds inputs that decide shapes or branches, and binds each of them that has a single value in the data. A tolerant
// bind collects the nodes that need values (E_DYNAMIC). Among the inputs that lead to these nodes, some decide shapes
// or branches, and others are ordinary data. So all of them that have one value are bound first. Then each is unbound
// if the same nodes can be bound without it (keep_deciding()).

#include "run/model/fixed_inputs.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "backend/interpreter.h"
#include "base/npz.h"
#include "base/text.h"
#include "graph/bind.h"
#include "graph/folded_rows.h"
#include "run/data/text_rows.h"
#include "run/model/probe.h"

namespace amp {

namespace {

// largest number of elements of an input that is bound, such as a shape or axes
constexpr int64_t kMostElements = 1024;

// Returns the nodes whose shapes or branches depend on the data.
std::set<int> dynamic_nodes(const SourceGraph& g) {
  std::map<int, Error> faults;
  Graph graph;
  Builder b(graph, cpu_evaluator());
  try {
    bind_tolerant(g, ParamTable(g), probe_options(g, g.outputs, 3), b, faults);
  } catch (const Error&) {
    return {};  // the error is not reported here, because binding to the data's shapes reports it with a better message
  }
  std::set<int> out;
  for (const auto& [node, error] : faults) {
    if (error.id() == "E_DYNAMIC") out.insert(node);
  }
  return out;
}

// Returns the inputs that lead to these nodes. Some decide shapes or branches, and others are ordinary data.
std::set<int> inputs_of(const SourceGraph& g, const std::set<int>& nodes) {
  std::set<int> out;
  for (const int node : nodes) {
    for (const int v : needed_inputs(g, g.nodes[static_cast<size_t>(node)].outputs)) out.insert(v);
  }
  return out;
}

int64_t rows_of(const HostTensor& t) { return t.rank() > 0 ? t.dims()[0] : -1; }

// Returns the number of rows that most tensors of the file have, which is the number of samples.
int64_t common_rows(const std::vector<NamedTensor>& tensors) {
  std::map<int64_t, int> counts;
  for (const NamedTensor& t : tensors) ++counts[rows_of(t.tensor)];
  const auto most = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second, a.first) < std::pair(b.second, b.first);
  });
  return most == counts.end() ? -1 : most->first;
}

// Returns the first row of a tensor whose rows are all equal, or an empty tensor if they differ.
HostTensor one_row(const HostTensor& t) {
  if (rows_of(t) > 1 && !holds_copies(t, 0, rows_of(t))) return {};
  return repeated(t, 0, 1, 1).reshaped(Dims(t.dims().begin() + 1, t.dims().end()));
}

bool same_content(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

std::string shown(const HostTensor& t) {
  std::vector<std::string> out;
  for (const double v : t.cast(DType::f64).to_doubles()) {
    if (out.size() == 8) {
      out.emplace_back("...");
      break;
    }
    out.push_back(cat(v));
  }
  return t.rank() == 0 && out.size() == 1 ? out[0] : cat("[", join(out, ", "), "]");
}

struct FixedValue {
  HostTensor value;
  bool of_rows = false;  // true: `value` is the value of each row; false: of the whole tensor
  bool seen = false;     // the file has a tensor with the input's name
};

// Returns the value that the input has in the whole file; empty if it has several values.
FixedValue value_in(const std::vector<NamedTensor>& tensors, const std::string& name, bool whole) {
  const HostTensor* const t = find_tensor(tensors, name);
  if (!t || t->numel() == 0) return {};
  const bool rows = !whole && rows_of(*t) == common_rows(tensors) && rows_of(*t) > 1;
  FixedValue out{rows ? one_row(*t) : *t, rows, true};
  if (out.value && out.value.numel() > kMostElements) out.value = {};
  return out;
}

// Returns the values of the inputs `wanted`, without those that differ within a file or between files.
std::map<int, FixedValue> fixed_values(const SourceGraph& g, const std::set<int>& wanted,
                                       const std::vector<std::string>& files, bool whole) {
  std::map<int, FixedValue> found;
  for (const std::string& file : files) {
    const std::vector<NamedTensor> tensors = read_tensor_file(file);
    for (const int v : wanted) {
      FixedValue value = value_in(tensors, g.value(v).name, whole);
      const auto [at, fresh] = found.emplace(v, value);
      if (fresh || !at->second.value) continue;
      if (!value.value || !same_content(at->second.value, value.value)) at->second.value = {};
    }
  }
  return found;
}

// Binds the input to the value. Returns false if the value does not fit the input, which is reported when the dataset
// is opened.
bool bind_value(SourceValue& input, const FixedValue& fixed) {
  // If the input has no dimension for rows, the value of one row is the value of the input.
  const size_t rank = fixed.value.dims().size();
  if (input.rank_known && input.dims.size() != rank && (!fixed.of_rows || input.dims.size() != rank + 1)) return false;
  const bool of_rows = fixed.of_rows && (!input.rank_known || input.dims.size() == rank + 1);
  if (!input.rank_known) {
    input.rank_known = true;
    if (of_rows) input.dims.push_back({});
    for (const int64_t d : fixed.value.dims()) input.dims.push_back({d, ""});
  }
  input.data = fixed.value.cast(input.dtype);
  return true;
}

// Unbinds each input without which the same nodes can be bound, because that input is ordinary data. Tries
// floating-point inputs first, which rarely decide shapes.
void keep_deciding(SourceGraph& g, std::map<int, SourceValue>& before) {
  const std::set<int> left = dynamic_nodes(g);
  for (const bool floating : {true, false}) {
    for (auto it = before.begin(); it != before.end();) {
      SourceValue& input = g.values[static_cast<size_t>(it->first)];
      if (is_float(input.dtype) != floating) {
        ++it;
        continue;
      }
      std::swap(input, it->second);
      if (dynamic_nodes(g) == left) {
        it = before.erase(it);
        continue;
      }
      std::swap(input, it->second);
      ++it;
    }
  }
}

}  // namespace

void bind_fixed_inputs(SourceGraph& g, const std::vector<std::string>& files, bool whole, const Log& log) {
  std::vector<std::string> tensor_files;
  for (const std::string& f : files) {
    const bool read = std::find(tensor_files.begin(), tensor_files.end(), f) != tensor_files.end();
    if (!f.empty() && !is_text_file(f) && !read) tensor_files.push_back(f);
  }
  if (tensor_files.empty()) return;
  const std::set<int> wanted = inputs_of(g, dynamic_nodes(g));
  if (wanted.empty()) return;
  const std::map<int, FixedValue> found = fixed_values(g, wanted, tensor_files, whole);
  std::map<int, SourceValue> before;
  for (const auto& [v, fixed] : found) {
    if (!fixed.value) continue;
    SourceValue& input = g.values[static_cast<size_t>(v)];
    const SourceValue unbound = input;
    if (bind_value(input, fixed)) before.emplace(v, unbound);
  }
  keep_deciding(g, before);
  for (const auto& [v, unbound] : before)
    log.note(cat("input '", printable(unbound.name), "' is ", shown(found.at(v).value), " in all of ",
                 join(tensor_files, ", "), " and decides shapes or branches: it is bound as a constant"));
  for (const int v : inputs_of(g, dynamic_nodes(g))) {
    if (is_float(g.value(v).dtype) || found.at(v).value || !found.at(v).seen) continue;
    log.note(cat("input '", printable(g.value(v).name), "' has several values in ", join(tensor_files, ", "),
                 "; one that decides shapes or branches is bound where all rows have the same value"));
  }
}

std::map<std::string, HostTensor> fixed_inputs(const SourceGraph& g) {
  std::map<std::string, HostTensor> out;
  for (const int v : g.inputs) {
    if (g.value(v).data) out[g.value(v).name] = g.value(v).data;
  }
  return out;
}

void set_fixed_inputs(SourceGraph& g, const std::map<std::string, HostTensor>& values) {
  for (const auto& [name, value] : values) {
    const int v = g.find(name);
    if (v >= 0 && g.value(v).kind == SourceKind::input) g.values[static_cast<size_t>(v)].data = value;
  }
}

}  // namespace amp
