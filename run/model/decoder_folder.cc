// Reads the few entries of a folder's configuration that training needs. All other entries (sampling, sessions,
// providers) are about inference.
#include "run/model/decoder_folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json_nesting.h"
#include "base/text.h"
#include "run/spec/model.h"

namespace amp {

namespace {
namespace fs = std::filesystem;
using nlohmann::json;

// Returns the object in the file; null if there is no file, or discarded if it is not an object.
json read_object(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return nullptr;
  json read = parse_json(read_file(path.string()).text());
  return read.is_object() ? read : json(json::value_t::discarded);
}

int64_t number(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_integer() ? it->get<int64_t>() : -1;
}

std::string text(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

const json& object_in(const json& object, const char* key) {
  static const json none = json::object();
  const auto it = object.find(key);
  return it != object.end() && it->is_object() ? *it : none;
}

void refuse_parts(const std::string& folder, const json& model) {
  const json& decoder = object_in(model, "decoder");
  const auto pipeline = decoder.find("pipeline");
  if (pipeline != decoder.end() && pipeline->is_array() && !pipeline->empty())
    fail(Exit::usage, "E_RUN",
         cat("the decoder in '", printable(folder), "' is a pipeline of ", pipeline->size(),
             " models (genai_config.json); a decoder in one file can train"),
         "build the folder without splitting the model");
  if (!text(object_in(model, "embedding"), "filename").empty())
    fail(Exit::usage, "E_RUN",
         cat("the decoder in '", printable(folder), "' reads embeddings that another model computes (",
             printable(text(object_in(model, "embedding"), "filename")), " in genai_config.json)"),
         "name the decoder's .onnx file, and feed its inputs from a .safetensors file");
}

// Reads genai_config.json.
void read_genai(const std::string& folder, DecoderFolder& out) {
  const json config = read_object(fs::path(folder) / "genai_config.json");
  if (config.is_null()) return;
  if (config.is_discarded())
    fail(Exit::usage, "E_RUN", cat("'", printable(folder), "/genai_config.json' is not a JSON object"),
         "correct it, or name the model's .onnx file");
  const json& model = object_in(config, "model");
  refuse_parts(folder, model);
  const json& decoder = object_in(model, "decoder");
  out.file = text(decoder, "filename");
  out.head_size = number(decoder, "head_size");
  out.context = number(model, "context_length");
  for (const char* key : {"past_key_names", "past_value_names", "past_names"}) {
    if (std::string name = text(object_in(decoder, "inputs"), key); !name.empty()) out.past_names.push_back(name);
  }
}

// Reads the size of a head from config.json: `head_dim`, else the hidden size divided by the heads (n_embd, n_head in
// GPT-2).
int64_t head_size_of(const std::string& folder) {
  const json config = read_object(fs::path(folder) / "config.json");
  if (!config.is_object()) return -1;
  const json& nested = object_in(config, "text_config");
  const json& c = nested.empty() ? config : nested;
  if (const int64_t size = number(c, "head_dim"); size > 0) return size;
  for (const auto& [width, heads] : {std::pair("hidden_size", "num_attention_heads"), std::pair("n_embd", "n_head"),
                                     std::pair("d_model", "num_heads")}) {
    const int64_t w = number(c, width), h = number(c, heads);
    if (w > 0 && h > 0 && w % h == 0) return w / h;
  }
  return -1;
}

}  // namespace

std::string folder_of(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

DecoderFolder decoder_folder(const std::string& folder) {
  DecoderFolder out;
  read_genai(folder, out);
  if (out.head_size < 0) out.head_size = head_size_of(folder);
  return out;
}

int64_t context_length(const std::string& model_file) {
  try {
    return decoder_folder(folder_of(model_file)).context;
  } catch (const Error&) {  // the user named the model file, so an unreadable configuration beside it is ignored
    return -1;
  }
}

Imported import_fed(const std::string& path, const std::vector<std::string>& fed) {
  ImportOptions options;
  Imported m = import_model(path, options);
  options.past.empty = std::none_of(fed.begin(), fed.end(), [&](const std::string& name) {
    const int v = m.graph.find(name);
    return v >= 0 && m.graph.value(v).kind == SourceKind::constant;
  });
  return options.past.empty ? std::move(m) : import_model(path, options);
}

PastOptions past_options(const ModelSpec& model, const std::string& path) {
  PastOptions out;
  out.empty = model.past == "empty";
  if (!out.empty) return out;
  try {
    const DecoderFolder config = decoder_folder(folder_of(path));
    out.head_size = config.head_size;
    out.names = config.past_names;
  } catch (const Error& e) {
    // The user named the model file, so an unreadable configuration beside it is ignored.
    if (e.exit() != Exit::usage) throw;
  }
  return out;
}

}  // namespace amp
