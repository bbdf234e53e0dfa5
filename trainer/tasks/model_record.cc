// Writes a model record as the entries of metadata_props, and reads it back. An entry that is not in the form of this
// program is ignored, because another program may have written it.
#include "trainer/tasks/model_record.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_nesting.h"
#include "trainer/losses/loss.h"
#include "trainer/losses/loss_text.h"

namespace amp {

namespace {

using Json = nlohmann::json;

std::string dump(const Json& j) { return j.empty() ? "" : j.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json losses_json(std::vector<LossSpec> losses) {
  const size_t all = losses.size();
  std::erase_if(losses, [](const LossSpec& s) { return loss_rule(s.kind).teacher; });
  // A loss that remains without the teacher's loss gets weight 1, because its weight was relative to that loss.
  if (losses.size() == 1 && all > 1) losses[0].weight = 1;
  Json out = Json::array();
  for (const LossSpec& s : losses) out.push_back(Json::parse(loss_json(s)));
  return out;
}

// Calls f with the entry's JSON. Ignores an entry that is not JSON or that f rejects, because another program may have
// written it.
template <class F>
void read(const std::string& text, F&& f) {
  if (text.empty()) return;
  try {
    f(parse_json(text));  // f rejects the value of a text that is not JSON (is_discarded())
  } catch (const Json::exception&) {
  } catch (const Error&) {
  }
}

}  // namespace

std::map<std::string, std::string> to_metadata(const ModelRecord& r) {
  Json preprocessing = Json::object(), ranges = Json::object();
  for (const auto& [flag, texts] : r.preprocessing)
    preprocessing[flag] = texts.size() == 1 ? Json(texts[0]) : Json(texts);
  for (const auto& [name, range] : r.ranges)
    ranges[name] = {{"type", range.whole ? "integer" : "float"}, {"low", range.low}, {"high", range.high}};
  return {{"task", r.task == Task::none ? "" : name_of(r.task)},
          {"labels", dump(Json(r.labels))},
          {"loss", dump(losses_json(r.losses))},
          {"preprocessing", dump(preprocessing)},
          {"features", r.features},
          {"input_ranges", dump(ranges)}};
}

ModelRecord from_metadata(const std::function<std::string(const std::string&)>& entry) {
  ModelRecord r;
  r.task = task_from_name(entry("task"));
  read(entry("labels"), [&](const Json& j) { r.labels = j.get<std::vector<std::string>>(); });
  read(entry("loss"), [&](const Json& j) {
    if (j.is_array()) r.losses = parse_losses({j.dump()});
  });
  read(entry("preprocessing"), [&](const Json& j) {
    std::map<std::string, std::vector<std::string>> flags;
    for (const auto& [flag, value] : j.items()) {
      flags[flag] =
          value.is_array() ? value.get<std::vector<std::string>>() : std::vector<std::string>{value.get<std::string>()};
    }
    r.preprocessing = std::move(flags);
  });
  read(entry("features"), [&](const Json& j) {
    if (j.is_object() && j.contains("continuous")) r.features = entry("features");
  });
  read(entry("input_ranges"), [&](const Json& j) {
    InputRanges ranges;
    for (const auto& [name, x] : j.items())
      ranges[name] = {x.at("type") == "integer", x.at("low").get<double>(), x.at("high").get<double>()};
    r.ranges = std::move(ranges);
  });
  return r;
}

}  // namespace amp
