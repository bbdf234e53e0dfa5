// NHWC forms of operators: the table below has one row per operator. A form lists the inputs and outputs in NHWC and
// the converted attributes. A node without a form remains outside of regions.
#include <algorithm>
#include <map>
#include <string_view>

#include "backend/channels_last.h"
#include "ops/passes/channels_last.h"
#include "ops/passes/padding_flow.h"

namespace amp {

namespace {

constexpr size_t kRank = 4;
constexpr int64_t kAxis[kRank] = {0, 3, 1, 2};  // new position of each axis of (N, C, H, W)

struct NodeContext {
  const Graph& g;
  const Node& n;
  bool fp32;

  const Value& in(size_t i) const { return g.value(n.in[i]); }
  const Value& out(size_t i) const { return g.value(n.out[i]); }
  bool has(size_t i) const { return i < n.in.size() && n.in[i]; }
};
using Form = std::optional<ChannelsLastForm>;

// Returns the form in which all inputs and outputs of rank 4 are NHWC.
Form with(const NodeContext& a, Attrs attrs) {
  ChannelsLastForm f;
  for (const ValueId v : a.n.in) f.in.push_back(v && a.g.value(v).dims.size() == kRank);
  for (const ValueId v : a.n.out) f.out.push_back(v && a.g.value(v).dims.size() == kRank);
  f.attrs = std::move(attrs);
  return f;
}
Form marked(const NodeContext& a) {
  Attrs attrs = a.n.attrs;
  attrs.set(kChannelsLast, int64_t{1});
  if (attrs.has("dims")) attrs.set("dims", channels_last(attrs.ints("dims")));
  return with(a, std::move(attrs));
}

bool is_spatial(const Value& v) { return v.dims.size() == kRank && numel(v.dims) > 0; }

// Form of convolutions on tensor cores, whose operands have one type. Depthwise convolutions have no form, because they
// have only NCHW kernels.
Form convolution(const NodeContext& a) {
  const Value &x = a.in(0), &w = a.in(1), &y = a.out(0);
  const auto fits = [&](const Value& v) {
    return is_spatial(v) && (is_low(v.dtype) || (a.fp32 && v.dtype == DType::f32));
  };
  if (!fits(x) || !fits(w) || x.dtype != w.dtype || !is_spatial(y) || !is_float(y.dtype)) return {};
  const Dims& weight = a.n.op->name == "ConvGradW" ? y.dims : w.dims;
  if (a.n.attrs.i("group", 1) > 1 && weight[1] == 1) return {};
  Form f = marked(a);
  f->gains = true;
  return f;
}

Form of_window(const NodeContext& a) { return is_spatial(a.in(0)) && is_spatial(a.out(0)) ? marked(a) : Form{}; }
Form norm(const NodeContext& a) { return is_spatial(a.in(0)) ? marked(a) : Form{}; }

// Form of elementwise operators, with broadcasting.
Form elementwise(const NodeContext& a) {
  if (a.n.op->effect != Effect::pure || !is_spatial(a.out(0))) return {};
  // Casts of parameters are excluded, because the cast cache computes them (backend/param_cache.h).
  if (a.in(0).kind == ValueKind::param && a.n.op->name == "Cast") return {};
  Form f = with(a, a.n.attrs);
  for (size_t i = 0; i < a.n.in.size(); ++i) f->in[i] = a.has(i) && numel(a.in(i).dims) > 1;
  return f;
}

// Form of Dropout. The random bits of an element in NHWC are those of its position in NCHW.
Form dropout(const NodeContext& a) { return is_spatial(a.in(0)) ? marked(a) : Form{}; }

// Form of a Transpose of the model between NCHW and NHWC. In this form input and output are the same tensor.
Form transposition(const NodeContext& a) {
  if (!is_spatial(a.in(0))) return {};
  const std::vector<int64_t> perm = a.n.attrs.ints("perm");
  const bool to_last = perm == Dims{0, 2, 3, 1};
  if (!to_last && perm != Dims{0, 3, 1, 2}) return {};
  Form f = with(a, a.n.attrs);
  f->in[0] = to_last;
  f->out[0] = !to_last;
  f->same = true;
  return f;
}

Attrs moved_axis(const Attrs& attrs) {
  Attrs out = attrs;
  out.set("axis", kAxis[static_cast<size_t>(attrs.i("axis", 0))]);
  return out;
}
Form along_axis(const NodeContext& a) { return is_spatial(a.in(0)) ? with(a, moved_axis(a.n.attrs)) : Form{}; }

// Form of Slice, SliceGrad and Expand, whose attributes have one number per axis.
Form of_region(const NodeContext& a) {
  if (!is_spatial(a.out(0)) || !is_spatial(a.in(0))) return {};
  Attrs attrs = a.n.attrs;
  for (const char* name : {"starts", "steps", "dims", "full"}) {
    if (attrs.has(name)) attrs.set(name, channels_last(attrs.ints(name)));
  }
  return with(a, std::move(attrs));
}

// Form of reductions whose axes are adjacent in NHWC too, which ops/reduce.cc requires.
Form reduction(const NodeContext& a) {
  if (!is_spatial(a.in(0))) return {};
  const Dims dims = channels_last(a.in(0).dims);
  std::vector<int64_t> axes;
  for (const int64_t axis : a.n.attrs.ints("axes")) axes.push_back(kAxis[static_cast<size_t>(axis)]);
  std::sort(axes.begin(), axes.end());
  const auto gone = [&](size_t d) {
    return std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
  };
  for (size_t d = static_cast<size_t>(axes.front()); d < static_cast<size_t>(axes.back()); ++d) {
    if (!gone(d) && dims[d] != 1) return {};
  }
  Attrs attrs = a.n.attrs;
  attrs.set("axes", axes);
  // The remaining axes must keep their order. They do not if both channels and a spatial axis remain.
  const bool kept = attrs.i("keepdims", 1) != 0, channels = !gone(3), places = !gone(1) || !gone(2);
  if (!kept && channels && places) return {};
  Form f = with(a, std::move(attrs));
  f->out[0] = kept;
  return f;
}

const std::map<std::string_view, Form (*)(const NodeContext&)>& forms() {
  static const std::map<std::string_view, Form (*)(const NodeContext&)> table = {
      {"Conv", convolution},      {"ConvGradX", convolution},
      {"ConvGradW", convolution}, {"BatchNorm", norm},
      {"BatchNormTrain", norm},   {"BatchNormGrad", norm},
      {"MaxPool", of_window},     {"MaxPoolGrad", of_window},
      {"AveragePool", of_window}, {"AveragePoolGrad", of_window},
      {"Concat", along_axis},     {"Split", along_axis},
      {"AxisMap", along_axis},    {"Slice", of_region},
      {"SliceGrad", of_region},   {"Expand", of_region},
      {"ReduceSum", reduction},   {"ReduceMax", reduction},
      {"ReduceMin", reduction},   {"ReduceProd", reduction},
      {"Dropout", dropout},       {"Transpose", transposition}};
  return table;
}

}  // namespace

Form channels_last_form(const Graph& g, const Node& n, bool fp32) {
  const NodeContext a{g, n, fp32};
  const auto known = forms().find(n.op->name);
  if (known != forms().end()) return known->second(a);
  return is_elementwise(n) && n.op->name != "Reshape" ? elementwise(a) : Form{};
}

}  // namespace amp
