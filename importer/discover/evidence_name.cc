// Evidence from names. The tables list name stems of operators (PyTorch's exporters name results after them), words in
// names of buffers, and names of parameters in PyTorch, TensorFlow and PaddlePaddle. docs/weights.md shows the weights.
#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "importer/discover/evidence.h"

namespace amp {
namespace {

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

// Removes a number at the end: "unsqueeze_14" becomes "unsqueeze".
std::string without_number(const std::string& name) {
  const size_t bar = name.rfind('_');
  return bar != std::string::npos && all_digits(std::string_view(name).substr(bar + 1)) ? name.substr(0, bar) : name;
}

// True if the name is an operator's name, with or without a number: exporters name computed tensors after operators.
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

// Words in the last component of a buffer's name. Other components are not searched: a module may be named after its
// result ("adaptive_bins_layer.conv.weight").
constexpr std::array kBufferWords = {"inv_freq",
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
                                     "cos_cached",
                                     "sin_cached",
                                     "cos_cache",
                                     "sin_cache",
                                     "freqs_cis",
                                     "alphas_cumprod",
                                     "relative_coords",
                                     "pixel_mean",
                                     "pixel_std",
                                     "image_mean",
                                     "image_std",
                                     "coords_grid",
                                     "anchor_grid",
                                     "blur_filter",
                                     "fourier_basis",
                                     "basis_buffer",
                                     "window_function",
                                     "mel_filters",
                                     "filter_bank",
                                     "filterbank",
                                     "mel_basis",
                                     "melscale",
                                     "dct_matrix",
                                     "projection_matrix",
                                     "random_matrix",
                                     "random_features",
                                     "laplacian",
                                     "adjacency",
                                     "ema_w",
                                     "cluster_size",
                                     "embed_avg",
                                     "div_term",
                                     "original_inv_freq",
                                     "buffer",
                                     "cached",
                                     "avg",
                                     "ema"};
// Buffers' names that must match the whole last component.
constexpr std::array kBufferEnds = {
    "pe",        "mask",        "mean",       "std",    "var",       "variance",    "cos",     "sin",     "freqs",
    "grid",      "coords",      "bands",      "window", "slopes",    "weights",     "pos_enc", "coord",   "basis",
    "bins",      "anchors",     "rotary",     "alibi",  "timesteps", "num_buckets", "adj",     "filt",    "fb",
    "mean_",     "std_",        "scale_",     "var_",   "priors",    "strides",     "stride",  "min_val", "max_val",
    "data_mean", "data_std",    "mu_",        "sigma_", "x_mean",    "x_std",       "y_mean",  "y_std",   "centroids",
    "a_hat",     "edge_weight", "zero_point", "zeros",  "ones"};
constexpr std::array kParameterEnds = {"weight",
                                       "bias",
                                       "gamma",
                                       "beta",
                                       "kernel",
                                       "recurrent_kernel",
                                       "scale",
                                       "a_log",
                                       "d",
                                       "dt_bias",
                                       "logit_scale",
                                       "logit_bias",
                                       "cls_token",
                                       "class_token",
                                       "dist_token",
                                       "mask_token",
                                       "pos_embed",
                                       "pos_embedding",
                                       "positional_embedding",
                                       "position_embedding",
                                       "position_embeddings",
                                       "class_embedding",
                                       "weight_orig",
                                       "weight_g",
                                       "weight_v",
                                       "original0",
                                       "original1",
                                       "original",
                                       "in_proj_weight",
                                       "in_proj_bias",
                                       "relative_position_bias_table",
                                       "temperature",
                                       "time_decay",
                                       "time_first",
                                       "layer_scale",
                                       "alpha",
                                       "query",
                                       "queries",
                                       "latents",
                                       "text_projection",
                                       "probe",
                                       "w_0",
                                       "b_0",
                                       "w",
                                       "b",
                                       "w1",
                                       "w2",
                                       "w3",
                                       "b1",
                                       "b2",
                                       "embedding",
                                       "embeddings",
                                       "lora_a",
                                       "lora_b"};

template <class List>
bool holds(const List& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Returns the components of a dotted or slashed name, in lower case.
std::vector<std::string> components(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : lower(name)) {
    if (c == '.' || c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// True if an exporter's name for its own tensors precedes the number: "helper.constant.3", "auto.cast.1". For an
// element of a ParameterList ("scales.3"), the name of the list precedes the number.
bool counted(const std::string& name) {
  static const std::set<std::string> words = {"cast", "helper", "auto", "tmp", "temp", "fill", "node", "literal"};
  const std::vector<std::string> parts = components(name);
  if (parts.size() < 2 || !all_digits(parts.back())) return false;
  const std::string& before = parts[parts.size() - 2];
  return operator_name(before) || words.count(before) != 0;
}

// True if `text` contains `word`, delimited by underscores or by the ends of `text`.
bool holds_word(const std::string& text, const std::string& word) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || text[at - 1] == '_') && (end == text.size() || text[end] == '_')) return true;
  }
  return false;
}

}  // namespace

