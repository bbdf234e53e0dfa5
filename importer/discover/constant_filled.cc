// Replaces ConstantOfShape nodes in weight positions by constants. A node's output (a fill) is replaced only if its
// dims are constant and its name is that of a value in the file's main graph, because export must be able to write the
// trained value as an initializer.
#include "importer/discover/constant_filled.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "importer/discover/positions.h"
#include "importer/read/builder.h"

namespace amp {
namespace {

constexpr int64_t kLargest = int64_t{64} << 20, kTotal = int64_t{1} << 30;

bool weight_position(const SourceNode& n, int input) {
  const char* role = weight_role(n, input);
  // Operands of sums, products and lookups do not count, because ordinary shape arithmetic also uses fills there.
  const bool weak = n.op == "Add" || n.op == "Sub" || n.op == "Mul" || n.op == "Sum" || n.op.rfind("Gather", 0) == 0;
  return role && !weak;
}

// Returns the dims in the node's input; empty if they are not constant, not positive, or not a vector of int64 with at
// most 8 elements.
Dims fill_dims(const SourceGraph& g, const SourceNode& n) {
  const int shape = n.inputs.size() == 1 ? n.inputs[0] : -1;
  if (shape < 0 || g.values[static_cast<size_t>(shape)].kind != SourceKind::constant) return {};
  const HostTensor& data = g.values[static_cast<size_t>(shape)].data;
  if (!data || data.dtype() != DType::i64 || data.rank() != 1 || data.numel() > 8) return {};
  const Dims dims = data.to_ints();
  const bool positive = std::all_of(dims.begin(), dims.end(), [](int64_t d) { return d > 0; });
  return positive ? dims : Dims{};
}

HostTensor filled(const HostTensor& value, Dims dims) {
  HostTensor out = HostTensor::empty(value.dtype(), std::move(dims));
  const size_t size = static_cast<size_t>(size_of(value.dtype()));
  for (int64_t i = 0; i < out.numel(); ++i) {
    std::memcpy(static_cast<char*>(out.mutable_data()) + static_cast<size_t>(i) * size, value.data(), size);
  }
  return out;
}

}  // namespace

void materialize_constant_filled(Built& built) {
  SourceGraph& g = built.graph;
  const auto consumers = g.consumers();
  const std::vector<char> live = live_nodes(g);
  // Values that nested graphs capture keep their producer, because the nested graphs refer to them by name.
  std::set<int> captured;
  for (const SourceNode& n : g.nodes) {
    for (const std::string& name : captures(n)) captured.insert(g.find(name));
  }
  std::vector<char> gone(g.nodes.size());
  int64_t total = 0;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const SourceNode& n = g.nodes[i];
    if (n.op != "ConstantOfShape" || !n.domain.empty() || n.outputs.size() != 1 || n.outputs[0] < 0) continue;
    const int v = n.outputs[0];
    const HostTensor* given = n.attrs.tensor("value");
    const HostTensor value = given ? *given : HostTensor::zeros(DType::f32, {1});
    const Dims dims = fill_dims(g, n);
    if (dims.empty() || !is_float(value.dtype()) || value.numel() != 1) continue;
    if (!built.visible[static_cast<size_t>(v)] || captured.count(v)) continue;
    const auto uses = uses_through_views(g, consumers, live, v);
    const bool weight =
        std::any_of(uses.begin(), uses.end(), [&](const Use& u) { return weight_position(u.at(), u.site_input); });
    if (!weight) continue;
    // Compute the size in bytes. A size that overflows exceeds every limit.
    int64_t bytes = size_of(value.dtype());
    for (const int64_t d : dims) {
      if (__builtin_mul_overflow(bytes, d, &bytes)) bytes = INT64_MAX;
      if (bytes == INT64_MAX) break;
    }
    SourceValue& out = g.values[static_cast<size_t>(v)];
    if (bytes > kLargest || bytes > kTotal - total) {
      built.notes.push_back(
          cat("weight '", printable(out.name), "' is a fill of ", to_string(dims), ": too large, it stays fixed"));
      continue;
    }
    total += bytes;
    // The fill's output becomes the constant; drop_nodes() removes the node.
    out.kind = SourceKind::constant;
    out.producer = -1;
    out.data = filled(value, dims);
    out.dtype = value.dtype();
    out.dtype_known = out.rank_known = true;
    out.dims.clear();
    for (const int64_t d : dims) out.dims.push_back({d, ""});
    gone[i] = 1;
  }
  if (std::find(gone.begin(), gone.end(), 1) != gone.end()) drop_nodes(built, gone);
}

}  // namespace amp
