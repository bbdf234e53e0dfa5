// Strict parser of an op-list file. Unknown keys, unknown operators and duplicate keys are errors with their JSON path.
// The accepted keys must match those that plan_io.cc writes.
#include "precision/op_list_json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_nesting.h"
#include "base/text.h"
#include "precision/presets.h"

namespace amp {

using Json = nlohmann::json;

namespace {

[[noreturn]] void fail_at(const std::string& path, const char* id, std::string fact, std::string hint = {}) {
  Error e(Exit::usage, id, std::move(fact), std::move(hint));
  if (!path.empty()) e.at(path);
  throw e;
}

std::string did_you_mean(const std::string& name, std::span<const std::string> candidates) {
  const std::string near = nearest(name, candidates);
  if (!near.empty()) return cat("did you mean '", near, "'?");
  if (candidates.size() > 20) return {};
  return cat("one of ", join(candidates, ", "));
}

void check_keys(const Json& object, const std::string& path, const std::vector<std::string>& known) {
  if (!object.is_object()) fail_at(path, "E_OP_LIST_KEY", cat("expected an object, got ", object.type_name()));
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      fail_at(path, "E_OP_LIST_KEY", cat("unknown key '", printable(key), "'"), did_you_mean(key, known));
    }
  }
}

std::string text_of(const Json& value, const std::string& path) {
  if (!value.is_string()) fail_at(path, "E_OP_LIST_KEY", cat("expected a string, got ", value.type_name()));
  return value.get<std::string>();
}

// Returns the index in `names` of a JSON string. Throws E_OP_LIST_PRECISION if it is not in `names`.
size_t choice(const Json& value, const std::string& path, const std::vector<std::string>& names) {
  const std::string name = text_of(value, path);
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) {
    fail_at(path, "E_OP_LIST_PRECISION", cat("unknown value '", printable(name), "'"), did_you_mean(name, names));
  }
  return static_cast<size_t>(it - names.begin());
}

std::vector<std::string> operators(const Json& value, const std::string& path) {
  if (!value.is_array()) {
    fail_at(path, "E_OP_LIST_KEY", cat("expected an array of operators, got ", value.type_name()));
  }
  std::vector<std::string> out;
  const std::span<const std::string> known = known_operators();
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string at = cat(path, "[", i, "]");
    std::string op = text_of(value[i], at);
    const size_t colons = op.find("::");
    const std::string domain = colons == std::string::npos ? "ai.onnx" : op.substr(0, colons);
    const std::string name = colons == std::string::npos ? op : op.substr(colons + 2);
    // Other domains are defined by users, so any name is accepted in them.
    const bool ours = domain == "ai.onnx" || domain == "com.microsoft";
    if (name != "*" && ours && !std::binary_search(known.begin(), known.end(), name)) {
      fail_at(at, "E_OP_LIST_OPERATOR", cat("unknown operator '", printable(op), "'"), did_you_mean(name, known));
    }
    out.push_back(std::move(op));
  }
  return out;
}

ClassEdit class_edit(const Json& value, const std::string& path) {
  if (value.is_array()) return {true, operators(value, path), {}};
  if (!value.is_object()) {
    fail_at(path, "E_OP_LIST_KEY", cat("expected an array or {add, remove}, got ", value.type_name()));
  }
  check_keys(value, path, {"add", "remove"});
  ClassEdit out;
  if (value.contains("add")) out.add = operators(value["add"], path + ".add");
  if (value.contains("remove")) out.remove = operators(value["remove"], path + ".remove");
  return out;
}

PrecisionRule rule_of(const Json& value, const std::string& path) {
  check_keys(value, path, {"op", "node", "scope", "tensor", "param", "precision", "why", "source"});
  PrecisionRule rule;
  const std::pair<const char*, std::string*> fields[] = {
      {"op", &rule.op},       {"node", &rule.node}, {"scope", &rule.scope},  {"tensor", &rule.tensor},
      {"param", &rule.param}, {"why", &rule.why},   {"source", &rule.source}};
  for (const auto& [key, field] : fields) {
    if (value.contains(key)) *field = text_of(value[key], path + "." + key);
  }
  if (rule.op.empty() && rule.node.empty() && rule.scope.empty() && rule.tensor.empty() && rule.param.empty()) {
    fail_at(path, "E_OP_LIST_KEY", "a rule needs at least one of op, node, scope, tensor, param");
  }
  const std::span<const std::string> known = known_operators();
  if (!rule.op.empty() && rule.op.find_first_of("*?[:") == std::string::npos &&
      !std::binary_search(known.begin(), known.end(), rule.op)) {
    fail_at(path + ".op", "E_OP_LIST_OPERATOR", cat("unknown operator '", printable(rule.op), "'"),
            did_you_mean(rule.op, known));
  }
  if (!value.contains("precision")) fail_at(path, "E_OP_LIST_KEY", "a rule needs a precision");
  rule.precision = static_cast<Precision>(
      choice(value["precision"], path + ".precision", {"fp32", "fp16", "bf16", "low", "follow"}));
  return rule;
}

double number(const Json& value, const std::string& path) {
  if (value.is_string() && (value == "inf" || value == "infinity")) return std::numeric_limits<double>::infinity();
  if (!value.is_number()) fail_at(path, "E_OP_LIST_KEY", cat("expected a number, got ", value.type_name()));
  return value.get<double>();
}

int32_t count(const Json& value, const std::string& path) {
  const double v = number(value, path);
  if (!(v >= 0 && v <= 2147483647.0 && v == static_cast<int32_t>(v))) {
    fail_at(path, "E_OP_LIST_KEY", cat("expected a whole number below 2^31, got ", value.dump()));
  }
  return static_cast<int32_t>(v);
}