Naming naming_of(const std::string& name) {
  if (name.rfind("onnx::", 0) == 0) return Naming::folded;
  // TensorFlow reads every variable by a ReadVariableOp node, and tf2onnx names the tensor after that node.
  if (name.find("ReadVariableOp") != std::string::npos) return Naming::module;
  if (all_digits(name) || name.find("Constant") != std::string::npos || name.find("const_") != std::string::npos)
    return Naming::made_up;
  if (name.rfind("arith.constant", 0) == 0 || name.rfind("tfl.pseudo", 0) == 0) return Naming::made_up;  // TFLite
  const std::string stem = without_number(name);  // NODE_output_0: result of a node that an optimizer evaluated
  if (stem.size() > 7 && stem.compare(stem.size() - 7, 7, "_output") == 0) return Naming::made_up;
  if (name.find('.') != std::string::npos && name[0] != '/') return counted(name) ? Naming::made_up : Naming::module;
  if (name.find('/') != std::string::npos) return Naming::none;
  return operator_name(name) ? Naming::made_up : Naming::none;
}

std::string last_component(const std::string& name) {
  std::vector<std::string> parts = components(name);
  while (parts.size() > 1 && all_digits(parts.back())) parts.pop_back();  // index in a ParameterList
  std::string last = parts.back();
  if (const size_t colon = last.find(':'); colon != std::string::npos) last.erase(colon);
  return last;
}

std::optional<Evidence> usual_name(const std::string& name) {
  const std::string whole = last_component(name), last = holds(kParameterEnds, whole) ? whole : without_number(whole);
  if (name.find("ReadVariableOp") != std::string::npos) return Evidence{"a variable of TensorFlow", 3};
  for (const char* part : kBufferWords) {
    if (holds_word(last, part)) return Evidence{cat("buffers are called '", part, "'"), -7};
  }
  const std::string bare = last.substr(0, last.find_last_not_of('_') + 1);  // without the underscore of "window_"
  const bool constant = last.size() > 6 && last.compare(last.size() - 6, 6, "_const") == 0;
  if (holds(kBufferEnds, last) || constant || (bare != last && holds(kBufferEnds, bare)))
    return Evidence{cat("buffers are called '", last, "'"), -5};
  // "a_log" counts more than other names, because its initial values, the logarithms of 1, 2, ..., look like a
  // constant.
  if (last == "a_log") return Evidence{"parameters are called 'a_log'", 5};
  const bool recurrent = last.rfind("weight_", 0) == 0 || last.rfind("bias_", 0) == 0;
  if (holds(kParameterEnds, last) || recurrent) return Evidence{cat("parameters are called '", last, "'"), 3};
  return {};
}

}  // namespace amp
