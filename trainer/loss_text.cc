#include "trainer/loss_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "trainer/losses_parts.h"

namespace amp {

namespace {
using Json = nlohmann::ordered_json;

const std::map<std::string, std::string>& synonyms() {
  static const std::map<std::string, std::string> names = {{"ce", "cross_entropy"},
                                                           {"bce", "bce_logits"},
                                                           {"bce_with_logits", "bce_logits"},
                                                           {"l2", "mse"},
                                                           {"mae", "l1"},
                                                           {"nll", "nll_probs"},
                                                           {"dice+ce", "dice_ce"},
                                                           {"kd", "distill"},
                                                           {"distillation", "distill"},
                                                           {"kl_div", "kl"},
                                                           {"span", "qa_span"},
                                                           {"mlm", "masked_lm"},
                                                           {"clm", "causal_lm"},
                                                           {"mnr", "multiple_negatives"},
                                                           {"mnrl", "multiple_negatives"},
                                                           {"multiple_negatives_ranking", "multiple_negatives"},
                                                           {"output", "model"}};
  return names;
}

[[noreturn]] void refuse(const std::string& fact, const std::string& hint = {}) {
  fail(Exit::usage, "E_LOSS", fact, hint);
}

double number(const Json& v, const std::string& key, double low, bool low_open, double high = INFINITY) {
  if (v.is_number()) {
    const double x = v.get<double>();
    if (std::isfinite(x) && (low_open ? x > low : x >= low) && x < high) return x;
  }
  std::string range;
  if (std::isfinite(low)) range = cat(low_open ? " above " : " of at least ", low);
  if (std::isfinite(high)) range += cat(" and below ", high);
  refuse(cat("\"", key, "\": ", printable(v.dump()), " is not a number", range));
}

std::vector<double> numbers(const Json& v, const std::string& key, bool positive) {
  std::vector<double> out;
  for (const Json& x : v.is_array() ? v : Json::array({v})) out.push_back(number(x, key, 0, positive));
  if (out.empty() || std::all_of(out.begin(), out.end(), [](double x) { return x == 0; }))
    refuse(cat("\"", key, "\": at least one number above 0 is needed"));
  return out;
}

std::string name(const Json& v, const std::string& key) {
  if (!v.is_string() || v.get_ref<const std::string&>().empty())
    refuse(cat("\"", key, "\": ", printable(v.dump()), " is not a name"));
  return v.get<std::string>();
}

void set(LossSpec& s, const std::string& key, const Json& v) {
  if (key == "output") s.outputs = {name(v, key)};
  if (key == "outputs") {
    s.outputs.clear();
    for (const Json& x : v.is_array() ? v : Json::array({v})) s.outputs.push_back(name(x, key));
  }
  if (key == "label") s.label = name(v, key);
  if (key == "weight") s.weight = number(v, key, 0, false);
  if (key == "bypass") {
    if (!v.is_boolean()) refuse("\"bypass\" is true or false");
    s.bypass = v.get<bool>();
  }
  if (key == "ignore_index") {
    if (!v.is_number_integer()) refuse(cat("\"ignore_index\": ", printable(v.dump()), " is not a whole number"));
    s.ignore_index = v.get<int64_t>();
  }
  if (key == "class_weights") s.class_weights = numbers(v, key, false);
  if (key == "pos_weight") s.pos_weight = numbers(v, key, true);
  if (key == "label_smoothing") s.label_smoothing = number(v, key, 0, false, 1);
  if (key == "delta") s.delta = number(v, key, 0, true);
  if (key == "gamma") s.gamma = number(v, key, 0, false);
  if (key == "alpha") s.alpha = number(v, key, -INFINITY, false, 1);
  if (key == "smooth") s.smooth = number(v, key, 0, false);
  if (key == "margin") s.margin = number(v, key, -INFINITY, false);
  if (key == "scale") s.scale = number(v, key, 0, true);
  if (key == "temperature") s.temperature = number(v, key, 0, true);
}

LossSpec from_json(const Json& j) {
  if (!j.is_object())
    refuse(cat("a loss is an object such as {\"kind\": \"mse\", \"output\": \"y\"}, not ", printable(j.dump())));
  LossSpec s;
  if (!j.contains("kind"))
    refuse(cat("a loss without \"kind\": ", printable(j.dump())), "known kinds: " + join(loss_kinds(), ", "));
  s.kind = name(j["kind"], "kind");
  if (const auto it = synonyms().find(s.kind); it != synonyms().end()) s.kind = it->second;
  const LossRule& rule = loss_rule(s.kind);
  std::vector<std::string> allowed = {"kind", "output", "outputs", "label", "weight", "bypass"};
  allowed.insert(allowed.end(), rule.parameters.begin(), rule.parameters.end());
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

Json parse_json(const std::string& text, const std::string& where) {
  try {
    return Json::parse(text, nullptr, true, true);
  } catch (const Json::exception& e) {
    refuse(cat(where, ": not valid JSON: ", printable(e.what())));
  }
}

void from_json_text(const std::string& text, const std::string& where, std::vector<LossSpec>& out) {
  const Json j = parse_json(text, where);
  if (j.is_array() && j.empty()) refuse(cat(where, ": no loss in it"));
  for (const Json& one : j.is_array() ? j : Json::array({j}))
    out.push_back(from_json(one.is_string() ? Json{{"kind", one}} : one));
}

// The value of a parameter written as key=value: a number, true or false, else text; a:b:c is a list of numbers.
Json scalar(const std::string& text) {
  double x = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (code == std::errc() && end == text.data() + text.size()) {
    if (x == std::floor(x) && std::abs(x) < 1e15) return static_cast<int64_t>(x);
    return x;
  }
  if (text == "true" || text == "false") return text == "true";
  return text;
}
Json value_of(const std::string& key, const std::string& text) {
  if (key == "output" || key == "label") return text;
  const bool list = key == "class_weights" || key == "pos_weight" || key == "outputs";
  if (!list) return scalar(text);
  Json out = Json::array();
  for (const std::string& part : split(text, ':')) out.push_back(key == "outputs" ? Json(part) : scalar(part));
  return out;
}

}  // namespace

std::vector<LossSpec> parse_losses(const std::vector<std::string>& texts) {
  std::vector<LossSpec> out;
  for (const std::string& text : texts) {
    const size_t start = text.find_first_not_of(" \t\r\n");
    if (start != std::string::npos && (text[start] == '[' || text[start] == '{')) {
      from_json_text(text, "--loss", out);
      continue;
    }
    if (text.size() > 5 && text.ends_with(".json")) {
      from_json_text(std::string(read_file(text, Exit::usage).text()), text, out);
      continue;
    }
    std::vector<Json> losses;
    for (const std::string& part : split(text, ',')) {
      const size_t equals = part.find('=');
      if (equals == std::string::npos) {
        losses.push_back({{"kind", part}});
        continue;
      }
      const std::string key = part.substr(0, equals);
      if (losses.empty())
        refuse(cat("--loss ", printable(text), ": the parameter '", printable(key), "' stands before any loss"),
               "write KIND,key=value");
      if (losses.back().contains(key))
        refuse(cat("--loss ", printable(text), ": '", printable(key), "' is given twice"));
      losses.back()[key] = value_of(key, part.substr(equals + 1));
    }
    for (const Json& one : losses) out.push_back(from_json(one));
  }
  return out;
}

std::string loss_json(const LossSpec& s) {
  const LossSpec d;
  Json j = {{"kind", s.kind}};
  if (!s.outputs.empty()) j["outputs"] = s.outputs;
  if (!s.label.empty()) j["label"] = s.label;
  if (s.weight != d.weight) j["weight"] = s.weight;
  if (!s.bypass) j["bypass"] = false;
  const LossRule& rule = loss_rule(s.kind);
  const auto has = [&](const char* key) {
    return std::find(rule.parameters.begin(), rule.parameters.end(), key) != rule.parameters.end();
  };
  if (has("ignore_index") && s.ignore_index != d.ignore_index) j["ignore_index"] = s.ignore_index;
  if (has("class_weights") && !s.class_weights.empty()) j["class_weights"] = s.class_weights;
  if (has("pos_weight") && !s.pos_weight.empty()) j["pos_weight"] = s.pos_weight;
  if (has("label_smoothing") && s.label_smoothing != 0) j["label_smoothing"] = s.label_smoothing;
  if (has("delta") && s.delta != d.delta) j["delta"] = s.delta;
  if (has("gamma") && s.gamma != d.gamma) j["gamma"] = s.gamma;
  if (has("alpha") && s.alpha != d.alpha) j["alpha"] = s.alpha;
  if (has("smooth") && s.smooth != d.smooth) j["smooth"] = s.smooth;
  if (has("margin") && s.margin) j["margin"] = *s.margin;
  if (has("scale") && s.scale != d.scale) j["scale"] = s.scale;
  if (has("temperature") && s.temperature != d.temperature) j["temperature"] = s.temperature;
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string describe(const LossSpec& s) {
  Json parameters = Json::parse(loss_json(s));
  for (const char* key : {"kind", "outputs", "label", "weight"}) parameters.erase(key);
  std::string text = s.weight == 1 ? s.kind : cat(s.weight, " x ", s.kind);
  for (const auto& [key, value] : parameters.items()) text += cat(" ", key, "=", value.dump());
  std::vector<std::string> outputs;
  for (const std::string& o : s.outputs) outputs.push_back(cat("'", printable(o), "'"));
  text += " of " + join(outputs, ", ");
  const std::string label = s.label_name();
  if (s.kind == "distill") text += " against the teacher's";
  if (!label.empty())
    text +=
        cat(s.kind == "distill" ? ", where '" : " against '", printable(label), s.kind == "distill" ? "' counts" : "'");
  return text;
}

}  // namespace amp
