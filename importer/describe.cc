#include "importer/describe.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace amp {
namespace {

bool listed(const SourceValue& v, const DescribeOptions& options) {
  if (v.kind == SourceKind::parameter) return true;
  return options.constants && v.kind == SourceKind::constant && v.data && is_float(v.data.dtype());
}

}  // namespace

std::string describe_parameters(const SourceGraph& g, const DescribeOptions& options) {
  using Row = std::array<std::string, 5>;
  std::vector<Row> rows = {{"tensor", "dims", "elements", "trained", "why"}};
  for (const SourceValue& v : g.values) {
    if (!listed(v, options)) continue;
    std::string name = printable(v.name);
    if (!v.alias.empty()) name = cat(printable(v.alias), " = ", name);
    rows.push_back({name, to_string(v.data.dims()), with_thousands(v.data.numel()), v.trainable ? "yes" : "no",
                    printable(v.reason)});
  }
  std::array<size_t, 4> width = {};
  for (const Row& r : rows) {
    for (size_t i = 0; i < width.size(); ++i) width[i] = std::max(width[i], r[i].size());
  }
  std::string text;
  for (const Row& r : rows) {
    for (size_t i = 0; i < width.size(); ++i) {
      const std::string pad(width[i] - r[i].size(), ' ');
      text += (i == 2 ? pad + r[i] : r[i] + pad) + "  ";
    }
    text += r[4] + "\n";
  }
  const ParameterCount c = count_parameters(g);
  text += cat(c.tensors, " trained tensors with ", with_thousands(c.elements), " elements, ", c.frozen_tensors,
              " frozen with ", with_thousands(c.frozen_elements), "\n");
  return text;
}

std::string describe_parameters_json(const SourceGraph& g, const DescribeOptions& options) {
  std::string text;
  for (const SourceValue& v : g.values) {
    if (!listed(v, options)) continue;
    nlohmann::ordered_json row;
    row["name"] = v.name;
    row["alias"] = v.alias.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(v.alias);
    row["dtype"] = name_of(v.data.dtype());
    row["dims"] = v.data.dims();
    row["count"] = v.data.numel();
    row["parameter"] = v.kind == SourceKind::parameter;
    row["trainable"] = v.trainable;
    row["tied_to"] = v.tied_to < 0 ? nlohmann::ordered_json()
                                   : nlohmann::ordered_json(g.values[static_cast<size_t>(v.tied_to)].name);
    row["tied_transposed"] = v.tied_transposed;
    row["reason"] = v.reason;
    text += row.dump() + "\n";
  }
  return text;
}

ParameterCount count_parameters(const SourceGraph& g) {
  ParameterCount c;
  for (const SourceValue& v : g.values) {
    if (v.kind != SourceKind::parameter || v.tied_to >= 0) continue;
    (v.trainable ? c.tensors : c.frozen_tensors) += 1;
    (v.trainable ? c.elements : c.frozen_elements) += v.data.numel();
  }
  return c;
}

}  // namespace amp
