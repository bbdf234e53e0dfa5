// Implements aliases from module paths, ties of equal tensors, and the globs of --trainable and --freeze. Tied tensors
// share a master, which is the first of them in file order. Freezing is decided per master. tie_parameters() compares
// bytes, so it first groups the candidates by type, size and sorted dims.
#include "importer/discover/select.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "importer/discover/positions.h"

namespace amp {
namespace {

// True for names that exporters generate: "461", "onnx::Gemm_12", "val_72", "/layer/Constant_output_0".
bool made_up(const std::string& name) {
  if (name.rfind("onnx::", 0) == 0 || name.find("Constant") != std::string::npos || all_digits(name)) return true;
  if (name.find('.') != std::string::npos || name.find('/') != std::string::npos) return false;
  const size_t bar = name.rfind('_');
  return bar != std::string::npos && all_digits(std::string_view(name).substr(bar + 1));
}

std::string suffix(const SourceNode& n, const char* role) {
  const std::string r = role;
  if (r == "table" || r == "factor" || r == "slope") return "weight";
  return r == "bias" && n.op == "Mul" ? "weight" : r;
}

template <class T>
bool more_than_two_values(const T* p, int64_t n) {
  int64_t i = 1;
  while (i < n && std::memcmp(p, p + i, sizeof(T)) == 0) ++i;
  const int64_t second = i;
  for (; i < n; ++i) {
    if (std::memcmp(p, p + i, sizeof(T)) != 0 && std::memcmp(p + second, p + i, sizeof(T)) != 0) return true;
  }
  return false;
}

template <class T>
// True if b is the transpose of a, where a has the dims rows x columns and b has columns x rows.
bool transposed_equal(const T* a, const T* b, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      if (std::memcmp(a + i * columns + j, b + j * rows + i, sizeof(T)) != 0) return false;
    }
  }
  return true;
}

bool varied(const HostTensor& t) {
  return with_type(t.dtype(), [&](auto tag) {
    return more_than_two_values(static_cast<const decltype(tag)*>(t.data()), t.numel());
  });
}

// True if b is the transpose of matrix a. All dims before the last two must be 1.
bool is_transpose(const HostTensor& a, const HostTensor& b) {
  const size_t rank = a.dims().size();
  if (rank < 2 || b.dims().size() != rank) return false;
  if (std::any_of(a.dims().begin(), a.dims().end() - 2, [](int64_t d) { return d != 1; })) return false;
  const int64_t rows = a.dims()[rank - 2], columns = a.dims()[rank - 1];
  if (b.dims()[rank - 1] != rows || b.dims()[rank - 2] != columns || a.numel() != b.numel()) return false;
  return with_type(a.dtype(), [&](auto tag) {
    using T = decltype(tag);
    return transposed_equal(static_cast<const T*>(a.data()), static_cast<const T*>(b.data()), rows, columns);
  });
}

bool floating_constant(const SourceValue& v) {
  const bool kept = v.kind == SourceKind::constant || v.kind == SourceKind::parameter;
  return kept && v.data && is_float(v.data.dtype()) && v.reason.rfind("constant: part of the definition", 0) != 0;
}

// Returns at most three names that share the longest prefix with the glob. The prefix has at least three characters.
std::vector<std::string> beginning_alike(const std::string& glob, std::vector<std::string> names) {
  for (size_t n = std::min(glob.size(), glob.find_first_of("*?[")); n >= 3; --n) {
    std::vector<std::string> alike;
    std::copy_if(names.begin(), names.end(), std::back_inserter(alike),
                 [&](const std::string& name) { return name.compare(0, n, glob, 0, n) == 0; });
    if (alike.empty()) continue;
    if (alike.size() > 3) alike.resize(3);
    return alike;
  }
  return {};
}

// Returns the module's path in the form of weight names. The scopes of nodes may start with a wrapper that weight names
// lack ("model.bert" and "bert"). So up to two leading components are dropped until a parameter belongs to the module.
// Returns the path unchanged if this does not succeed.
std::string as_weights_are_named(const SourceGraph& g, const std::string& module) {
  std::string path = module;
  for (int dropped = 0; dropped <= 2; ++dropped) {
    const bool known = std::any_of(g.values.begin(), g.values.end(), [&](const SourceValue& v) {
      return v.kind == SourceKind::parameter && v.name.size() > path.size() && v.name[path.size()] == '.' &&
             v.name.compare(0, path.size(), path) == 0;
    });
    if (known) return path;
    const size_t dot = path.find('.');
    if (dot == std::string::npos) break;
    path.erase(0, dot + 1);
  }
  return module;
}

}  // namespace

