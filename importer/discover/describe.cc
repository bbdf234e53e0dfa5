// Renders verdicts: the table and the JSON lines of `check`, and suggestions of flags. Tensors whose verdict a flag
// (--freeze, --trainable) decided are not reported as doubtful. The output goes to shells and logs, so names from the
// file are passed through printable() or shell_quoted().
#include "importer/discover/describe.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace amp {
namespace {

constexpr size_t kConstants = 20;  // largest number of constants in the table

bool floating(const SourceValue& v) {
  const bool kept = v.kind == SourceKind::parameter || v.kind == SourceKind::constant;
  return kept && v.data && is_float(v.data.dtype());
}

// Returns the verdict of value i; an empty verdict for values that surgery added.
const Verdict& verdict_of(const std::vector<Verdict>& verdicts, size_t i) {
  static const Verdict none;
  return i < verdicts.size() ? verdicts[i] : none;
}

bool by_flag(const SourceValue& v) {
  return v.reason.rfind("frozen by", 0) == 0 || v.reason.rfind("made trainable by", 0) == 0;
}

bool in_doubt(const SourceGraph& g, const std::vector<Verdict>& verdicts, size_t i) {
  return floating(g.values[i]) && !by_flag(g.values[i]) && verdict_of(verdicts, i).unsure();
}

// Returns the indices of floating-point tensors in order of output: doubtful tensors first, the least certain at the
// top; then parameters; then constants. Parameters and constants are in file order.
std::vector<size_t> in_order(const SourceGraph& g, const std::vector<Verdict>& verdicts) {
  std::vector<size_t> order;
  for (size_t i = 0; i < g.values.size(); ++i) {
    if (floating(g.values[i])) order.push_back(i);
  }
  const auto rank = [&](size_t i) {
    if (in_doubt(g, verdicts, i)) return verdict_of(verdicts, i).confidence();
    return g.values[i].kind == SourceKind::parameter ? 2.0 : 3.0;
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
  return order;
}

nlohmann::ordered_json json_row(const SourceGraph& g, const std::vector<Verdict>& verdicts, size_t i) {
  const SourceValue& v = g.values[i];
  const Verdict& verdict = verdict_of(verdicts, i);
  nlohmann::ordered_json row;
  row["name"] = v.name;
  row["alias"] = v.alias.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(v.alias);
  row["dtype"] = name_of(v.data.dtype());
  row["dims"] = v.data.dims();
  row["count"] = v.data.numel();
  row["parameter"] = v.kind == SourceKind::parameter;
  row["trainable"] = v.trainable;
  row["tied_to"] =
      v.tied_to < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(g.values[static_cast<size_t>(v.tied_to)].name);
  row["tied_transposed"] = v.tied_transposed;
  row["reason"] = v.reason;
  row["confidence"] =
      verdict.evidence.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(verdict.confidence());
  row["unsure"] = in_doubt(g, verdicts, i);
  row["evidence"] = nlohmann::ordered_json::array();
  for (const Evidence& e : verdict.evidence) row["evidence"].push_back({{"text", e.text}, {"weight", e.weight}});
  return row;
}

std::string percent(const Verdict& v) {
  if (v.evidence.empty()) return "-";
  return cat(std::min(99, static_cast<int>(std::lround(100 * v.confidence()))), " %");
}

// Quotes a name for a shell: in single quotes, unless all characters are harmless.
std::string shell_quoted(const std::string& name) {
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '/' || c == ':' || c == '-';
  });
  if (plain && name[0] != '-') return name;
  std::string out = "'";
  for (const char c : name) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string describe_tensors(const SourceGraph& g, const std::vector<Verdict>& verdicts) {
  using Row = std::array<std::string, 6>;
  std::vector<Row> rows = {{"tensor", "dims", "elements", "trained", "sure", "why"}};
  size_t constants = 0, left = 0;
  for (const size_t i : in_order(g, verdicts)) {
    const SourceValue& v = g.values[i];
    const Verdict& verdict = verdict_of(verdicts, i);
    if (v.kind == SourceKind::constant && !in_doubt(g, verdicts, i) &&
        (v.data.numel() < 2 || ++constants > kConstants)) {
      ++left;
      continue;
    }
    std::string name = printable(v.name);
    if (!v.alias.empty()) name = cat(printable(v.alias), " = ", name);
    std::string why = printable(v.reason);
    if (!verdict.evidence.empty()) why += "; evidence: " + verdict.text();
    rows.push_back({name, to_string(v.data.dims()), with_thousands(v.data.numel()), v.trainable ? "yes" : "no",
                    percent(verdict), why});
  }
  std::array<size_t, 5> width = {};
  for (const Row& r : rows) {
    for (size_t i = 0; i < width.size(); ++i) width[i] = std::max(width[i], r[i].size());
  }
  std::string text;
  for (const Row& r : rows) {
    for (size_t i = 0; i < width.size(); ++i) {
      const std::string pad(width[i] - r[i].size(), ' ');
      text += (i == 2 || i == 4 ? pad + r[i] : r[i] + pad) + "  ";
    }
    text += r[5] + "\n";
  }
  if (left) text += cat("and ", left, " more floating constants (`check --json` lists all, under \"tensors\")\n");
  const ParameterCount c = count_parameters(g);
  text += cat(c.tensors, " trained tensors with ", with_thousands(c.elements), " elements, ", c.frozen_tensors,
              " frozen with ", with_thousands(c.frozen_elements), "\n");
  return text;
}

std::string describe_parameters_json(const SourceGraph& g, const std::vector<Verdict>& verdicts) {
  std::string text;
  for (size_t i = 0; i < g.values.size(); ++i) {
    if (g.values[i].kind == SourceKind::parameter) text += json_row(g, verdicts, i).dump() + "\n";
  }
  return text;
}

std::string describe_tensors_json(const SourceGraph& g, const std::vector<Verdict>& verdicts) {
  std::string text;
  for (const size_t i : in_order(g, verdicts)) text += json_row(g, verdicts, i).dump() + "\n";
  return text;
}

std::string flags_for_unsure(const SourceGraph& g, const std::vector<Verdict>& verdicts, size_t most, size_t& left) {
  std::string flags;
  size_t named = 0;
  left = 0;
  for (const size_t i : in_order(g, verdicts)) {
    if (!in_doubt(g, verdicts, i)) break;
    const SourceValue& v = g.values[i];
    if (v.tied_to >= 0) continue;
    if (++named > most) {
      ++left;
      continue;
    }
    flags += cat(flags.empty() ? "" : " ", v.trainable ? "`freeze` " : "`trainable` ", shell_quoted(v.name));
  }
  return flags;
}

std::string warn_if_mostly_frozen(const SourceGraph& g, const std::vector<Verdict>& verdicts) {
  constexpr int64_t kLarge = 64;
  constexpr size_t kNamed = 6;
  int64_t all = 0, trained = 0;
  std::vector<size_t> constants;
  for (size_t i = 0; i < g.values.size(); ++i) {
    const SourceValue& v = g.values[i];
    // Statistics, quantizers and tensors that no output needs are not candidates. Tensors frozen by a flag are
    // intended.
    if (!floating(v) || by_flag(v) || v.data.numel() < kLarge || verdict_of(verdicts, i).excluded()) continue;
    if (v.kind == SourceKind::constant && verdict_of(verdicts, i).evidence.empty()) continue;
    all += v.data.numel();
    if (v.kind == SourceKind::parameter) {
      trained += v.data.numel();
    } else {
      constants.push_back(i);
    }
  }
  if (trained * 2 >= all) return "";
  std::stable_sort(constants.begin(), constants.end(),
                   [&](size_t a, size_t b) { return g.values[a].data.numel() > g.values[b].data.numel(); });
  std::string flags;
  for (size_t k = 0; k < constants.size() && k < kNamed; ++k)
    flags += " `trainable` " + shell_quoted(g.values[constants[k]].name);
  return cat("only ", with_thousands(trained), " of ", with_thousands(all),
             " elements of the large floating tensors train: the others look like constants (`check` shows why); to "
             "train them:",
             flags, constants.size() > kNamed ? cat(" (and ", constants.size() - kNamed, " more)") : std::string());
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
