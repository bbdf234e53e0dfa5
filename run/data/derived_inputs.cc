// Computes an attention mask and positions for tensor files that lack them. For texts, data/text_dataset.h makes them.
#include "run/data/derived_inputs.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/text.h"
#include "data/text_dataset.h"

namespace amp {

namespace {

// Returns the positions of the tokens that a mask (batch, length) does not hide.
HostTensor positions_of(const HostTensor& mask) {
  HostTensor out = HostTensor::zeros(DType::i64, mask.dims());
  const std::vector<double> visible = mask.to_doubles();
  const int64_t length = mask.dims()[1];
  for (int64_t at = 0, next = 0; at < mask.numel(); ++at) {
    if (at % length == 0) next = 0;
    out.as_mutable<int64_t>()[at] = visible[static_cast<size_t>(at)] != 0 ? next++ : 1;
  }
  return out;
}

// Returns a row (from 0) of a mask (batch, length) that hides its first token and shows another; -1 if there is none.
int64_t left_padded_row(const HostTensor& mask) {
  const std::vector<double> visible = mask.to_doubles();
  const auto length = static_cast<std::ptrdiff_t>(mask.dims()[1]);
  for (int64_t row = 0; row < mask.dims()[0]; ++row) {
    const auto first = visible.begin() + row * length, last = first + length;
    if (length > 0 && *first == 0 && std::any_of(first, last, [](double v) { return v != 0; })) return row;
  }
  return -1;
}

}  // namespace

std::map<std::string, HostTensor> derived_inputs(const SourceGraph& g, const std::map<std::string, HostTensor>& fed,
                                                 const Log& log) {
  HostTensor ids, mask;
  for (const auto& [name, t] : fed) {
    if (t.rank() != 2 || g.find(name) < 0) continue;
    if (text_role(name) == TextRole::ids) ids = t;
    if (text_role(name) == TextRole::mask) mask = t;
  }
  std::map<std::string, HostTensor> out;
  if (!ids && !mask) return out;
  if (!mask) mask = HostTensor::of<int64_t>(ids.dims(), std::vector<int64_t>(static_cast<size_t>(ids.numel()), 1));
  for (const int v : g.inputs) {
    const SourceValue& x = g.value(v);
    const std::optional<TextRole> role = text_role(x.name);
    if (fed.count(x.name) || x.data || (x.rank_known && x.dims.size() != 2) || is_float(x.dtype)) continue;
    if (role != TextRole::mask && role != TextRole::positions) continue;
    out[x.name] = (role == TextRole::mask ? mask : positions_of(mask)).cast(x.dtype);
    log.note(cat("input '", printable(x.name), "' is not in the file: it is made of ",
                 role == TextRole::mask ? "the shape of the token ids (no padding)" : "the attention mask"));
  }
  return out;
}

void warn_left_padding(const SourceGraph& g, const std::map<std::string, HostTensor>& fed, const Log& log) {
  const bool by_length = std::any_of(g.nodes.begin(), g.nodes.end(), [](const SourceNode& n) {
    return n.op == "GroupQueryAttention" || n.op == "SparseAttention";
  });
  if (!by_length) return;
  for (const auto& [name, mask] : fed) {
    if (mask.rank() != 2 || g.find(name) < 0 || text_role(name) != TextRole::mask) continue;
    const int64_t row = left_padded_row(mask);
    if (row < 0) continue;
    log.warning(cat("W_LEFT_PADDING: row ", row, " of '", printable(name),
                    "' hides its first tokens, and the model's attention reads only the number of visible tokens: the "
                    "result is wrong, as in onnxruntime; put the padding after the tokens"));
  }
}

}  // namespace amp
