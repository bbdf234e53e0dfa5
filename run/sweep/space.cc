// Search spaces. A grid is the Cartesian product of the lists. Random trials are drawn by Philox from (seed, trial,
// setting); a trial that equals an earlier one is drawn again. Drawn numbers are rounded to four digits: the name of a
// run then states its values exactly.
#include "run/sweep/space.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/number_text.h"
#include "base/philox.h"
#include "base/text.h"

namespace amp {
namespace {

using nlohmann::ordered_json;
constexpr uint64_t kStream = 0x7377'6565'7000'0000;  // "sweep" in ASCII: differs from other streams of the same seed
constexpr size_t kLongestName = 120;                 // bytes; file systems allow 255
// Number of draws for one trial after which the space counts as exhausted.
constexpr uint64_t kDrawsPerTrial = 100;

[[noreturn]] void refuse_space(std::string fact, std::string hint) {
  fail(Exit::usage, "E_SWEEP", std::move(fact), std::move(hint));
}

// Splits at `separator`, but not inside parentheses.
std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> out(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == separator && depth == 0) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  for (std::string& s : out) s = std::string(trimmed(s));
  return out;
}

// Converts "log_uniform(1e-6,1e-3)" to {"log_uniform": ["1e-6", "1e-3"]}. Returns null for other values.
ordered_json range_of(const std::string& text) {
  const size_t open = text.find('(');
  if (open == std::string::npos || !text.ends_with(')')) return nullptr;
  const std::string name = text.substr(0, open);
  if (name != "uniform" && name != "log_uniform") return nullptr;
  return {{name, parts_of(text.substr(open + 1, text.size() - open - 2), ',')}};
}

// Converts "1e-05" to the shorter "1e-5".
std::string short_exponent(std::string text) {
  const size_t e = text.find('e');
  if (e == std::string::npos) return text;
  const size_t digits = text.find_first_not_of("+-0", e + 1);
  if (digits == std::string::npos) return text;
  return text.substr(0, e + 1) + (text[e + 1] == '-' ? "-" : "") + text.substr(digits);
}

std::string value_as_text(const ordered_json& value) {
  if (value.is_number_float()) return short_exponent(number_text(value.get<double>()));
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Returns the texts of a value, as a command line would give them.
std::vector<std::string> texts_of(const ordered_json& value, const Setting& s) {
  if (value.is_null() || (value.is_object() && !s.json))
    refuse_space(cat("`", s.name, "`: ", printable(value.dump()), " is no value"),
                 "list the values: {\"lr\": [1e-5, 3e-5]}");
  if (!value.is_array()) return {value_as_text(value)};
  std::vector<std::string> out;
  for (const ordered_json& v : value) out.push_back(value_as_text(v));
  return out;
}

void add_values(SweepAxis& axis, const ordered_json& list) {
  std::vector<SettingValue> known;
  for (const ordered_json& value : list) {
    axis.values.push_back(texts_of(value, *axis.setting));
    SettingValue parsed = parse_value(*axis.setting, axis.values.back());
    if (std::find(known.begin(), known.end(), parsed) != known.end())
      refuse_space(cat("`", axis.setting->name, "` has the value ", printable(value_text(parsed)), " twice"),
                   "give each value once");
    known.push_back(std::move(parsed));
  }
  if (axis.values.empty()) refuse_space(cat("`", axis.setting->name, "` has no values"), "give at least one");
}

std::string drawn_text(const SweepAxis& axis, double value) {
  if (axis.setting->type() == SettingType::integer) return std::to_string(std::llround(value));
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  const std::optional<double> rounded = parse_number(text);
  return short_exponent(number_text(rounded && *rounded >= axis.low && *rounded <= axis.high ? *rounded : value));
}

void set_range(SweepAxis& axis, const std::string& kind, const ordered_json& bounds) {
  const Setting& s = *axis.setting;
  const std::string where = cat("`", s.name, "`, ", printable(kind));
  if (kind != "uniform" && kind != "log_uniform")
    refuse_space(cat(where, " is no distribution"), "uniform or log_uniform");
  if (s.type() != SettingType::number && s.type() != SettingType::integer)
    refuse_space(cat(where, ": its values are no numbers"), "list the values");
  axis.kind = kind == "uniform" ? SweepAxis::Kind::uniform : SweepAxis::Kind::log_uniform;
  const auto number = [&](size_t i) {
    const std::optional<double> v =
        bounds.is_array() && bounds.size() == 2 ? parse_number(value_as_text(bounds[i])) : std::nullopt;
    if (!v || !std::isfinite(*v)) refuse_space(cat(where, " needs two numbers"), "write its lowest and highest value");
    return *v;
  };
  axis.low = number(0);
  axis.high = number(1);
  if (axis.low >= axis.high) refuse_space(cat(where, ": the first bound must be the lower one"), "swap them");
  if (axis.kind == SweepAxis::Kind::log_uniform && axis.low <= 0)
    refuse_space(cat(where, ": the bounds must be above 0"), "write a small number instead of 0");
  for (const double bound : {axis.low, axis.high}) parse_value(s, std::vector<std::string>{drawn_text(axis, bound)});
}

// Replaces bytes that are awkward in paths. A changed or shortened name gets a suffix that depends on the whole name,
// so that different trials have different folders.
std::string folder_name(const std::string& name) {
  std::string out = name;
  for (char& c : out) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("._=,+-").find(c) != std::string_view::npos;
    if (!plain) c = '_';
  }
  if (out.size() > kLongestName) out.resize(kLongestName);
  return out == name ? out : out + "-" + sha256(name.data(), name.size()).substr(0, 8);
}

SweepTrial named(SweepTrial trial) {
  std::vector<std::string> words;
  for (const auto& [setting, texts] : trial.values) words.push_back(cat(setting->name, "=", join(texts, "+")));
  trial.name = folder_name(join(words, ","));
  return trial;
}

SweepTrial drawn(const SweepSpace& space, uint64_t seed, uint64_t draw) {
  SweepTrial trial;
  for (size_t a = 0; a < space.size(); ++a) {
    const SweepAxis& axis = space[a];
    const PhiloxBlock r = philox(seed, kStream + a, draw);
    if (axis.kind == SweepAxis::Kind::list) {
      trial.values.emplace_back(axis.setting, axis.values[philox_below(r.v[0], r.v[1], axis.values.size())]);
      continue;
    }
    const double u = (static_cast<double>(r.v[0]) + static_cast<double>(r.v[1]) / 0x1p32) / 0x1p32;
    const double value = axis.kind == SweepAxis::Kind::uniform
                             ? axis.low + u * (axis.high - axis.low)
                             : std::exp(std::log(axis.low) + u * (std::log(axis.high) - std::log(axis.low)));
    trial.values.push_back({axis.setting, {drawn_text(axis, value)}});
  }
  return named(std::move(trial));
}

std::vector<SweepTrial> grid(const SweepSpace& space) {
  size_t count = 1;
  for (const SweepAxis& axis : space) {
    if (axis.kind != SweepAxis::Kind::list)
      refuse_space(cat("`", axis.setting->name, "` is drawn from a range, and a grid has lists only"),
                   "`sweep_trials` N draws N runs");
    count *= axis.values.size();
    if (count > kMostTrials)
      refuse_space(cat("the grid has more than ", kMostTrials, " runs"), "`sweep_trials` N draws N");
  }
  std::vector<SweepTrial> out;
  for (size_t i = 0; i < count; ++i) {
    SweepTrial trial;
    size_t rest = count, at = i;
    for (const SweepAxis& axis : space) {
      rest /= axis.values.size();
      trial.values.emplace_back(axis.setting, axis.values[at / rest]);
      at %= rest;
    }
    out.push_back(named(std::move(trial)));
  }
  return out;
}

}  // namespace

