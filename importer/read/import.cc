// import_model(): reads the file, builds the SourceGraph, then runs the passes that find weights. The passes run in a
// fixed order: later ones read parameters, names and ties that earlier ones set. release_parameters() frees
// initializers one by one, which is why large ones get separate memory blocks.
#include "importer/read/import.h"

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/activity.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "importer/discover/arrangement.h"
#include "importer/discover/batch_statistics.h"
#include "importer/discover/discover.h"
#include "importer/discover/layers.h"
#include "importer/discover/merged.h"
#include "importer/discover/select.h"
#include "importer/discover/statistics.h"
#include "importer/quantized/fake_quant.h"
#include "importer/quantized/four_bits.h"
#include "importer/quantized/quantized_weights.h"
#include "importer/quantized/straight_through.h"
#include "importer/read/build.h"
#include "importer/read/external.h"
#include "importer/read/load.h"
#include "importer/read/tensor.h"
#include "importer/surgery/inference_inputs.h"
#include "importer/surgery/pasts.h"
#include "importer/surgery/reference.h"
#include "importer/surgery/zip_map.h"

namespace amp {
namespace {

void read_external(ModelDoc& doc, std::vector<std::string>& notes) {
  ExternalData data(doc.path);
  for_each_slot(*doc.proto, [&](int number, Slot slot) {
    if (!slot.tensor || slot.tensor->data_location() != onnx::TensorProto::EXTERNAL) return;
    if (!dtype_of(slot.tensor->data_type()) && !has_four_bits(slot.tensor->data_type())) return;
    try {
      doc.external[number] = data.read(*slot.tensor);
    } catch (Error& e) {
      e.at(cat("in tensor '", printable(slot.tensor->name()), "'"));
      throw;
    }
  });
  notes.insert(notes.end(), data.notes().begin(), data.notes().end());
}

// Moves large initializers into separate memory blocks, which can be freed one by one.
void take_large(ModelDoc& doc, SourceGraph& g) {
  constexpr size_t kLarge = 64 << 10;
  std::map<const void*, std::vector<SourceValue*>> by_payload;
  for (SourceValue& v : g.values) {
    if (v.data) by_payload[v.data.data()].push_back(&v);
  }
  std::set<const onnx::TensorProto*> initializers;
  for (const auto& t : doc.proto->graph().initializer()) initializers.insert(&t);
  for_each_slot(*doc.proto, [&](int number, Slot slot) {
    if (!initializers.count(slot.tensor) || slot.tensor->raw_data().size() < kLarge) return;
    const auto views = by_payload.find(slot.tensor->raw_data().data());
    if (views == by_payload.end()) return;
    const auto payload = std::make_shared<std::string>();
    // swap keeps the address of the bytes, so that other views stay valid
    slot.tensor->mutable_raw_data()->swap(*payload);
    for (SourceValue* v : views->second)
      v->data = HostTensor(v->data.dtype(), v->data.dims(), payload, payload->data());
    doc.large[number] = views->second.front()->data;
  });
}

int64_t count_non_finite(const HostTensor& t) {
  int64_t bad = 0;
  with_type(t.dtype(), [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      for (int64_t i = 0; i < t.numel(); ++i) bad += !std::isfinite(t.as<T>()[i]);
    } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      for (int64_t i = 0; i < t.numel(); ++i) bad += !std::isfinite(static_cast<float>(t.as<T>()[i]));
    }
  });
  return bad;
}

// Returns a text such as "node '/bn/BatchNormalization' (...) and 4 more".
std::string some_nodes(const SourceGraph& g, const std::vector<int>& nodes) {
  constexpr size_t kShown = 3;
  std::vector<std::string> shown;
  for (size_t i = 0; i < nodes.size() && i < kShown; ++i) shown.push_back(g.describe_node(nodes[i]));
  return join(shown, ", ") + (nodes.size() > kShown ? cat(" and ", nodes.size() - kShown, " more") : std::string());
}

