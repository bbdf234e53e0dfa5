#include "run/data/groups.h"

#include "base/error.h"
#include "base/text.h"
#include "data/sample_groups.h"
#include "run/data/data_kind.h"
#include "run/data/images.h"
#include "run/data/text_rows.h"
#include "run/spec/spec.h"

namespace amp {

std::unique_ptr<Dataset> with_groups(const RunSpec& spec, const std::string& path, std::unique_ptr<Dataset> data) {
  if (spec.evaluation.eval_group_by.empty()) return data;
  const DataKind kind = data_kind(spec.data, path);
  const bool table = kind == DataKind::images || kind == DataKind::features ||
                     (kind == DataKind::text && !spec.data.text.text_columns->empty());
  if (!table)
    fail(Exit::usage, "E_GROUPS",
         cat("`eval_group_by` ", printable(spec.evaluation.eval_group_by), " is a column of a table, '",
             printable(path), "' is none"),
         "give a .csv, .tsv or .jsonl file and `text_columns`, or leave it out");
  if (*spec.data.language.packing == "wrapped" || *spec.data.language.packing == "bfd")
    fail(Exit::usage, "E_GROUPS",
         cat("`packing` ", *spec.data.language.packing,
             " puts rows into one sequence, but `eval_group_by` needs separate rows"),
         "leave one of them out");
  const Table rows = kind == DataKind::images ? read_image_table(spec, path) : read_table(spec, path);
  auto groups = std::make_shared<SampleGroups>(
      group_samples(rows, spec.evaluation.eval_group_by, data->source_rows(), data->size()));
  return make_grouped(std::move(data), std::move(groups));
}

}  // namespace amp