ordered_json sweep_json(std::string_view text) {
  ordered_json out = ordered_json::object();
  for (const std::string& part : parts_of(text, ';')) {
    if (part.empty()) continue;
    const size_t equals = part.find('=');
    const std::string name(trimmed(part.substr(0, equals)));
    if (equals == std::string::npos || name.empty())
      refuse_space(cat("'", printable(part), "' has no values"), "write NAME=VALUE,VALUE;NAME=VALUE, or name a file");
    if (out.contains(name)) refuse_space(cat("'", printable(name), "' is given twice"), "give all its values together");
    std::vector<std::string> values = parts_of(part.substr(equals + 1), ',');
    if (std::find(values.begin(), values.end(), "") != values.end())
      refuse_space(cat("'", printable(part), "' has an empty value"), "remove the extra comma");
    const ordered_json range = values.size() == 1 ? range_of(values[0]) : ordered_json();
    out[name] = range.is_null() ? ordered_json(values) : range;
  }
  return out;
}

SweepSpace sweep_space(const ordered_json& json, const std::function<const Setting&(const std::string&)>& find) {
  if (!json.is_object() || json.empty())
    refuse_space("the search space has no settings", "write {\"lr\": [1e-5, 3e-5], \"batch_size\": [16, 32]}");
  SweepSpace space;
  for (const auto& [key, value] : json.items()) {
    SweepAxis axis;
    axis.setting = &find(key);
    if (std::any_of(space.begin(), space.end(), [&](const SweepAxis& a) { return a.setting == axis.setting; }))
      refuse_space(cat("`", axis.setting->name, "` is given twice"), "give all its values together");
    if (value.is_object() && !axis.setting->json) {
      if (value.size() != 1)
        refuse_space(cat("`", axis.setting->name, "` needs one distribution"), "write {\"log_uniform\": [1e-6, 1e-3]}");
      set_range(axis, value.begin().key(), value.begin().value());
    } else {
      add_values(axis, value.is_array() ? value : ordered_json::array({value}));
    }
    space.push_back(std::move(axis));
  }
  return space;
}

std::vector<SweepTrial> sweep_trials(const SweepSpace& space, int64_t count, uint64_t seed) {
  if (count == 0) return grid(space);
  std::vector<SweepTrial> out;
  std::set<std::string> known;
  uint64_t draw = 0, last = 0;
  while (out.size() < static_cast<size_t>(count) && draw - last < kDrawsPerTrial * (known.size() + 1)) {
    SweepTrial trial = drawn(space, seed, draw++);
    if (!known.insert(trial.name).second) continue;
    last = draw;
    out.push_back(std::move(trial));
  }
  return out;
}

}  // namespace amp
