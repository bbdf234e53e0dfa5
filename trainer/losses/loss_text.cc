// The short form KIND,key=value is first converted to JSON objects; from_json() then checks and reads both forms.
// Permitted keys and ranges come from the kind's LossRule.

#include "trainer/losses/loss_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json_nesting.h"
#include "base/text.h"
#include "trainer/losses/loss.h"

namespace amp {

namespace {
using OrderedJson = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& fact, const std::string& hint = {}) {
  fail(Exit::usage, "E_LOSS", fact, hint);
}

double number_in(const OrderedJson& v, const std::string& key, double low, bool low_open, double high = INFINITY) {
  if (v.is_number()) {
    const double x = v.get<double>();
    if (std::isfinite(x) && (low_open ? x > low : x >= low) && x < high) return x;
  }
  std::string range;
  if (std::isfinite(low)) range = cat(low_open ? " above " : " of at least ", low);
  if (std::isfinite(high)) range += cat(" and below ", high);
  refuse(cat("\"", key, "\": ", printable(v.dump()), " is not a number", range));
}

// Reads and checks a parameter's value according to its LossParameter.
std::vector<double> parameter(const OrderedJson& v, const LossParameter& p) {
  if (p.form == ParameterForm::whole && !v.is_number_integer())
    refuse(cat("\"", p.name, "\": ", printable(v.dump()), " is not a whole number"));
  if (p.form != ParameterForm::list) return {number_in(v, p.name, p.low, p.above_low, p.high)};
  std::vector<double> out;
  for (const OrderedJson& x : v.is_array() ? v : OrderedJson::array({v}))
    out.push_back(number_in(x, p.name, p.low, p.above_low, p.high));
  if (out.empty() || std::all_of(out.begin(), out.end(), [](double x) { return x == 0; }))
    refuse(cat("\"", p.name, "\": at least one number above 0 is needed"));
  return out;
}

std::string name(const OrderedJson& v, const std::string& key) {
  if (!v.is_string() || v.get_ref<const std::string&>().empty())
    refuse(cat("\"", key, "\": ", printable(v.dump()), " is not a name"));
  return v.get<std::string>();
}

void set(LossSpec& s, const std::string& key, const OrderedJson& v) {
  if (key == "output") s.outputs = {name(v, key)};
  if (key == "outputs") {
    s.outputs.clear();
    for (const OrderedJson& x : v.is_array() ? v : OrderedJson::array({v})) s.outputs.push_back(name(x, key));
  }
  if (key == "label") s.label = name(v, key);
  if (key == "input") s.input = name(v, key);
  if (key == "weight") s.weight = number_in(v, key, 0, false);
  if (key == "bypass") {
    if (!v.is_boolean()) refuse("\"bypass\" is true or false");
    s.bypass = v.get<bool>();
  }
  const LossParameter* const p = loss_rule(s.kind).parameter(key);
  if (p && p->form == ParameterForm::list && v.is_object()) {
    for (const auto& [label, x] : v.items()) s.by_class[key][label] = number_in(x, key, p->low, p->above_low, p->high);
  } else if (key == "class_weights" && v == "balanced") {
    s.balanced = true;
  } else if (p) {
    s.set(key, parameter(v, *p));
  }
}

LossSpec from_json(const OrderedJson& j) {
  if (!j.is_object())
    refuse(cat("a loss is an object such as {\"kind\": \"mse\", \"output\": \"y\"}, not ", printable(j.dump())));
  LossSpec s;
  if (!j.contains("kind"))
    refuse(cat("a loss without \"kind\": ", printable(j.dump())), "known kinds: " + join(loss_kinds(), ", "));
  s.kind = kind_called(name(j["kind"], "kind"));
  const LossRule& rule = loss_rule(s.kind);
  std::vector<std::string> allowed = {"kind", "output", "outputs", "label", "weight", "bypass"};
  if (rule.of_gradient) allowed.emplace_back("input");
  for (const LossParameter& p : rule.parameters) allowed.push_back(p.name);
  for (const auto& [key, value] : j.items()) {
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end()) {
      const std::string near = nearest(key, allowed);
      refuse(cat("the loss ", s.kind, " has no parameter '", printable(key), "'"),
             near.empty() ? cat("it has: ", join(std::vector<std::string>(allowed.begin() + 1, allowed.end()), ", "))
                          : cat("did you mean '", near, "'?"));
    }
    if (!value.is_null()) set(s, key, value);
  }
  return s;
}

OrderedJson parse_json(const std::string& text, const std::string& where) {
  if (const std::string excess = json_excess(text, true); !excess.empty()) refuse(cat(where, ": it ", excess));
  try {
    return OrderedJson::parse(text, nullptr, true, true);
  } catch (const OrderedJson::exception& e) {
    refuse(cat(where, ": not valid JSON: ", printable(e.what())));
  }
}

void from_json_text(const std::string& text, const std::string& where, std::vector<LossSpec>& out) {
  const OrderedJson j = parse_json(text, where);
  if (j.is_array() && j.empty()) refuse(cat(where, ": no loss in it"));
  for (const OrderedJson& one : j.is_array() ? j : OrderedJson::array({j}))
    out.push_back(from_json(one.is_string() ? OrderedJson{{"kind", one}} : one));
}

