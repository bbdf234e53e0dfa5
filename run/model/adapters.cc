// Decides which maps are adapted: by the settings, or by an adapter's file. If the requested export files cannot hold
// such an adapter, it is refused here, before training.
#include "run/model/adapters.h"

#include <algorithm>
#include <optional>
#include <set>

#include "backend/interpreter.h"
#include "base/error.h"
#include "base/text.h"
#include "importer/adapter/fit.h"
#include "importer/adapter/trained.h"
#include "run/spec/spec.h"

namespace amp {

namespace {

// Refuses keys of `lora` whose values the adapter's file determines.
void require_free_keys(const std::string& lora) {
  for (const std::string& part : split(lora, ',')) {
    const std::string key = part.substr(0, part.find('='));
    if (!lora.empty() && !one_of(key, {"dropout", "lr_ratio"}))
      fail(Exit::usage, "E_LORA", cat("`lora` gives ", printable(key), ", which the file of `adapter` decides"),
           "leave it out; dropout and lr_ratio may be given with `adapter`");
  }
}

// Returns the first trainable parameter that is not part of an adapter; -1 if there is none.
int trained_beside(const SourceGraph& g, const std::vector<LoraAdapter>& adapters) {
  std::set<int> own;
  for (const LoraAdapter& a : adapters) own.insert({a.a, a.b, a.magnitude});
  for (size_t v = 0; v < g.values.size(); ++v) {
    const SourceValue& x = g.values[v];
    if (x.kind == SourceKind::parameter && x.trainable && !own.count(static_cast<int>(v))) return static_cast<int>(v);
  }
  return -1;
}

// Warns if the adapter was trained on another base. It would fit any model of the same architecture, because the names
// and sizes of modules are equal. So if the file states the checksum of its base, weights are compared. A difference
// is only a warning: an adapter may be meant for a quantized copy of its base.
void warn_other_base(const std::string& path, int32_t trained_on, int32_t base, const Log& log) {
  if (trained_on == 0 || trained_on == base) return;
  log.warning(cat("W_ADAPTER_BASE: the adapter '", printable(path),
                  "' was trained on other weights than those of this "
                  "model: on another base, or on the same one in another precision"));
}

void require_forms(const OutputSpec& output, const LoraOptions& options, const SourceGraph& g, const Trainable& t) {
  const bool slots = output.exports_lora("slots"), adapter = output.exports_lora("adapter"),
             peft = output.exports_lora("peft");
  if (slots || adapter) require_slots(t.lora, t.sites);
  if (slots && output.export_types() != "file" && output.export_types() != "fp32")
    fail(Exit::usage, "E_LORA_EXPORT",
         "slots have the types of the model's file, and another `export_precision` is asked for",
         "leave out `export_precision`, or export merged");
  if (options.init == LoraInit::pissa && (slots || adapter || peft))
    fail(Exit::usage, "E_LORA_EXPORT",
         "init=pissa changes the weights of the base, and the files of an adapter do not fit the original base",
         "export merge or keep alone, or choose another init");
  const int other = !output.lora_exports_model() ? trained_beside(g, t.lora) : -1;
  if (other >= 0)
    fail(Exit::usage, "E_LORA_EXPORT",
         cat("'", printable(g.shown(other)), "' trains as well, and the files of an adapter do not hold it"),
         "export slots besides, or do not train it");
}

}  // namespace

void add_adapters(const RunSpec& spec, Imported& model, Trainable& out, std::vector<std::string>& lines,
                  const Log& log) {
  SourceGraph& g = model.graph;
  const std::string& path = spec.model.adapter;
  if (spec.model.lora.empty() && path.empty()) {
    if (!spec.output.exports_lora("merge") && !spec.output.exports_lora("keep"))
      fail(Exit::usage, "E_LORA_EXPORT", cat("`lora_export` ", spec.output.lora_export, ": the run has no adapters"),
           "train some with `lora`");
    return;
  }
  LoraOptions options = spec.model.lora.empty() ? LoraOptions() : parse_lora(spec.model.lora);
  std::optional<FittedAdapter> start;
  int32_t trained_on = 0;
  if (!path.empty()) {
    require_free_keys(spec.model.lora);
    LoadedAdapter file = read_adapter(path);
    start.emplace(g, file);
    start->choose(options);
    trained_on = file.base_sum;
    if (file.peft) out.start = std::make_shared<const PeftAdapter>(std::move(*file.peft));
  }
  out.sites = adapter_sites(g, model.slots);
  const int32_t base = base_checksum(g, out.sites);
  if (start) warn_other_base(path, trained_on, base, log);
  options.separate = !spec.output.exports_lora("merge") && !spec.output.exports_lora("keep");
  options.keep = spec.output.exports_lora("keep");
  options.seed = static_cast<uint64_t>(spec.device.seed);
  options.trainable = spec.model.trainable;
  options.evaluate = cpu_evaluator();
  LoraResult result = add_lora(g, options);
  if (start) start->fill(g, result.adapters);
  lines.insert(lines.end(), result.lines.begin(), result.lines.end());
  for (const std::string& line : result.details) log.detail(line);
  out.lora = std::move(result.adapters);
  out.lora_lr_ratio = options.lr_ratio;
  if (trained_beside(g, out.lora) < 0) out.base_sum = base;
  require_forms(spec.output, options, g, out);
}

void apply_adapter(const std::string& path, SourceGraph& graph, const Log& log) {
  if (path.empty()) return;
  const LoadedAdapter file = read_adapter(path);
  const FittedAdapter adapter(graph, file);
  warn_other_base(path, file.base_sum, base_checksum(graph, adapter_sites(graph, {})), log);
  LoraOptions options;
  adapter.choose(options);
  options.separate = true;
  options.evaluate = cpu_evaluator();
  const LoraResult result = add_lora(graph, options);
  adapter.fill(graph, result.adapters);
  log.info(cat("adapter: '", printable(path), "' on ", result.adapters.size(),
               result.adapters.size() == 1 ? " linear map" : " linear maps"));
}

}  // namespace amp
