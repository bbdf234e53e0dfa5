// Converts both formats to A [in, r] and B [r, out] in fp32. In files of onnxruntime, B includes the factor alpha / r,
// so alpha is set to r.
#include "importer/adapter/adapter_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"
#include "importer/adapter/matrices.h"
#include "importer/adapter/onnx_adapter.h"
#include "importer/adapter/slots.h"
#include "importer/surgery/low_rank.h"

namespace amp {
namespace {

void require_finite(const HostTensor& t, const std::string& module) {
  if (!t) return;
  for (int64_t i = 0; i < t.numel(); ++i) {
    if (!std::isfinite(t.as<float>()[i]))
      fail(Exit::data, "E_ADAPTER_FIT",
           cat("the adapter's module '", printable(module),
               "' holds values that are not "
               "finite"),
           "the training that wrote it diverged");
  }
}

// Returns the PEFT folder or .onnx_adapter file that a path names; empty if there is none.
std::string resolved(const std::string& path) {
  if (is_peft_folder(path)) return path;
  if (!is_dir(path))
    return path.ends_with("adapter_model.safetensors") || path.ends_with("adapter_config.json")
               ? resolved(std::filesystem::path(path).parent_path().string())
               : path;
  if (path_exists(path + "/model.onnx_adapter")) return path + "/model.onnx_adapter";
  if (is_peft_folder(path + "/peft")) return path + "/peft";
  std::vector<std::string> found;
  for (const std::string& name : list_dir(path)) {
    if (name.ends_with(".onnx_adapter")) found.push_back(path + "/" + name);
  }
  return found.size() == 1 ? found[0] : std::string();
}

std::string require_adapter(const std::string& path) {
  const std::string found = resolved(path);
  if (found.empty() || !path_exists(found))
    fail(Exit::usage, "E_ADAPTER_PATH",
         cat("'", printable(path), found.empty() ? "' holds no adapter, or several" : "' does not exist"),
         "name an .onnx_adapter file, or a folder with adapter_config.json and adapter_model.safetensors");
  return found;
}

LoadedAdapter from_peft(const std::string& folder) {
  PeftAdapter file = read_peft_folder(folder);
  LoadedAdapter out;
  out.rslora = file.rslora;
  out.dora = file.dora;
  for (const PeftModule& m : file.modules) {
    const HostTensor magnitude =
        m.magnitude ? m.magnitude.cast(DType::f32).reshaped({m.magnitude.numel()}) : HostTensor();
    out.modules.push_back(
        {m.name, transposed_matrix(m.a.cast(DType::f32)), transposed_matrix(m.b.cast(DType::f32)), magnitude, m.alpha});
  }
  out.base_sum = file.base_sum;
  out.peft = std::move(file);
  return out;
}

[[noreturn]] void refuse_pairs(const std::string& fact) {
  fail(Exit::data, "E_ADAPTER_FIT", fact,
       "an adapter holds pairs of tensors, 'MODULE.lora_A.MatMul.weight' [in, r] and 'MODULE.lora_B.MatMul.weight' [r, "
       "out]");
}

// Returns the rank without trailing columns of A and rows of B that are both zero. Such columns and rows are padding,
// which gets no gradient.
int64_t used_rank(const HostTensor& a, const HostTensor& b) {
  const int64_t in = a.dims()[0], rank = a.dims()[1], out = b.dims()[1];
  if (in == 0 || out == 0) return 0;  // then A or B has no elements, and a file may give any number as the rank
  const auto zero = [&](int64_t k) {
    for (int64_t i = 0; i < in; ++i) {
      if (a.as<float>()[i * rank + k] != 0) return false;
    }
    const float* const row = b.as<float>() + k * out;
    return std::all_of(row, row + out, [](float x) { return x == 0; });
  };
  int64_t used = rank;
  while (used > 0 && zero(used - 1)) --used;
  return used;
}

LoadedAdapter from_onnx_adapter(const std::string& path) {
  struct Pair {
    HostTensor a, b;
  };
  std::map<std::string, Pair> pairs;
  std::vector<std::string> order;
  const OnnxAdapter file = read_onnx_adapter(path);
  for (const NamedTensor& p : file.parameters) {
    const size_t a = p.name.rfind(".lora_A"), b = p.name.rfind(".lora_B");
    const size_t at = std::min(a, b);
    if (at == std::string::npos || at == 0)
      refuse_pairs(cat("tensor '", printable(p.name), "' is not lora_A or lora_B"));
    if (p.tensor.rank() != 2)
      refuse_pairs(cat("tensor '", printable(p.name), "' has the shape ", to_string(p.tensor.dims())));
    const std::string module = p.name.substr(0, at);
    if (!pairs.count(module)) order.push_back(module);
    HostTensor& mine = at == a ? pairs[module].a : pairs[module].b;
    if (mine)
      refuse_pairs(cat("the adapter's module '", printable(module), "' has two tensors lora_", at == a ? "A" : "B"));
    mine = p.tensor.cast(DType::f32);
  }
  LoadedAdapter out;
  out.scaled = true;
  if (is_base_checksum(file.model_version)) out.base_sum = file.model_version;
  for (const std::string& module : order) {
    const Pair& p = pairs.at(module);
    const std::string name = cat("the adapter's module '", printable(module), "'");
    if (!p.a || !p.b) refuse_pairs(cat(name, " has no lora_", p.a ? "B" : "A"));
    if (p.a.dims()[1] != p.b.dims()[0])
      refuse_pairs(cat(name, ": lora_A ", to_string(p.a.dims()), " has rank ", p.a.dims()[1], ", lora_B ",
                       to_string(p.b.dims()), " has rank ", p.b.dims()[0]));
    const int64_t rank = used_rank(p.a, p.b);
    if (rank == 0) continue;  // an empty slot
    out.modules.push_back({module,
                           matrix_block(p.a, 0, p.a.dims()[0], 0, rank),
                           matrix_block(p.b, 0, rank, 0, p.b.dims()[1]),
                           {},
                           static_cast<double>(rank)});
  }
  if (out.modules.empty()) refuse_pairs("the adapter holds no values");
  return out;
}

}  // namespace

LoadedAdapter read_adapter(const std::string& path) {
  const std::string found = require_adapter(path);
  try {
    LoadedAdapter out = is_dir(found) ? from_peft(found) : from_onnx_adapter(found);
    for (const LoadedModule& m : out.modules) {
      for (const HostTensor* t : {&m.a, &m.b, &m.magnitude}) require_finite(*t, m.name);
    }
    return out;
  } catch (Error& e) {
    if (e.id() != "E_ADAPTER_FIT") throw;
    throw e.at(cat("in '", printable(found), "'"));
  }
}

std::vector<std::string> adapter_files(const std::string& path) {
  const std::string found = require_adapter(path);
  if (!is_dir(found)) return {found};
  return {found + "/adapter_config.json", found + "/adapter_model.safetensors"};
}

}  // namespace amp
