#include <numeric>

#include "base/error.h"
#include "base/utf8.h"
#include "data/table_builder.h"
#include "data/text_dataset.h"
#include "run/data/tokenize.h"
#include "run/spec/spec.h"
#include "run/steps/step_session.h"

namespace amp {

Tensors StepSession::encode(std::span<const std::string_view> texts, std::span<const std::string_view> pairs) {
  if (texts.empty() || (!pairs.empty() && pairs.size() != texts.size()))
    fail(Exit::usage, "E_USAGE", cat(texts.size(), " texts and ", pairs.size(), " second texts"),
         "give at least one text, and as many second texts as texts, or none");
  const RunSpec& spec = fed_.run->spec;
  if (!tokenizer_) {
    tokenizer_ = tokenizer_of(spec);
    check_vocabulary(spec, fed_.run->graph(), fed_.needs.inputs, fed_.run->host.log);
  }
  TextOptions options;
  options.text_columns = {"text"};
  if (!pairs.empty()) options.text_columns.emplace_back("pair");
  options.max_seq_len = *spec.data.text.max_seq_len;
  options.pad_to_multiple = spec.data.text.pad_to_multiple;
  std::vector<InputSpec> specs = inputs();
  options.fixed_seq_len = fixed_length(specs);
  TableBuilder rows("the fed texts");
  rows.columns() = options.text_columns;
  for (size_t i = 0; i < texts.size(); ++i) {
    rows.begin_row(static_cast<int64_t>(i) + 1);
    for (const std::span<const std::string_view> column : {texts, pairs}) {
      if (column.empty()) continue;
      check_utf8_file(column[i], cat("text ", i));
      rows.add_text(column[i]);
    }
  }
  const std::unique_ptr<Dataset> data = make_text_dataset(rows.finish(), *tokenizer_, std::move(specs), options);
  std::vector<int64_t> samples(texts.size());
  std::iota(samples.begin(), samples.end(), 0);
  return data->batch(samples).inputs;
}

}  // namespace amp
