// Evaluates the expressions that exporters write as names of symbolic dimensions: mostly sums ("past + new"), seldom
// products. The size of any other expression is unknown; the caller then treats the dimension as an open one.
#include "graph/symbols.h"

#include <cctype>

namespace amp {

namespace {

std::string trimmed(const std::string& s) {
  const size_t first = s.find_first_not_of(' ');
  return first == std::string::npos ? std::string() : s.substr(first, s.find_last_not_of(' ') - first + 1);
}

bool is_atom(const std::string& s) { return !s.empty() && s.find_first_of("+-*/() ") == std::string::npos; }

constexpr int64_t kLargestSize = int64_t{1} << 40;  // larger sizes count as unknown, so that no product overflows

}  // namespace

void SymbolSizes::set(const std::string& symbol, int64_t size) {
  if (is_atom(symbol)) sizes_.emplace(symbol, size);
}

std::optional<int64_t> SymbolSizes::of(const std::string& expression) const {
  const std::string e = trimmed(expression);
  const size_t sum = e.find_last_of("+-"), at = sum != std::string::npos && sum > 0 ? sum : e.find_last_of('*');
  if (at == std::string::npos || at == 0) {
    if (const auto known = sizes_.find(e); known != sizes_.end()) return known->second;
    const bool number = !e.empty() && e.size() < 12 && e.find_first_not_of("0123456789") == std::string::npos;
    return number ? std::optional<int64_t>(std::stoll(e)) : std::nullopt;
  }
  const std::optional<int64_t> a = of(e.substr(0, at)), b = of(e.substr(at + 1));
  if (!a || !b) return std::nullopt;
  const bool product = e[at] == '*';
  if (product && *b != 0 && *a > kLargestSize / *b) return std::nullopt;
  const int64_t value = product ? *a * *b : e[at] == '+' ? *a + *b : *a - *b;
  return value < 0 || value > kLargestSize ? std::nullopt : std::optional<int64_t>(value);
}

SymbolSizes probed_symbols(const SourceGraph& g, int64_t rows, int64_t length) {
  SymbolSizes out;
  for (const SourceValue& v : g.values) {
    if (v.kind != SourceKind::constant || !v.data || v.data.numel() > 0) continue;
    for (size_t i = 0; i < v.dims.size() && i < v.data.dims().size(); ++i) {
      if (v.data.dims()[i] == 0) out.set(v.dims[i].symbol, 0);
    }
  }
  for (const int i : g.inputs) {
    const std::vector<Dim>& d = g.value(i).dims;
    if (d.size() == 2 && !is_float(g.value(i).dtype)) out.set(d[1].symbol, length);
    if (!d.empty()) out.set(d[0].symbol, rows);
  }
  return out;
}

int64_t fed_rows(const SourceGraph& g, const std::map<std::string, Dims>& input_dims, const Dim& rows) {
  std::optional<int64_t> first;
  for (const int i : g.inputs) {
    const SourceValue& x = g.value(i);
    const auto fed = input_dims.find(x.name);
    if (fed == input_dims.end() || fed->second.empty()) continue;
    if (!rows.symbol.empty() && !x.dims.empty() && x.dims[0].symbol == rows.symbol) return fed->second[0];
    if (!first) first = fed->second[0];
  }
  return first.value_or(1);
}

}  // namespace amp