bool names_value(const std::string& glob, const SourceValue& v) {
  return glob == v.name || glob_match(glob, v.name) || (!v.alias.empty() && glob_match(glob, v.alias));
}

void fail_unmatched(const SourceGraph& g, const std::string& flag, const std::string& glob) {
  std::vector<std::string> names;
  for (const SourceValue& v : g.values) {
    if (v.kind != SourceKind::parameter) continue;
    names.push_back(v.name);
    if (!v.alias.empty()) names.push_back(v.alias);
  }
  const std::string near = nearest(glob, names);
  const std::vector<std::string> alike = beginning_alike(glob, std::move(names));
  fail(Exit::usage, "E_GLOB", cat(flag, " '", printable(glob), "' matches no tensor of the model"),
       !near.empty() ? cat("did you mean '", printable(near), "'?")
                     : cat("`check MODEL` lists the names; patterns match whole names",
                           alike.empty() ? "" : cat("; nearest: ", printable(join(alike, ", ")))));
}

void name_parameters(SourceGraph& g, const std::vector<std::string>& scopes) {
  const auto consumers = g.consumers();
  const std::vector<char> live = live_nodes(g);
  std::set<std::string> taken;
  for (size_t i = 0; i < g.values.size(); ++i) {
    SourceValue& v = g.values[i];
    if (v.kind != SourceKind::parameter || !made_up(v.name)) continue;
    for (const Use& u : uses_through_views(g, consumers, live, static_cast<int>(i))) {
      const SourceNode& n = u.at();
      const char* role = weight_role(n, u.site_input);
      const std::string& module = scopes[static_cast<size_t>(u.node)];
      if (!role || module.empty()) continue;
      const std::string stem = cat(as_weights_are_named(g, module), ".", suffix(n, role));
      std::string name = stem;
      for (int k = 2; g.find(name) >= 0 || taken.count(name); ++k) name = cat(stem, "_", k);
      taken.insert(name);
      v.alias = name;
      break;
    }
  }
}

void tie_parameters(SourceGraph& g) {
  // tensors with the same type, size and sorted dims
  std::map<std::tuple<DType, int64_t, Dims>, std::vector<int>> groups;
  for (size_t i = 0; i < g.values.size(); ++i) {
    SourceValue& v = g.values[i];
    if (v.kind != SourceKind::parameter || v.data.rank() < 2) continue;
    Dims sorted = v.data.dims();
    std::sort(sorted.begin(), sorted.end());
    groups[{v.data.dtype(), v.data.numel(), sorted}].push_back(static_cast<int>(i));
  }
  for (const auto& [key, members] : groups) {
    std::vector<int> masters;
    for (const int m : members) {
      SourceValue& v = g.values[static_cast<size_t>(m)];
      const auto master =
          members.size() < 2 ? masters.end() : std::find_if(masters.begin(), masters.end(), [&](int other) {
            const HostTensor& a = g.values[static_cast<size_t>(other)].data;
            const bool same =
                a.dims() == v.data.dims() && std::memcmp(a.data(), v.data.data(), static_cast<size_t>(a.bytes())) == 0;
            return (same || is_transpose(a, v.data)) && varied(v.data);
          });
      if (master == masters.end()) {
        masters.push_back(m);
        continue;
      }
      const SourceValue& first = g.values[static_cast<size_t>(*master)];
      v.tied_to = *master;
      v.tied_transposed = first.data.dims() != v.data.dims() ||
                          std::memcmp(first.data.data(), v.data.data(), static_cast<size_t>(v.data.bytes())) != 0;
      v.reason +=
          cat("; tied to '", printable(first.name), "' (", v.tied_transposed ? "its transpose" : "equal values", ")");
    }
  }
}

