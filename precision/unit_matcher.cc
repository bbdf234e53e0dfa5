// Implements the queries of unit_matcher.h. All functions accept -1 as a missing node or value and then return -1 or
// false, so that patterns can chain calls without checks.
#include "precision/unit_matcher.h"

#include <algorithm>
#include <cmath>

namespace amp {

UnitMatcher::UnitMatcher(const SourceGraph& g) : g_(g), users_(g.consumers()), is_output_(g.values.size(), 0) {
  for (std::vector<int>& u : users_) u.erase(std::unique(u.begin(), u.end()), u.end());
  for (const int v : g.outputs) {
    if (v >= 0) is_output_[static_cast<size_t>(v)] = 1;
  }
}

int UnitMatcher::made_by(int v, std::string_view op) const {
  if (v < 0) return -1;
  const int n = g_.values[static_cast<size_t>(v)].producer;
  return n >= 0 && node(n).op == op && node(n).domain.empty() ? n : -1;
}

int UnitMatcher::in(int n, size_t i) const { return in_range(n) && i < node(n).inputs.size() ? node(n).inputs[i] : -1; }

const std::vector<int>& UnitMatcher::users(int v) const { return users_[static_cast<size_t>(v)]; }

int UnitMatcher::only_user(int v, std::string_view op) const {
  if (v < 0 || is_output_[static_cast<size_t>(v)] || users(v).size() != 1) return -1;
  const int n = users(v)[0];
  return node(n).op == op && node(n).domain.empty() ? n : -1;
}

std::optional<double> UnitMatcher::scalar(int v) const {
  for (int n; (n = made_by(v, "Identity")) >= 0;) v = in(n, 0);
  if (v < 0) return std::nullopt;
  const SourceValue& value = g_.values[static_cast<size_t>(v)];
  if (value.data && value.data.numel() == 1) return value.data.to_doubles()[0];
  return std::nullopt;
}

bool UnitMatcher::is_scalar(int v, double want) const {
  const std::optional<double> s = scalar(v);
  return s && std::abs(*s - want) <= 1e-3 * std::abs(want);
}

static bool is_view(const std::string& op) {
  return op == "Identity" || op == "Reshape" || op == "Cast" || op == "Unsqueeze" || op == "Squeeze" ||
         op == "Transpose";
}

bool UnitMatcher::is_weight(int v) const {
  while (v >= 0) {
    const SourceValue& value = g_.values[static_cast<size_t>(v)];
    if (value.kind == SourceKind::parameter || value.kind == SourceKind::constant) return true;
    if (value.producer < 0 || !is_view(node(value.producer).op)) return false;
    v = in(value.producer, 0);
  }
  return false;
}

int64_t UnitMatcher::rank(int v) const {
  if (v < 0) return -1;
  const SourceValue& value = g_.values[static_cast<size_t>(v)];
  if (value.data) return value.data.rank();
  return value.rank_known ? static_cast<int64_t>(value.dims.size()) : -1;
}

int64_t UnitMatcher::weight_rank(int v) const {
  for (int n; (n = made_by(v, "Identity")) >= 0;) v = in(n, 0);
  return rank(v);
}

int UnitMatcher::other(int n, int v) const {
  if (!in_range(n) || node(n).inputs.size() != 2) return -1;
  if (in(n, 0) == v) return in(n, 1);
  return in(n, 1) == v ? in(n, 0) : -1;
}

int UnitMatcher::beside_scalar(int n, double want) const {
  if (!in_range(n) || node(n).inputs.size() != 2) return -1;
  if (is_scalar(in(n, 1), want)) return in(n, 0);
  return is_scalar(in(n, 0), want) ? in(n, 1) : -1;
}

bool UnitMatcher::closed(const std::vector<int>& nodes, int result) const {
  for (const int n : nodes) {
    for (const int v : node(n).outputs) {
      if (v < 0 || v == result) continue;
      if (is_output_[static_cast<size_t>(v)]) return false;
      for (const int u : users(v)) {
        if (std::find(nodes.begin(), nodes.end(), u) == nodes.end()) return false;
      }
    }
  }
  return true;
}

std::vector<int64_t> UnitMatcher::axes(int n) const {
  if (node(n).attrs.has("axes")) return node(n).attrs.ints("axes");
  int v = in(n, 1);
  for (int i; (i = made_by(v, "Identity")) >= 0;) v = in(i, 0);
  if (v < 0 || !g_.values[static_cast<size_t>(v)].data) return {};
  return g_.values[static_cast<size_t>(v)].data.to_ints();
}

}  // namespace amp
