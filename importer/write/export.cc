// An export spreads ties, patches payloads, removes what was cut, appends what surgery added, converts types, and
// writes, checks and renames the file. A complaint of the ONNX checker is an error, unless the checker also complains
// about the imported file. To save memory, payloads are moved, not copied, and shapes are inferred in place.
#include "importer/write/export.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <set>

#include "base/activity.h"
#include "base/error.h"
#include "base/file.h"
#include "base/remove_quietly.h"
#include "base/text.h"
#include "importer/quantized/quantized_weights.h"
#include "importer/read/newer_onnx.h"
#include "importer/read/tensor.h"
#include "importer/write/add_slots.h"
#include "importer/write/external.h"
#include "importer/write/half.h"
#include "importer/write/inference_form.h"
#include "importer/write/onnx_checker.h"
#include "importer/write/patch.h"
#include "importer/write/prepend.h"
#include "importer/write/widen.h"

namespace amp {
namespace {

// Adapts FileWriter to protobuf. The first exception is stored, because an exception must not pass through protobuf,
// whose destructors flush.
class FileSink : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit FileSink(FileWriter& file) : file_(file) {}
  bool Write(const void* bytes, int size) override {
    if (failure_) return false;
    try {
      file_.write(bytes, size);
      return true;
    } catch (...) {
      failure_ = std::current_exception();
      return false;
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  FileWriter& file_;
  std::exception_ptr failure_;
};

void write_proto(const onnx::ModelProto& proto, FileWriter& file) {
  FileSink sink(file);
  bool ok = false;
  {
    google::protobuf::io::CopyingOutputStreamAdaptor stream(&sink);
    ok = proto.SerializeToZeroCopyStream(&stream) && stream.Flush();
  }
  sink.rethrow();
  check(ok, "export: the model could not be serialized");
}

// A temporary folder for files that must be replaced together. The destructor removes the folder.
class Aside {
 public:
  explicit Aside(const std::string& path)
      : folder_(cat(path, ".tmp-", ::getpid())),
        file_(folder_ + "/" + std::filesystem::path(path).filename().string()),
        registered_(folder_),
        registered_file_(file_),
        registered_data_(file_ + ".data") {
    remove_tree(folder_);
    ensure_dir(folder_);
  }
  ~Aside() { remove_quietly(folder_.c_str()); }  // a failure to remove the folder must not hide an earlier failure
  const std::string& file() const { return file_; }

 private:
  std::string folder_, file_;
  TemporaryPath registered_, registered_file_, registered_data_;  // a folder is removed only if it is empty by then
};

std::set<std::string> weight_names(const SourceGraph& g) {
  std::set<std::string> names;
  for (const SourceValue& v : g.values) {
    if (v.kind == SourceKind::parameter) names.insert(v.name);
  }
  return names;
}

// Returns the name that the file uses for the node's first output; nullopt if the node is not in the file's main graph.
std::optional<std::string> name_in_file(const ModelDoc& doc, const SourceGraph& graph, size_t node) {
  const std::vector<int>& made = graph.nodes[node].outputs;
  if (made.empty() || made[0] < 0 || graph.nodes[node].place == Place::training) return std::nullopt;
  const bool in_file = made[0] < doc.values;
  if (in_file && !doc.visible[static_cast<size_t>(made[0])]) return std::nullopt;  // inside a local function or branch
  const std::string& name = graph.values[static_cast<size_t>(made[0])].name;
  if (!in_file || doc.names[static_cast<size_t>(made[0])] == name) return name;
  // An exported adapter takes over the name of the value that it is added to. A merged adapter does so only in the
  // SourceGraph.
  const int holder = graph.find(doc.names[static_cast<size_t>(made[0])]);
  const int by = holder < 0 ? -1 : graph.values[static_cast<size_t>(holder)].producer;
  const bool merged = by < 0 || graph.nodes[static_cast<size_t>(by)].place == Place::training;
  return merged ? doc.names[static_cast<size_t>(made[0])] : name;
}

// Returns the options of the conversion to 16 bits. For `mixed` they list the plan's 16-bit nodes by the names of their
// outputs, for `fp16` the nodes that stay float32.
HalfOptions half_options(const ModelDoc& doc, const SourceGraph& graph, const ExportOptions& options) {
  HalfOptions out;
  out.weights = weight_names(graph);
  if (options.precision == "fp16") {
    for (size_t i = 0; i < options.wide.size(); ++i) {
      const auto name = options.wide[i] ? name_in_file(doc, graph, i) : std::nullopt;
      if (name) out.wide.insert(*name);
    }
    return out;
  }
  check(options.compute.size() <= graph.nodes.size(), "export: types for nodes that are not there");
  out.low.emplace();
  for (size_t i = 0; i < options.compute.size(); ++i) {
    const auto name = is_low(options.compute[i]) ? name_in_file(doc, graph, i) : std::nullopt;
    if (!name) continue;
    out.low->insert(*name);
    if (options.compute[i] == DType::bf16) out.type.onnx = onnx::TensorProto::BFLOAT16;
  }
  return out;
}

void set_metadata(onnx::ModelProto& proto, const std::map<std::string, std::string>& metadata) {
  auto& entries = *proto.mutable_metadata_props();
  for (const auto& [key, value] : metadata) {
    const auto named = [&key = key](const auto& e) { return e.key() == key; };
    if (value.empty()) {
      entries.erase(std::remove_if(entries.begin(), entries.end(), named), entries.end());
      continue;
    }
    const auto it = std::find_if(entries.begin(), entries.end(), named);
    onnx::StringStringEntryProto* entry = it == entries.end() ? nullptr : &*it;
    if (!entry) entry = proto.add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  }
}

// Moves external payloads into the proto, because a conversion of types reads all of them.
void bring_in_payloads(Patched& patched) {
  for_each_slot(patched.proto, [&](int, Slot slot) {
    const auto it = patched.external.find(slot.tensor);
    if (!slot.tensor || it == patched.external.end()) return;
    slot.tensor->set_raw_data(it->second.data(), static_cast<size_t>(it->second.bytes()));
    slot.tensor->clear_external_data();
    slot.tensor->clear_data_location();
  });
  patched.external.clear();
}

void store_in_16_bits(Patched& patched, const HalfOptions& half, std::vector<std::string>& notes) {
  bring_in_payloads(patched);
  if (!half.low || !half.low->empty()) convert_to_half(patched.proto, half, notes);
  if (half.type.dtype() == DType::bf16)
    notes.push_back("mixed: the 16-bit nodes are bfloat16; onnxruntime's CPU provider has no kernels for most of them");
}

// Returns the tensors to store outside of the file: those that were external and, if `all`, also all others except
// small tensors. Moves their payloads out of the proto.
ExternalTensors external_tensors(Patched& patched, bool all) {
  constexpr size_t kSmall = 1024;
  ExternalTensors external;
  for_each_slot(patched.proto, [&](int, Slot slot) {
    if (!slot.tensor) return;
    if (const auto it = patched.external.find(slot.tensor); it != patched.external.end()) {
      external.emplace_back(slot.tensor, it->second);
    } else if (all && slot.tensor->raw_data().size() >= kSmall && dtype_of(slot.tensor->data_type())) {
      const auto payload = std::make_shared<std::string>();
      slot.tensor->mutable_raw_data()->swap(*payload);
      const DType d = *dtype_of(slot.tensor->data_type());
      external.emplace_back(slot.tensor, HostTensor(d, checked_dims(*slot.tensor, d), payload, payload->data()));
    }
  });
  return external;
}

[[noreturn]] void refused_by_checker(const SourceGraph& graph, const std::string& complaint) {
  const std::string fact = cat("the ONNX checker refuses the exported model: ", complaint);
  const auto& v = graph.values;
  if (std::none_of(v.begin(), v.end(), [](const SourceValue& x) { return x.replaced; }))
    fail(Exit::internal, "E_EXPORT_CHECK", fact);
  // The training graph lacks some of the file's nodes, such as those of a branch that is not taken. Such a node may
  // read a resized tensor.
  fail(Exit::model, "E_EXPORT_CLASSIFIER", fact,
       "the new classifier does not fit another part of the file, such as a branch that is never taken: remove that "
       "part (onnxsim), or train without `num_labels`");
}

// Writes the file and its data file, if it has one, and checks them before they replace old files. The check may add
// inferred shapes to `proto` after it was written.
void write_checked(onnx::ModelProto& proto, ExternalTensors& external, const ModelDoc& doc, const SourceGraph& graph,
                   bool keep_refused, const std::string& path, std::vector<std::string>& notes) {
  std::optional<Aside> aside;
  if (!external.empty()) aside.emplace(path);
  const std::string written = aside ? aside->file() : path;
  if (aside) write_external(external, written);
  FileWriter file(written, static_cast<int64_t>(proto.ByteSizeLong()));
  write_proto(proto, file);
  if (aside) file.commit();
  const std::string complaint = aside ? checker_says(written, has_newer_ir_version(proto)) : checker_says(proto);
  if (!complaint.empty()) {
    const std::string before = checker_says(doc);
    if (before.empty() && !keep_refused) refused_by_checker(graph, complaint);
    notes.push_back(before.empty()
                        ? cat("the ONNX checker refuses the exported model: ", complaint)
                        : cat("the ONNX checker refuses the exported model as it does the imported one: ", before));
  }
  if (aside) {
    move_path(written + ".data", path + ".data");
    move_path(written, path);
  } else {
    file.commit();
  }
}

}  // namespace

ExportReport export_model(const ModelDoc& doc, const SourceGraph& graph, const std::vector<TrainedTensor>& trained,
                          const ExportOptions& options, const std::string& path) {
  if (!one_of(options.precision, {"file", "fp32", "fp16", "mixed"}))
    fail(Exit::usage, "E_PRECISION",
         cat("export precision '", options.precision, "' is not file, fp32, fp16 or mixed"));
  ExportReport report;
  const Activity writing(cat("writing ", name_in_folder(path)));
  // Compute the values to store: give tied parameters their values, and quantize masters back to the file's integers.
  std::map<int, HostTensor> values = spread_ties(graph, trained);
  quantize_masters(graph, values);
  const bool float32 = options.precision == "fp32" && has_16_bit_floats(*doc.proto);
  Patched patched = patch_payloads(doc, graph, values, float32);
  onnx::ModelProto& proto = patched.proto;
  // Apply the changes of surgery to the graph.
  remove_cut(patched, doc, graph);
  append_added(proto, doc, graph, values);
  if (options.inference_form) to_inference_form(proto, report.notes);
  set_metadata(proto, options.metadata);
  if (options.raw_rows) prepend_raw_rows(proto, *options.raw_rows);
  // Convert types, which needs all payloads in the proto.
  const bool outside = !patched.external.empty(), low = one_of(options.precision, {"fp16", "mixed"});
  if (float32) {
    bring_in_payloads(patched);
    convert_to_float(proto);
  } else if (low) {
    store_in_16_bits(patched, half_options(doc, graph, options), report.notes);
  }
  if (!options.slots.empty()) add_slots(proto, doc, options.slots);
  const int64_t size = static_cast<int64_t>(proto.ByteSizeLong());
  const bool too_large = size > options.inline_limit;
  ExternalTensors external = external_tensors(patched, too_large || (outside && (low || float32)));
  if (too_large)
    report.notes.push_back(cat("the model has ", with_thousands(size), " bytes: its tensors are in ", path, ".data"));
  write_checked(proto, external, doc, graph, options.keep_refused, path, report.notes);
  return report;
}

}  // namespace amp