void tie_views(SourceGraph& g, const ExporterRecord& record, std::vector<std::string>& notes) {
  std::map<std::string, std::vector<int>> holders;  // name of a parameter -> tensors with all of its elements
  const auto try_tie = [&](int v, std::vector<int>& masters) {
    SourceValue& view = g.values[static_cast<size_t>(v)];
    for (const int m : masters) {
      const SourceValue& first = g.values[static_cast<size_t>(m)];
      if (first.data.dtype() != view.data.dtype() || first.data.numel() != view.data.numel()) continue;
      if (std::memcmp(first.data.data(), view.data.data(), static_cast<size_t>(view.data.bytes())) != 0) continue;
      view.tied_to = m;
      view.reason += cat("; tied to '", printable(first.name), "' (a view of one parameter)");
      return true;
    }
    return false;
  };
  const size_t known = std::min(g.values.size(), record.of.size());
  for (size_t i = 0; i < known; ++i) {
    const SourceValue& v = g.values[i];
    if (v.kind == SourceKind::parameter && v.tied_to < 0 && record.of[i].kind == Recorded::parameter)
      holders[v.name].push_back(static_cast<int>(i));
  }
  for (size_t i = 0; i < known; ++i) {
    const SourceValue& v = g.values[i];
    const TensorRecord& r = record.of[i];
    if (v.kind != SourceKind::parameter || v.tied_to >= 0 || r.kind != Recorded::folded) continue;
    std::vector<int>& masters = holders[r.from];
    if (try_tie(static_cast<int>(i), masters)) continue;
    const int whole = g.find(r.from);
    if (whole >= 0 && v.data.numel() < g.value(whole).data.numel())
      notes.push_back(cat("'", printable(v.name), "' was computed from parameter '", printable(r.from),
                          "', which the file holds too: the two train apart"));
    masters.push_back(static_cast<int>(i));
  }
}

void apply_trainable(SourceGraph& g, const std::vector<std::string>& globs, const std::vector<Verdict>& verdicts) {
  for (const std::string& glob : globs) {
    bool any = false;
    for (size_t i = 0; i < g.values.size(); ++i) {
      SourceValue& v = g.values[i];
      if (v.kind == SourceKind::temp || !names_value(glob, v)) continue;
      const bool exact = glob == v.name || glob == v.alias;
      if (!floating_constant(v)) {
        if (exact) {
          fail(Exit::usage, "E_TRAINABLE",
               cat("`trainable` '", printable(glob),
                   "': ", v.kind == SourceKind::input ? "a graph input" : cat("a tensor of ", name_of(v.dtype)),
                   " cannot be trained"));
        }
        continue;
      }
      any = true;
      if (v.kind == SourceKind::parameter) continue;
      if (!exact && (v.data.numel() <= 1 || (i < verdicts.size() && verdicts[i].excluded()))) continue;
      v.kind = SourceKind::parameter;
      v.trainable = true;
      v.reason = cat("made trainable by '", glob, "' (", v.reason, ")");
    }
    if (!any) fail_unmatched(g, "`trainable`", glob);
  }
}

void apply_freeze(SourceGraph& g, const ImportOptions& options) {
  const auto master = [&](size_t i) { return g.values[i].tied_to < 0 ? i : static_cast<size_t>(g.values[i].tied_to); };
  std::map<size_t, std::string> frozen;  // index of the value (of tied values: of the master) -> matching --freeze glob
  for (const std::string& glob : options.freeze) {
    bool any = false;
    for (size_t i = 0; i < g.values.size(); ++i) {
      if (!floating_constant(g.values[i]) || !names_value(glob, g.values[i])) continue;
      any = true;
      frozen.emplace(master(i), glob);
    }
    if (!any) fail_unmatched(g, "`freeze`", glob);
  }
  for (size_t i = 0; i < g.values.size(); ++i) {
    for (const std::string& glob : options.trainable) {
      if (names_value(glob, g.values[i])) frozen.erase(master(i));
    }
  }
  for (size_t i = 0; i < g.values.size(); ++i) {
    SourceValue& v = g.values[i];
    const auto it = frozen.find(master(i));
    if (v.kind != SourceKind::parameter || it == frozen.end()) continue;
    v.trainable = false;
    v.reason = cat("frozen by '", it->second, "' (", v.reason, ")");
  }
}

}  // namespace amp
