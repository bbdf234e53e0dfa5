// Parser and tables of input signatures. ONNX operators are checked before lowering, core operators by Builder before
// inference. Static registration fills the tables before main().
#include "graph/signature.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"

namespace amp {
namespace {

struct Word {
  char type = 'a';
  int64_t least = 0, most = INT64_MAX;
  bool optional = false, repeats = false;
};
using Signature = std::vector<Word>;

Word parse_word(std::string_view text) {
  Word w;
  w.type = text.at(0);
  check(std::string_view("finbas").find(w.type) != std::string_view::npos, cat("signature word '", text, "'"));
  for (size_t i = 1; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '?')
      w.optional = true;
    else if (c == '*')
      w.repeats = true;
    else if (c == '+')
      w.most = INT64_MAX;
    else if (c == '-')
      w.most = text.at(++i) - '0';
    else
      w.least = w.most = c - '0';
  }
  return w;
}

Signature parse(std::string_view text) {
  Signature out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    out.push_back(parse_word(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::map<std::string, Signature, std::less<>>& table_of(RegisterSignatures::Table t) {
  static std::map<std::string, Signature, std::less<>> tables[2];
  return tables[t];
}

const Signature* find(RegisterSignatures::Table t, std::string_view domain, std::string_view op) {
  const auto& table = table_of(t);
  const auto it = domain.empty() ? table.find(op) : table.find(cat(domain, "::", op));
  return it == table.end() ? nullptr : &it->second;
}

bool fits(char type, DType t, DType first) {
  switch (type) {
    case 'f':
      return is_float(t);
    case 'i':
      return !is_float(t) && t != DType::boolean;
    case 'n':
      return t != DType::boolean;
    case 'b':
      return t == DType::boolean;
    case 's':
      return t == first || (is_float(t) && is_float(first));
    default:
      return true;
  }
}

std::string in_words(const Word& w, DType first) {
  std::string type;
  switch (w.type) {
    case 'f':
      type = "floats";
      break;
    case 'i':
      type = "integers";
      break;
    case 'n':
      type = "numbers";
      break;
    case 'b':
      type = "booleans";
      break;
    case 's':
      type = std::string(name_of(first));
      break;
    default:
      type = "a tensor";
  }
  if (w.least == w.most) return cat(type, " of rank ", w.least);
  if (w.most < INT64_MAX) return cat(type, " of rank ", w.least, " to ", w.most);
  return w.least > 0 ? cat(type, " of rank ", w.least, " or more") : type;
}

}  // namespace

RegisterSignatures::RegisterSignatures(Table table, std::initializer_list<SignatureRow> rows) {
  for (const SignatureRow& row : rows) {
    const Signature s = parse(row.takes);
    for (const std::string_view op : row.operators)
      check(table_of(table).emplace(std::string(op), s).second, cat("two signatures of ", op));
  }
}

static std::map<std::string, InputCheck, std::less<>>& node_checks() {
  static std::map<std::string, InputCheck, std::less<>> table;
  return table;
}

RegisterChecks::RegisterChecks(std::initializer_list<std::pair<std::string_view, InputCheck>> rows) {
  for (const auto& [op, rule] : rows) node_checks().emplace(op, rule);
}

void check_node(std::string_view op, const InferCtx& node) {
  check_inputs(RegisterSignatures::core, "", op, node.graph, node.inputs);
  if (const auto it = node_checks().find(op); it != node_checks().end()) it->second(node);
}

bool has_signature(RegisterSignatures::Table table, std::string_view domain, std::string_view op) {
  return find(table, domain, op) != nullptr;
}

void check_inputs(RegisterSignatures::Table table, std::string_view domain, std::string_view op, const Graph& g,
                  const std::vector<ValueId>& in) {
  const Signature* s = find(table, domain, op);
  if (!s) return;
  const auto leads = [](const Word& w) { return w.type == 'f' || w.type == 'n' || w.type == 'a'; };
  const auto lead = static_cast<size_t>(std::find_if(s->begin(), s->end(), leads) - s->begin());
  const DType first = lead < in.size() && in[lead] ? g.value(in[lead]).dtype : DType::f32;
  for (size_t i = 0; i < in.size() || i < s->size(); ++i) {
    if (i >= s->size() && !(!s->empty() && s->back().repeats)) {
      fail(Exit::model, "E_ATTR", cat(op, " has ", in.size(), " inputs, it takes ", s->size()));
    }
    const Word& w = i < s->size() ? (*s)[i] : s->back();
    if (i >= in.size() || !in[i]) {
      if (w.optional || (w.repeats && i >= in.size())) continue;
      fail(Exit::model, "E_ATTR", cat(op, " lacks input ", i, ": ", in_words(w, first)));
    }
    const Value& v = g.value(in[i]);
    const auto rank = static_cast<int64_t>(v.dims.size());
    if (fits(w.type, v.dtype, first) && rank >= w.least && rank <= w.most) continue;
    fail(Exit::model, fits(w.type, v.dtype, first) ? "E_RANK" : "E_NODE_TYPE",
         cat(op, ": input ", i, " is ", name_of(v.dtype), to_string(v.dims), ", it takes ", in_words(w, first)));
  }
}

}  // namespace amp
