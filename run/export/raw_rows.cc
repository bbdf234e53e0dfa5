#include "run/export/raw_rows.h"

#include "base/error.h"
#include "importer/surgery/edit.h"
#include "run/data/data.h"
#include "run/data/features.h"
#include "run/model/model_metadata.h"
#include "run/prepare/losses.h"
#include "run/spec/spec.h"

namespace amp {

RawRows raw_rows_of(const Imported& model, const Log& log) {
  const ModelRecord record = recorded(*model.doc);
  Features features = *recorded_features(record);
  RawRows out;
  for (const CategoryMap& c : features.categories) out.columns.push_back({c.column, true, c.values});
  for (const NumberMap& n : features.numbers) {
    if (n.scaling == Scaling::quantiles)
      fail(Exit::unsupported, "E_RAW_ROWS",
           cat("column '", n.column, "' is scaled to quantiles, which no ONNX node does"),
           "train with `feature_scaling` standard");
    out.columns.push_back({n.column, false, {}, n.fill, n.mean, n.scale});
  }
  const SourceGraph& g = model.graph;
  const auto inputs = assign_features(features, input_specs(g, needed_inputs(g, g.outputs)), false);
  for (const FeatureInput& f : inputs) {
    if (f.label) continue;
    RawInput& in = out.inputs.emplace_back();
    in.name = f.input.name;
    for (const FeatureRef& r : f.features) {
      const size_t before = r.kind == FeatureRef::Kind::code ? 0 : features.categories.size();
      in.features.push_back({before + r.index, r.kind == FeatureRef::Kind::indicator});
    }
  }
  RunSpec spec;
  spec.objective.loss = RunSpec::Texts{"mse"};
  for (const LossSpec& s : record.losses) {
    if (!s.outputs.empty()) spec.model.output = s.outputs[0];
  }
  out.output = choose_losses(spec.model, spec.objective, g).parts.at(0).outputs.at(0);
  const TargetTransform& t = features.target_transform;
  out.form = t.form == TargetForm::log        ? RawOutput::exp
             : t.form == TargetForm::log1p    ? RawOutput::expm1
             : t.form == TargetForm::standard ? RawOutput::affine
                                              : RawOutput::plain;
  out.mean = t.mean;
  out.scale = t.scale;
  std::string names;
  for (const RawColumn& c : out.columns)
    names += cat(names.empty() ? "" : ", ", c.name, c.category ? " (text)" : " (double)");
  log.info(cat("the file takes raw rows, an input (rows, 1) for each of: ", names));
  return out;
}

}  // namespace amp