// Applies the key "loss_scale": a number is a static scale (0: off), "dynamic", "static" and "off" are modes, and an
// object edits the inherited values.
void edit_loss_scale(LossScaleConfig& c, const Json& value) {
  using Mode = LossScaleConfig::Mode;
  const std::string path = "loss_scale";
  const std::vector<std::string> modes = {"dynamic", "static", "off"};
  if (value.is_number()) {
    const double scale = value.get<double>();
    c.mode = scale == 0 ? Mode::off : Mode::fixed;
    if (scale != 0) c.init = scale;
  } else if (value.is_string()) {
    c.mode = static_cast<Mode>(choice(value, path, modes));
  } else {
    check_keys(value, path,
               {"mode", "init", "growth_factor", "backoff_factor", "growth_interval", "min", "max", "hysteresis"});
    if (value.contains("mode")) c.mode = static_cast<Mode>(choice(value["mode"], path + ".mode", modes));
    const std::pair<const char*, double*> reals[] = {{"init", &c.init},
                                                     {"growth_factor", &c.growth_factor},
                                                     {"backoff_factor", &c.backoff_factor},
                                                     {"min", &c.min},
                                                     {"max", &c.max}};
    for (const auto& [key, field] : reals) {
      if (value.contains(key)) *field = number(value[key], path + "." + key);
    }
    if (value.contains("growth_interval")) {
      c.growth_interval = count(value["growth_interval"], path + ".growth_interval");
    }
    if (value.contains("hysteresis")) c.hysteresis = count(value["hysteresis"], path + ".hysteresis");
  }
  validate(c);
}

// Parses JSON. Throws E_OP_LIST_JSON for duplicate keys, because nlohmann::json would keep the last one without an
// error.
Json parse_strict(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      fail_at({}, "E_OP_LIST_JSON", cat("key '", printable(parsed.get<std::string>()), "' is given twice"));
    }
    return true;
  };
  if (const std::string excess = json_excess(text, false); !excess.empty())
    fail_at({}, "E_OP_LIST_JSON", cat("it ", excess));
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::parse_error& e) {
    const auto end = text.begin() + static_cast<ptrdiff_t>(std::min(e.byte, text.size()));
    std::string what = e.what();
    const size_t colon = what.find("column");
    if (colon != std::string::npos && what.find(": ", colon) != std::string::npos) {
      what = what.substr(what.find(": ", colon) + 2);
    }
    fail_at(cat("line ", 1 + std::count(text.begin(), end, '\n')), "E_OP_LIST_JSON",
            cat("not JSON: ", printable(what)));
  } catch (const Json::exception& e) {
    fail_at({}, "E_OP_LIST_JSON", cat("not JSON: ", printable(e.what())));
  }
}

}  // namespace

OpListDoc parse_op_list_doc(std::string_view text) {
  const Json json = parse_strict(text);
  check_keys(json, {},
             {"version", "extends", "dtype", "propagation", "allow", "infer", "deny", "clear", "rules", "loss_scale",
              "why", "graph", "nodes", "cost", "warnings"});
  if (!json.contains("version")) fail_at({}, "E_OP_LIST_KEY", "'version' is missing", "add \"version\": 1");
  if (json["version"] != 1) {
    fail_at("version", "E_OP_LIST_KEY", cat("version ", json["version"].dump(), " is not known to this program"),
            "it reads version 1");
  }
  OpListDoc doc;
  if (json.contains("extends")) doc.extends = text_of(json["extends"], "extends");
  if (json.contains("dtype")) {
    constexpr DType types[] = {DType::f16, DType::bf16, DType::f32};
    doc.dtype = types[choice(json["dtype"], "dtype", {"fp16", "bf16", "fp32"})];
  }
  if (json.contains("propagation")) {
    doc.propagation = static_cast<Propagation>(choice(json["propagation"], "propagation", {"paint", "inputs"}));
  }
  for (const OpClass c : {OpClass::allow, OpClass::infer, OpClass::deny, OpClass::clear}) {
    const std::string key(name_of(c));
    if (json.contains(key)) doc.classes[static_cast<size_t>(c)] = class_edit(json[key], key);
  }
  if (json.contains("rules")) {
    if (!json["rules"].is_array()) {
      fail_at("rules", "E_OP_LIST_KEY", cat("expected an array, got ", json["rules"].type_name()));
    }
    for (size_t i = 0; i < json["rules"].size(); ++i) {
      doc.rules.push_back(rule_of(json["rules"][i], cat("rules[", i, "]")));
    }
  }
  if (json.contains("loss_scale")) {
    doc.edit_loss_scale = [value = json["loss_scale"]](LossScaleConfig& c) { edit_loss_scale(c, value); };
  }
  if (json.contains("graph")) doc.graph = text_of(json["graph"], "graph");
  if (json.contains("nodes")) {
    if (!json["nodes"].is_array()) fail_at("nodes", "E_OP_LIST_KEY", "expected an array");
    for (size_t i = 0; i < json["nodes"].size(); ++i) {
      const Json& node = json["nodes"][i];
      const std::string at = cat("nodes[", i, "]");
      if (!node.is_object() || !node.contains("name") || !node.contains("compute")) {
        fail_at(at, "E_OP_LIST_KEY", "expected an object with name and compute");
      }
      doc.recorded[text_of(node["name"], at + ".name")] = text_of(node["compute"], at + ".compute");
    }
  }
  return doc;
}

}  // namespace amp