// Returns the inputs that no node reads although another input of the same type and rank is read. An exporter has
// probably merged these inputs.
std::vector<int> merged_inputs(const SourceGraph& g) {
  const std::vector<std::vector<int>> consumers = g.consumers();
  const auto read = [&](int v) { return !consumers[static_cast<size_t>(v)].empty(); };
  std::vector<int> out;
  const auto nests = [](const SourceNode& n) { return one_of(n.op, {"If", "Loop", "Scan", "SequenceMap"}); };
  if (std::any_of(g.nodes.begin(), g.nodes.end(), nests)) return out;  // inner graphs may read any input
  for (const int v : g.inputs) {
    const SourceValue& x = g.value(v);
    if (read(v) || std::find(g.outputs.begin(), g.outputs.end(), v) != g.outputs.end()) continue;
    const bool alike = std::any_of(g.inputs.begin(), g.inputs.end(), [&](int other) {
      const SourceValue& y = g.value(other);
      return read(other) && y.dtype == x.dtype && y.dims.size() == x.dims.size();
    });
    if (alike) out.push_back(v);
  }
  return out;
}

// Adds notes about training-mode nodes in the file and about weights that contain non-finite values.
void inspect(const SourceGraph& g, std::vector<std::string>& notes) {
  std::vector<int> norms, dropouts;
  const std::vector<int> over_rows = batch_statistics(g);
  for (size_t at = 0; at < g.nodes.size(); ++at) {
    const SourceNode& n = g.nodes[at];
    if (!n.domain.empty()) continue;
    const bool flag = n.attrs.has("training_mode") && n.attrs.i("training_mode", 0) != 0;
    if (n.op == "BatchNormalization" && (flag || (n.version < 14 && n.outputs.size() > 1)))
      norms.push_back(static_cast<int>(at));
    if (n.op == "Dropout" && n.inputs.size() > 2 && n.inputs[2] >= 0) {
      const HostTensor& mode = g.values[static_cast<size_t>(n.inputs[2])].data;
      if (mode && mode.numel() == 1 && mode.to_ints()[0] != 0) dropouts.push_back(static_cast<int>(at));
    }
  }
  const auto note = [&](const std::vector<int>& nodes, const char* what) {
    if (!nodes.empty()) notes.push_back(cat(nodes.size(), what, ": ", some_nodes(g, nodes)));
  };
  note(norms, " BatchNormalization nodes are in training form; an export has them in inference form");
  note(dropouts, " Dropout nodes are in training mode; an export has them in inference form");
  note(over_rows,
       " normalizations use statistics of the batch that the file computes, in inference, too "
       "(track_running_stats=False): outputs depend on which rows share a batch");
  for (const int unread : merged_inputs(g)) {
    notes.push_back(cat("no node reads the input '", printable(g.value(unread).name),
                        "': an exporter that was given one tensor for several inputs takes them for one"));
  }
  for (const SourceValue& v : g.values) {
    if (v.kind != SourceKind::parameter) continue;
    if (const int64_t bad = count_non_finite(v.data)) {
      notes.push_back(cat("parameter '", printable(v.name), "' holds ", bad, " values that are not finite"));
    }
  }
}

// Records where each value is stored, for export, before surgery adds values.
void record_places(ModelDoc& doc, Built& built) {
  doc.slot_of = std::move(built.slot_of);
  doc.visible = std::move(built.visible);
  for (const SourceValue& v : built.graph.values) doc.names.push_back(v.name);
  for (SourceNode& n : built.graph.nodes) n.place = n.place == Place::training ? Place::training : Place::file;
  doc.values = static_cast<int>(built.graph.values.size());
}

}  // namespace

