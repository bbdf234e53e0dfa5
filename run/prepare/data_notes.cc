#include "run/prepare/data_notes.h"

#include "run/model/model_metadata.h"
#include "run/spec/spec.h"

namespace amp {

void note_batch_norms(const RunSpec& spec, const SourceGraph& graph, const TrainData& data, const Log& log) {
  if (*spec.model.batchnorm != "train") return;
  bool norms = false, rows_only = false;  // rows_only: statistics are computed over rows only, not also over positions
  for (const SourceNode& n : graph.nodes) {
    if (n.op != "BatchNormalization" || n.inputs.empty() || n.inputs[0] < 0) continue;
    const SourceValue& x = graph.value(n.inputs[0]);
    norms = true;
    rows_only = rows_only || (x.rank_known && x.dims.size() == 2);
  }
  if (!norms && spec.model.batchnorm.asked())
    log.note(
        "`batchnorm` train has no effect, because the model has no BatchNorm: exporters merge it with the layer before "
        "it, unless they export the model in training form (torch.onnx.export: training=TrainingMode.PRESERVE, and "
        "do_constant_folding=False)");
  if (spec.data.text.in_tokens || spec.distribution.sync_bn) return;
  const int64_t size = spec.schedule.batch_size, last = data.train->size() % size;
  if (norms && size == 1) {
    log.note(
        "`batchnorm` train computes the statistics of one sample (`batch_size` 1): give a larger `batch_size`, or "
        "`batchnorm` freeze");
  } else if (rows_only && last == 1 && spec.distribution.ranks == 1) {
    log.note(cat("the last micro-batch of an epoch has one sample (", data.train->size(), " by `batch_size` ", size,
                 "), whose batch statistics are its own values: another `batch_size` avoids it"));
  }
}

void note_scaled_numbers(const RunSpec& spec, const Imported& model, const Features& features, const Log& log) {
  // True if this program made the model.
  const bool own = never_trained(*model.doc) || !recorded(*model.doc).losses.empty();
  if (own || spec.data.tables.feature_scaling == "none" || features.numbers.empty()) return;
  log.note(cat("numbers are scaled for training (`feature_scaling` ", spec.data.tables.feature_scaling,
               "): if another program trained the model on unscaled numbers, give `feature_scaling` none"));
}

}  // namespace amp
