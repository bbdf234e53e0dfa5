#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "importer/evidence.h"

namespace amp {
namespace {

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

// "unsqueeze_14" -> "unsqueeze"
std::string without_number(const std::string& name) {
  const size_t bar = name.rfind('_');
  return bar != std::string::npos && all_digits(std::string_view(name).substr(bar + 1)) ? name.substr(0, bar) : name;
}

// Names of the tensors that exporters compute, after the operator that made them.
bool operator_name(const std::string& name) {
  static const std::set<std::string> stems = {"val",
                                              "arange",
                                              "unsqueeze",
                                              "squeeze",
                                              "_to_copy",
                                              "exp",
                                              "expand",
                                              "slice",
                                              "transpose",
                                              "view",
                                              "_unsafe_view",
                                              "reshape",
                                              "cat",
                                              "stack",
                                              "cos",
                                              "sin",
                                              "mul",
                                              "add",
                                              "sub",
                                              "rsub",
                                              "div",
                                              "pow",
                                              "neg",
                                              "clone",
                                              "permute",
                                              "zeros",
                                              "ones",
                                              "full",
                                              "select",
                                              "index",
                                              "const",
                                              "constant",
                                              "zeros_like",
                                              "ones_like",
                                              "linspace",
                                              "full_like",
                                              "where",
                                              "repeat",
                                              "copy",
                                              "lifted_tensor",
                                              "detach",
                                              "tril",
                                              "triu",
                                              "masked_fill",
                                              "reciprocal",
                                              "rsqrt",
                                              "sqrt",
                                              "log",
                                              "log2",
                                              "getitem",
                                              "float",
                                              "tensor",
                                              "scalar_tensor",
                                              "einsum",
                                              "matmul",
                                              "bmm",
                                              "eye",
                                              "_tensor_const",
                                              "scalar",
                                              "initializer",
                                              "scalar_tensor_default",
                                              "new_zeros",
                                              "new_ones",
                                              "new_full",
                                              "lift_fresh_copy",
                                              "meshgrid",
                                              "clamp",
                                              "clamp_min",
                                              "clamp_max",
                                              "minimum",
                                              "maximum",
                                              "softmax",
                                              "floor",
                                              "ceil",
                                              "round",
                                              "abs",
                                              "sum",
                                              "mean",
                                              "cumsum",
                                              "gather",
                                              "flip",
                                              "roll",
                                              "narrow",
                                              "index_select",
                                              "expand_as",
                                              "type_as",
                                              "alias",
                                              "convert_element_type_default",
                                              "sigmoid",
                                              "tanh",
                                              "softplus",
                                              "addmm",
                                              "linear",
                                              "unfold",
                                              "pad",
                                              "split",
                                              "chunk",
                                              "floor_divide",
                                              "remainder",
                                              "logical_not",
                                              "eq",
                                              "ne",
                                              "ge",
                                              "le",
                                              "gt",
                                              "lt"};
  return stems.count(lower(without_number(name))) != 0;
}

// Parts of names that PyTorch modules give to tensors which no optimizer sees.
constexpr std::array kBuffers = {"inv_freq",
                                 "running_mean",
                                 "running_var",
                                 "moving_mean",
                                 "moving_variance",
                                 "num_batches_tracked",
                                 "attn_mask",
                                 "causal_mask",
                                 "masked_bias",
                                 "relative_position_index",
                                 "relative_coords_table",
                                 "position_ids",
                                 "token_type_ids",
                                 "final_logits_bias",
                                 "sinusoid",
                                 "rotary",
                                 "cos_cached",
                                 "sin_cached",
                                 "freqs_cis",
                                 "alibi",
                                 "anchors",
                                 "timesteps",
                                 "alphas_cumprod",
                                 "num_buckets",
                                 "relative_coords",
                                 "pixel_mean",
                                 "pixel_std",
                                 "image_mean",
                                 "image_std",
                                 "coords_grid",
                                 "blur_filter",
                                 "fourier_basis",
                                 "window_function",
                                 "mel_filters",
                                 "div_term",
                                 "bins",
                                 "original_inv_freq"};
// As the whole last part.
constexpr std::array kBufferEnds = {"pe",      "mask",    "mean",   "std",    "cos",    "sin",
                                    "freqs",   "grid",    "coords", "bands",  "window", "slopes",
                                    "weights", "pos_enc", "coord",  "buffer", "basis"};
constexpr std::array kParameterEnds = {"weight",
                                       "bias",
                                       "gamma",
                                       "beta",
                                       "kernel",
                                       "scale",
                                       "a_log",
                                       "d",
                                       "dt_bias",
                                       "logit_scale",
                                       "logit_bias",
                                       "cls_token",
                                       "mask_token",
                                       "pos_embed",
                                       "position_embeddings",
                                       "class_embedding",
                                       "weight_g",
                                       "weight_v",
                                       "in_proj_weight",
                                       "in_proj_bias",
                                       "relative_position_bias_table",
                                       "temperature",
                                       "layer_scale",
                                       "alpha",
                                       "query",
                                       "queries",
                                       "probe",
                                       "w_0",
                                       "b_0",
                                       "embedding"};

template <class List>
bool holds(const List& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

Naming naming_of(const std::string& name) {
  if (name.rfind("onnx::", 0) == 0) return Naming::folded;
  if (all_digits(name) || name.find("Constant") != std::string::npos || name.find("const_") != std::string::npos)
    return Naming::made_up;
  const std::string stem = without_number(name);  // the output of a node that an optimizer computed
  if (stem.size() > 7 && stem.compare(stem.size() - 7, 7, "_output") == 0) return Naming::made_up;
  if (name.find('.') != std::string::npos && name[0] != '/') return Naming::module;
  if (name.find('/') != std::string::npos) return Naming::none;
  return operator_name(name) ? Naming::made_up : Naming::none;
}

std::optional<Evidence> usual_name(const std::string& name) {
  const std::string whole = lower(name);
  const size_t dot = whole.find_last_of("./");
  std::string last = without_number(dot == std::string::npos ? whole : whole.substr(dot + 1));
  if (const size_t colon = last.find(':'); colon != std::string::npos) last.erase(colon);
  for (const char* part : kBuffers) {
    if (whole.find(part) != std::string::npos) return Evidence{cat("buffers are called '", part, "'"), -7};
  }
  if (holds(kBufferEnds, last)) return Evidence{cat("buffers are called '", last, "'"), -5};
  const bool recurrent = last.rfind("weight_", 0) == 0 || last.rfind("bias_", 0) == 0;
  if (holds(kParameterEnds, last) || recurrent) return Evidence{cat("parameters are called '", last, "'"), 3};
  return {};
}

}  // namespace amp