// Converts the value of key=value to JSON: a number, true or false, else text. value_of() also handles a:b:c (a list of
// numbers) and NAME=a:NAME=b (an object).
OrderedJson scalar(const std::string& text) {
  double x = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (code == std::errc() && end == text.data() + text.size()) {
    if (x == std::floor(x) && std::abs(x) < 1e15) return static_cast<int64_t>(x);
    return x;
  }
  if (text == "true" || text == "false") return text == "true";
  return text;
}
OrderedJson value_of(const std::string& key, const std::string& text) {
  if (key == "output" || key == "label" || key == "input") return text;
  if (text.find('=') != std::string::npos) {
    OrderedJson by_name = OrderedJson::object();
    for (const std::string& part : split(text, ':')) {
      const size_t equals = std::min(part.rfind('='), part.size());
      by_name[part.substr(0, equals)] = scalar(part.substr(std::min(equals + 1, part.size())));
    }
    return by_name;
  }
  if (key != "outputs" && text.find(':') == std::string::npos) return scalar(text);
  OrderedJson out = OrderedJson::array();
  for (const std::string& part : split(text, ':')) out.push_back(key == "outputs" ? OrderedJson(part) : scalar(part));
  return out;
}

}  // namespace

std::vector<LossSpec> parse_losses(const std::vector<std::string>& texts) {
  std::vector<LossSpec> out;
  for (const std::string& text : texts) {
    const size_t start = text.find_first_not_of(" \t\r\n");
    if (start != std::string::npos && (text[start] == '[' || text[start] == '{')) {
      from_json_text(text, "`loss`", out);
      continue;
    }
    if (text.size() > 5 && text.ends_with(".json")) {
      from_json_text(std::string(read_file(text, Exit::usage).text()), text, out);
      continue;
    }
    std::vector<OrderedJson> losses;
    for (const std::string& part : split(text, ',')) {
      const size_t equals = part.find('=');
      if (equals == std::string::npos) {
        losses.push_back({{"kind", part}});
        continue;
      }
      const std::string key = part.substr(0, equals);
      if (const size_t open = key.find('('); open != std::string::npos && key.ends_with(')')) {
        losses.push_back({{"kind", key.substr(0, open)},
                          {"input", key.substr(open + 1, key.size() - open - 2)},
                          {"weight", scalar(part.substr(equals + 1))}});
        continue;
      }
      if (losses.empty())
        refuse(cat("`loss` ", printable(text), ": the parameter '", printable(key), "' precedes the first loss"),
               "write KIND,key=value");
      if (losses.back().contains(key))
        refuse(cat("`loss` ", printable(text), ": '", printable(key), "' is given twice"));
      losses.back()[key] = value_of(key, part.substr(equals + 1));
    }
    for (const OrderedJson& one : losses) out.push_back(from_json(one));
  }
  return out;
}

std::string loss_json(const LossSpec& s) {
  const LossSpec d;
  OrderedJson j = {{"kind", s.kind}};
  if (!s.outputs.empty()) j["outputs"] = s.outputs;
  if (!s.label.empty()) j["label"] = s.label;
  if (!s.input.empty()) j["input"] = s.input;
  if (s.weight != d.weight) j["weight"] = s.weight;
  if (!s.bypass) j["bypass"] = false;
  for (const auto& [parameter, weights] : s.by_class) j[parameter] = weights;
  if (s.balanced) j["class_weights"] = "balanced";
  const LossRule& rule = loss_rule(s.kind);
  for (const LossParameter& p : rule.parameters) {
    const auto it = s.given.find(p.name);
    if (it == s.given.end()) continue;
    switch (p.form) {
      case ParameterForm::number:
        j[p.name] = it->second.at(0);
        break;
      case ParameterForm::whole:
        j[p.name] = static_cast<int64_t>(it->second.at(0));
        break;
      case ParameterForm::list:
        j[p.name] = it->second;
        break;
    }
  }
  return j.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string describe(const LossSpec& s) {
  OrderedJson parameters = OrderedJson::parse(loss_json(s));
  for (const char* key : {"kind", "outputs", "label", "input", "weight"}) parameters.erase(key);
  std::string text = s.weight == 1 ? s.kind : cat(s.weight, " x ", s.kind);
  for (const auto& [key, value] : parameters.items()) text += cat(" ", key, "=", value.dump());
  std::vector<std::string> outputs;
  for (const std::string& o : s.outputs) outputs.push_back(cat("'", printable(o), "'"));
  text += " of " + join(outputs, ", ");
  if (!s.input.empty()) text += cat(" with respect to '", printable(s.input), "'");
  const std::string label = s.label_name();
  const bool teacher = loss_rule(s.kind).teacher;
  if (teacher) text += loss_rule(s.kind).own_reference ? " against the reference's" : " against the teacher's";
  if (!label.empty()) text += cat(teacher ? ", where '" : " against '", printable(label), teacher ? "' counts" : "'");
  return text;
}

}  // namespace amp