Imported import_model(const std::string& path, const ImportOptions& options) {
  Imported out;
  out.doc = std::make_shared<ModelDoc>();
  ModelDoc& doc = *out.doc;
  doc.path = path;
  const Activity reading(cat("reading ", name_in_folder(path)));
  doc.proto = load_proto(path);
  try {
    // Read tensors and build the graph. Merged tensors are split before any pass decides which tensors are weights.
    read_external(doc, out.notes);
    Built built = build_source(doc, options.split_merged);
    if (options.split_merged) split_merged(built, doc);
    SourceGraph& g = built.graph;
    // Mark quantizers and estimators first: they determine through which inputs gradients pass.
    if (options.train_quantized) add_float_masters(built);
    const bool counted = count_positions(built, options.past);
    find_quantizers(built);
    find_dynamic_scales(g);
    read_before_zip_maps(built);
    if (options.straight_through) find_straight_through(built);
    // Find the weights, then apply names, flags and ties, which all refer to parameters.
    const ExporterRecord record = read_exporter_record(built, doc);
    const StoredArrangements stored;
    out.verdicts = discover_parameters(g, record);
    std::tie(doc.caches, out.caches) = empty_pasts(built, options.past, !counted);
    name_parameters(g, built.scopes);
    apply_trainable(g, options.trainable, out.verdicts);
    if (options.tie_weights_auto) {
      tie_parameters(g);
      tie_views(g, record, out.notes);
    }
    apply_freeze(g, options);
    if (options.freeze_layers >= 0) {
      for (std::string& line : freeze_layers(g, options.freeze_layers, options.trainable, built.scopes))
        out.notes.push_back(std::move(line));
    }
    if (options.find_layers) out.layers = layer_depths(g, built.scopes);
    // Collect notes. find_statistics() appends to built.notes, so only the new notes are added.
    out.notes.insert(out.notes.end(), built.notes.begin(), built.notes.end());
    if (options.batchnorm_train) {
      const size_t said = built.notes.size();
      find_statistics(built, doc);
      out.notes.insert(out.notes.end(), built.notes.begin() + static_cast<std::ptrdiff_t>(said), built.notes.end());
    }
    if (const std::string split = describe_split(built); !split.empty()) out.notes.push_back(split);
    inspect(g, out.notes);
    if (options.gradient_stops) {
      for (std::string& line : gradient_stops(g)) out.notes.push_back(std::move(line));
    }
    record_places(doc, built);
    out.slots = take_slots(g);
    take_large(doc, g);
    out.graph = std::move(g);
  } catch (Error& e) {
    throw e.at(cat("in model '", path, "'"));
  }
  return out;
}

void release_parameters(Imported& model) {
  ModelDoc& doc = *model.doc;
  std::map<int, std::vector<SourceValue*>> by_slot;
  std::set<int> kept;
  for (int i = 0; i < doc.values; ++i) {
    SourceValue& v = model.graph.values[static_cast<size_t>(i)];
    const int slot = doc.slot_of[static_cast<size_t>(i)];
    if (slot < 0) continue;
    by_slot[slot].push_back(&v);
    // The Session's fp32 copy is exact for these types, so the value can be restored from that copy.
    const bool exact = is_float(v.data.dtype()) && v.data.dtype() != DType::f64;
    if (v.kind != SourceKind::parameter || !exact || doc.separated.count(i)) kept.insert(slot);
  }
  for (auto* payloads : {&doc.large, &doc.external}) {
    for (auto& [slot, payload] : *payloads) {
      if (kept.count(slot) || !by_slot.count(slot)) continue;
      payload = payload.released();
      for (SourceValue* v : by_slot[slot]) v->data = v->data.released();
    }
  }
  for (size_t i = static_cast<size_t>(doc.values); i < model.graph.values.size(); ++i) {
    SourceValue& v = model.graph.values[i];
    if (v.reason == ReferenceModel::kReason) v.data = v.data.released();  // exports do not contain the reference model
  }
  malloc_trim(0);  // returns pages to the system, which glibc would keep between blocks in use
}

std::string model_sha256(const std::string& path) {
  const Activity reading(cat("computing the checksum of ", name_in_folder(path)));
  return file_sha256(path);
}

bool model_output(const ModelDoc& doc, const std::string& name) {
  const auto& outputs = doc.proto->graph().output();
  return std::any_of(outputs.begin(), outputs.end(), [&](const auto& o) { return o.name() == name; });
}

std::string model_metadata(const ModelDoc& doc, const std::string& key) {
  for (const auto& entry : doc.proto->metadata_props()) {
    if (entry.key() == key) return entry.value();
  }
  return {};
}

}  // namespace amp
