// ai.onnx.ml preprocessing of tables, as exported from scikit-learn pipelines: Scaler, Normalizer, Imputer, Binarizer
// and FeatureVectorizer (ai.onnx.ml 1). Their parameters are attributes of the node and are not trained. Gradients
// pass to the inputs.
#include <cmath>

#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"

namespace amp {
namespace {

ValueId floating(const Lowering& l, size_t i) { return l.b.cast(l.in(i), l.float_type()); }

// Returns v as a constant that has one number for all columns or one number per column.
ValueId columns(const Lowering& l, const std::string& name, const std::vector<double>& v) {
  const int64_t n = static_cast<int64_t>(v.size()), have = l.rank(0) ? l.dims(0).back() : 1;
  if (n != 1 && n != have)
    fail(Exit::model, "E_ATTR", cat(l.node.op, ": ", name, " has ", n, " numbers for ", have, " columns"));
  return l.b.constant(HostTensor::of<double>(n == 1 ? Dims{} : Dims{n}, v).cast(l.float_type()));
}

void lower_scaler(Lowering& l) {
  ValueId x = floating(l, 0);
  if (const auto offset = l.attrs.floats("offset"); !offset.empty()) x = sub(l.b, x, columns(l, "offset", offset));
  if (const auto scale = l.attrs.floats("scale"); !scale.empty()) x = mul(l.b, x, columns(l, "scale", scale));
  l.out(0, x);
}

// Lowers Normalizer: divides rows by their norm; rows with norm 0 are unchanged.
void lower_normalizer(Lowering& l) {
  Builder& b = l.b;
  const std::string norm = l.attrs.s("norm", "MAX");
  const ValueId x = floating(l, 0);
  const int64_t last = l.rank(0) - 1;
  const Attrs rows{{"axes", std::vector<int64_t>{last}}, {"keepdims", int64_t{1}}};
  ValueId n;
  if (norm == "MAX")
    n = b.op("ReduceMax", {x}, rows);  // onnxruntime takes the maximum of the signed numbers
  else if (norm == "L1")
    n = b.op("ReduceSum", {b.op("Abs", {x})}, rows);
  else if (norm == "L2")
    n = b.op("Sqrt", {b.op("ReduceSum", {mul(b, x, x)}, rows)});
  else
    l.unsupported("norm '" + norm + "'");
  const DType f = l.float_type();
  l.out(0, div(b, x, b.op("Where", {b.op("Equal", {n, b.scalar(0, f)}), b.scalar(1, f), n})));
}

// Lowers Imputer: replaces missing values, which are marked by a given number or by NaN.
void lower_imputer(Lowering& l) {
  Builder& b = l.b;
  const bool real = is_float(b.dtype(l.in(0)));
  const std::vector<double> floats = l.attrs.floats("imputed_value_floats");
  std::vector<int64_t> ints = l.attrs.ints("imputed_value_int64s");
  const double missing =
      real ? l.attrs.f("replaced_value_float", 0) : static_cast<double>(l.attrs.i("replaced_value_int64", 0));
  const ValueId x = l.in(0);
  const ValueId hit = std::isnan(missing) ? b.op("IsNaN", {x}) : b.op("Equal", {x, b.scalar(missing, b.dtype(x))});
  const ValueId fill = columns(l, "imputed_value", real ? floats : std::vector<double>(ints.begin(), ints.end()));
  l.out(0, b.op("Where", {hit, b.cast(fill, b.dtype(x)), x}));
}

void lower_binarizer(Lowering& l) {
  const ValueId x = floating(l, 0);
  l.out(0, l.b.cast(l.b.op("Greater", {x, l.b.scalar(l.attrs.f("threshold", 0), l.float_type())}), l.b.dtype(l.in(0))));
}

void lower_vectorizer(Lowering& l) {
  std::vector<ValueId> parts;
  for (size_t i = 0; i < l.n_in(); ++i) {
    const Dims d = l.dims(i);
    const ValueId x = floating(l, i);
    parts.push_back(l.b.reshape(x, {d.empty() ? 1 : d[0], d.empty() || d[0] == 0 ? 1 : numel(d) / d[0]}));
  }
  if (parts.empty()) fail(Exit::model, "E_ATTR", "FeatureVectorizer of nothing");
  l.out(0, parts.size() == 1 ? parts[0] : concat(l.b, parts, 1));
}

const char* const ml = "ai.onnx.ml";
const RegisterOnnx tabular_onnx[] = {
    RegisterOnnx{{"Scaler", lower_scaler, 1, ml}}, RegisterOnnx{{"Normalizer", lower_normalizer, 1, ml}},
    RegisterOnnx{{"Imputer", lower_imputer, 1, ml}}, RegisterOnnx{{"Binarizer", lower_binarizer, 1, ml}},
    RegisterOnnx{{"FeatureVectorizer", lower_vectorizer, 1, ml}}};

}  // namespace
}  // namespace amp
