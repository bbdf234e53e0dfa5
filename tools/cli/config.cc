// Reads settings from JSON or YAML files, from run.json, from other trainers' files, and from the environment, and
// writes the effective configuration. All sources produce Assignments, which Options merges by precedence.
#include "tools/cli/config.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_nesting.h"
#include "base/near_path.h"
#include "base/number_text.h"
#include "base/text.h"
#include "tools/cli/other_trainers.h"

namespace amp::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPrefix = "ONNX_AMP_";
// Environment variables that have the prefix of flags but are read by other code.
constexpr std::array<std::string_view, 5> kReservedEnvironment{"ONNX_AMP_MAX_ISA", "ONNX_AMP_DEPS", "ONNX_AMP_ZOO",
                                                               "ONNX_AMP_SKIP_APT", "ONNX_AMP_RANK_TOKEN"};
constexpr std::streamsize kLargestConfig = 16 << 20;

[[noreturn]] void refuse(const std::string& path, std::string fact, std::string hint = {}) {
  fail(Exit::usage, "E_USAGE", cat("configuration file '", printable(path), "': ", fact), std::move(hint));
}

// Parses a file. Repeated keys of the outermost object are errors, because the JSON library would keep the last value
// without an error.
Json parse_file(std::string_view text, const std::string& path) {
  if (path.ends_with(".yaml") || path.ends_with(".yml")) {
    Json root = yaml_to_json(std::string(text), path);
    if (!root.is_object())
      refuse(path, "its outermost value is not a map", "write a line \"lr: 5e-5\" for each setting");
    return root;
  }
  std::set<std::string> keys;
  std::string repeated;
  int64_t all_keys = 0;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMostJsonLevels) refuse(path, cat("it nests deeper than ", kMostJsonLevels));
    if (event == Json::parse_event_t::key && ++all_keys > kMostJsonKeys)
      refuse(path, cat("it has more than ", kMostJsonKeys, " keys"));
    if (event == Json::parse_event_t::key && depth == 1 && !keys.insert(parsed.get<std::string>()).second) {
      repeated = parsed.get<std::string>();
    }
    return true;
  };
  Json root;
  try {
    root = Json::parse(text, watch, true, true);
  } catch (const Json::exception& e) {
    refuse(path, cat("not valid JSON: ", printable(e.what())));
  }
  if (!repeated.empty()) refuse(path, cat("key '", printable(repeated), "' is given twice"));
  if (!root.is_object()) refuse(path, "its outermost value is not an object", R"(write {"lr": 5e-5, ...})");
  return root;
}

std::string scalar_text(const Json& v, const std::string& path, const std::string& key) {
  if (v.is_string()) return v.get<std::string>();
  if (v.is_boolean()) return v.get<bool>() ? "true" : "false";
  if (v.is_number_float()) return number_text(v.get<double>());
  if (v.is_number()) return v.dump();
  refuse(path, cat("key '", printable(key), "': ", v.type_name(), ", expected a text, a number, true or false"));
}

std::vector<std::string> texts_of(const Json& v, const Found& found, const std::string& path, const std::string& key) {
  std::vector<std::string> out;
  const auto text = [&](const Json& x) {
    return found.flag->json && x.is_object() ? x.dump() : scalar_text(x, path, key);
  };
  if (v.is_array() && (found.flag->type() == SettingType::list || found.flag->several_files)) {
    for (const Json& element : v) out.push_back(text(element));
  } else if (found.flag->json && v.is_object()) {
    out.push_back(v.dump());
  } else {
    out.push_back(plain_text(found, scalar_text(v, path, key)));
  }
  return out;
}

void refuse_two_spellings(const std::vector<Assignment>& earlier, const Assignment& a) {
  for (const Assignment& e : earlier) {
    if (e.flag == a.flag) {
      fail(Exit::usage, "E_USAGE", cat("'", e.spelling, "' and '", a.spelling, "' are the same flag, --", a.flag->name),
           "keep one of them");
    }
  }
}

std::string unknown_hint(std::string_view key, Verb verb) {
  if (const std::string hint = hint_for_foreign_flag(key); !hint.empty()) return hint;
  const std::string near = nearest_flag(key, verb);
  return near.empty() ? "see --help_all for all flags" : cat("did you mean '", near, "'?");
}

Json to_json(const SettingValue& v) {
  if (const auto* d = std::get_if<double>(&v)) {
    if (std::isinf(*d)) return number_text(*d);
    if (*d == std::floor(*d) && std::abs(*d) < 1e15) return static_cast<int64_t>(*d);
    return *d;
  }
  return std::visit([](const auto& x) { return Json(x); }, v);
}

}  // namespace

std::vector<Assignment> parse_config(std::string_view text, const std::string& path, Verb verb,
                                     std::vector<std::string>& warnings) {
  const Json root = parse_file(text, path);
  const bool dumped = root.contains("config") && root["config"].is_object();
  const auto other = dumped ? std::nullopt : of_other_trainer(root);
  if (other) {
    std::string said = cat("configuration file '", printable(path), "' is ", other->name);
    const char* between = "; not used of it: ";
    for (const std::string& key : other->not_used) said += cat(std::exchange(between, ", "), printable(key));
    warnings.push_back(said);
  }
  const Json& values = dumped ? root["config"] : other ? other->values : root;
  const Json sources = dumped ? root.value("sources", Json::object()) : Json::object();
  std::vector<Assignment> out;
  for (const auto& [key, value] : values.items()) {
    const auto found = find_flag(key);
    if (!found) refuse(path, cat("unknown key '", printable(key), "'"), unknown_hint(key, verb));
    if (!found->flag->recorded) {
      if (dumped) continue;  // an earlier version of this program wrote the file
      refuse(path, cat("key '", key, "' has no place in a configuration file"),
             cat("give --", found->flag->name, " on the command line"));
    }
    if (value.is_null() || !has(found->flag->verbs, verb)) continue;
    Assignment a{
        found->flag, key, {}, Source::config, cat("configuration file '", printable(path), "', key '", key, "'")};
    if (dumped) {
      const auto said = sources.find(key);
      const auto source = said != sources.end() && said->is_string() ? source_from_name(said->get<std::string>())
                                                                     : std::optional(Source::fallback);
      if (source == Source::derived) continue;  // this value will be derived again from other flags
      a.source = source ? std::min(*source, Source::config) : Source::config;
    }
    try {
      a.texts = texts_of(value, *found, path, key);
    } catch (Error& e) {
      e.at("from " + a.origin);
      throw;
    }
    refuse_two_spellings(out, a);
    out.push_back(std::move(a));
  }
  return out;
}

std::vector<Assignment> read_config(const std::string& path, Verb verb, std::vector<std::string>& warnings) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const std::string fact = cat("cannot be opened: ", std::strerror(errno));
    refuse(path, fact, near_path_hint(path));
  }
  std::string text(static_cast<size_t>(kLargestConfig) + 1, '\0');
  file.read(text.data(), kLargestConfig + 1);
  if (file.bad()) refuse(path, "cannot be read: is it a folder?");
  if (file.gcount() > kLargestConfig) refuse(path, "larger than 16 MiB: not a configuration");
  text.resize(static_cast<size_t>(file.gcount()));
  return parse_config(text, path, verb, warnings);
}

std::vector<Assignment> read_environment(const char* const* envp, Verb verb, std::vector<std::string>& warnings) {
  std::vector<Assignment> out;
  for (; envp && *envp; ++envp) {
    const std::string_view entry = *envp;
    const size_t equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    const std::string text(entry.substr(equals + 1));
    if (std::find(kReservedEnvironment.begin(), kReservedEnvironment.end(), name) != kReservedEnvironment.end())
      continue;
    std::string key(name.substr(kPrefix.size()));
    for (char& c : key) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    const auto found = find_flag(key);
    if (!found) {
      const std::string near = nearest_flag(key, verb);
      if (!near.empty()) {
        warnings.push_back(
            cat("environment variable ", printable(name), " has no effect; did you mean the flag '", near, "'?"));
      }
      continue;
    }
    if (text.empty() || !has(found->flag->verbs, verb)) continue;
    if (!found->flag->recorded && found->flag->name != "config") {
      fail(Exit::usage, "E_USAGE", cat("environment variable ", name, ": this flag has no place in the environment"),
           cat("unset it, and give --", found->flag->name, " on the command line"));
    }
    Assignment a{found->flag, std::string(name), {}, Source::environment, cat("environment variable ", name)};
    try {
      const bool array = found->flag->type() == SettingType::list && text.starts_with('[');
      const Json parsed = array ? Json::parse(text, nullptr, false) : Json();  // "[ab]*" is a pattern, not an array
      a.texts = texts_of(parsed.is_array() ? parsed : Json(text), *found, a.origin, a.spelling);
    } catch (Error& e) {
      e.at("from " + a.origin);
      throw;
    }
    refuse_two_spellings(out, a);
    out.push_back(std::move(a));
  }
  return out;
}

std::string effective_config_json(const Options& opts) {
  Json config = Json::object(), sources = Json::object();
  for (const Flag& f : flags()) {
    if (!has(f.verbs, opts.verb) || !f.recorded || !opts.has(f.name)) continue;
    const std::string name(f.name);
    config[name] = to_json(opts.value(f.name));
    if (opts.source(f.name) != Source::fallback) sources[name] = name_of(opts.source(f.name));
  }
  const Json root{{"verb", info(opts.verb).name}, {"config", config}, {"sources", sources}};
  // The handler replaces bytes that are not UTF-8, because paths may contain such bytes.
  return root.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace amp::cli
