// Opens data files as datasets. The kind of data selects the reader, the task selects how labels are read. A new kind
// of data needs a case in data_kind() (images.cc), text_task(), read_labels() and open_dataset(). Token ids are checked
// against the rows of the embedding tables here, so that a wrong vocabulary fails before training.

#include "run/data/data.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "base/npz.h"
#include "base/text.h"
#include "data/label_columns.h"
#include "data/labels.h"
#include "data/subset.h"
#include "data/tensor_dataset.h"
#include "data/text_dataset.h"
#include "importer/surgery/edit.h"
#include "run/data/bad_rows.h"
#include "run/data/derived_inputs.h"
#include "run/data/features.h"
#include "run/data/images.h"
#include "run/data/language_data.h"
#include "run/data/token_tables.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"
#include "trainer/losses/loss.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

static const char* const kNoLabel =
    "name the label's column with `label_column`, by its number from 0 where the file has no header; a word and its "
    "tag a line: `task` token; a language model's texts: `task` language, or `loss` masked_lm; source and target "
    "texts: `task` seq2seq";

Task text_task(const RunSpec& spec) {
  if (is_language_model(spec)) return language_task(spec);

  const bool images = data_kind(spec.data, spec.data.train) == DataKind::images;
  if (images && !spec.data.images.train_masks.empty()) return Task::segmentation;
  if (!images && names_tagged_words(spec.data.train)) return Task::token;
  const Table table = images ? read_image_table(spec, spec.data.train) : read_table(spec, spec.data.train);
  if (!images && spec.data.text.text_columns->empty() && table.has_column("paragraphs"))
    return Task::span;  // SQuAD's JSON
  if (!images && !spec.data.label_column.asked()) table.column(*spec.data.label_column, kNoLabel);
  if (!joined_labels(table, *spec.data.label_column).empty()) return Task::multilabel;
  return is_regression_column(table, *spec.data.label_column) ? Task::regression : Task::classification;
}

DataLabels read_labels(const RunSpec& spec, const std::string& path, Task task, bool training) {
  if (!has_named_classes(task)) return {};
  const TaskRule& rule = task_rule(task);
  if (rule.text == TextForm::tagged_words) {
    const std::vector<TaggedText> texts = read_text_rows(spec, path, task).tagged;
    return {training ? find_tags(texts, path) : distinct_tags(texts)};
  }
  const bool images = data_kind(spec.data, path) == DataKind::images;
  if (images && rule.has_masks()) return {};  // pixel values are the class ids
  if (images && rule.has_classes()) {
    if (std::vector<std::string> numbered = numbered_image_classes(spec.data, path); !numbered.empty())
      return {std::move(numbered), true};
  }
  Table table = images ? read_image_table(spec, path) : read_table(spec, path);
  skip_bad_labels(spec, task, table);
  if (rule.labels == LabelForm::sets) {
    std::vector<std::string> names = find_names(label_sets(table, *spec.data.label_column));
    std::vector<std::string> columns = joined_labels(table, *spec.data.label_column);
    return columns.empty() ? DataLabels{std::move(names)} : DataLabels{std::move(columns), true};
  }
  if (!rule.has_classes()) {
    fail(Exit::usage, "E_TASK", cat("`task` ", name_of(task), " cannot read its labels from a text table"),
         "give tensors: a .safetensors or .npz file with the inputs and 'label'");
  }
  return {training ? find_classes(table, *spec.data.label_column) : distinct_labels(table, *spec.data.label_column)};
}

namespace {

// Fails if a token id is not smaller than the number of rows of the table that it indexes.
void check_tokens(const Dataset& data, const SourceGraph& graph, const DataNeeds& needs) {
  for (const int v : needs.inputs) {
    if (const int64_t rows = token_table_rows(graph, v))
      data.check_token_range(graph.values[static_cast<size_t>(v)].name, rows);
  }
}

std::string require_tokenizer(const RunSpec& spec) {
  const std::string files = tokenizer_path(spec);
  if (files.empty())
    fail(Exit::usage, "E_USAGE", "text data needs `tokenizer` FILE (or `vocab` vocab.txt)",
         "it is the tokenizer.json or vocabulary of the model, or the folder that holds it");
  return files;
}

TextOptions text_options(const DataSpec& data, const std::vector<InputSpec>& specs, const DataNeeds& needs) {
  TextOptions t;
  t.text_columns = *data.text.text_columns;
  const TaskRule& rule = task_rule(needs.task);
  const bool own = rule.writes_text();  // true if the labels are token ids of the text itself
  if (needs.labeled && !own && (!needs.sides || !needs.labels.empty())) t.label_column = *data.label_column;
  t.sides = needs.sides;
  t.labels = rule.has_masks() ? LabelForm::classes : rule.labels.value_or(LabelForm::classes);
  t.classes = needs.classes;
  t.max_seq_len = *data.text.max_seq_len;
  t.pad_to_multiple = data.text.pad_to_multiple;
  t.fixed_seq_len = fixed_length(specs);
  return t;
}

}  // namespace

std::unique_ptr<Dataset> open_text_dataset(const RunSpec& spec, const TextRows& rows, const SourceGraph& graph,
                                           const DataNeeds& needs) {
  const std::vector<InputSpec> specs = input_specs(graph, needs);
  const TextOptions t = text_options(spec.data, specs, needs);
  const std::unique_ptr<Tokenizer> tokenizer =
      open_tokenizer(require_tokenizer(spec), tokenizer_options(spec.data.text));
  const int64_t longest = t.fixed_seq_len > 0 ? t.fixed_seq_len : t.max_seq_len;
  for (const std::string& c : t.text_columns) {
    if (rows.table) rows.table->column(c, needs.column_hint);
  }
  if (rows.table && !t.label_column.empty()) rows.table->column(t.label_column, needs.column_hint);
  std::unique_ptr<Dataset> data;
  const TaskRule& rule = task_rule(needs.task);
  if (needs.log_matches && rule.text == TextForm::tagged_words)
    log_matches(distinct_tags(rows.tagged), rows.names.at(0), needs.classes, needs.log);
  if (needs.log_matches && rule.has_classes())
    log_matches(distinct_labels(*rows.table, t.label_column), rows.table->name(), needs.classes, needs.log);
  if (rule.text == TextForm::tagged_words) {
    data = make_labeled_dataset(needs.labeled ? encode_tagged(rows.tagged, rows.names, *tokenizer, t.classes, longest)
                                              : encode_words(rows.tagged, *tokenizer, longest),
                                rows.names, *tokenizer, specs, t);
  } else if (rule.text == TextForm::questions) {
    std::vector<LabeledText> texts = encode_questions(*rows.key, *tokenizer, longest, *spec.data.text.doc_stride);
    data = make_labeled_dataset(std::move(texts), rows.names, *tokenizer, specs, t, rows.key);
  } else if (rule.text == TextForm::source_and_target) {
    data = open_seq2seq_dataset(spec, rows, *tokenizer, specs, needs);
  } else if (rule.text == TextForm::own_tokens) {
    data = open_language_dataset(spec, rows, *tokenizer, specs, t, needs);
  } else {
    data = make_text_dataset(*rows.table, *tokenizer, specs, t);
    if (const int64_t cut = data->cut_samples(); cut > 0)
      needs.log.note(cat(with_thousands(cut), " of ", with_thousands(data->size()), " rows of ", rows.table->name(),
                         " are cut at `max_seq_len` ", longest));
  }
  check_tokens(*data, graph, needs);
  return data;
}

static void require_one_label(const DataNeeds& needs, DataKind kind) {
  for (const std::string& l : needs.labels) {
    if (l != "label" && !(l == kDesirable && has_marked_answers(needs.task)))
      fail(Exit::usage, "E_LOSS",
           cat(kind == DataKind::images ? "images have"
               : kind == DataKind::text ? "text data has"
                                        : "a table has",
               " one label; a loss wants '", printable(l), "'"),
           "leave \"label\" out of the loss, or give tensors");
  }
}

std::unique_ptr<Dataset> open_dataset(const RunSpec& spec, const std::string& path, const SourceGraph& graph,
                                      const DataNeeds& needs, int64_t batch_size) {
  const DataKind kind = data_kind(spec.data, path);
  if (kind != DataKind::tensors) require_one_label(needs, kind);
  if (kind != DataKind::images && needs.training && (spec.data.images.mixup > 0 || spec.data.images.cutmix > 0))
    fail(Exit::usage, "E_MIXUP", cat("`mixup` and `cutmix` mix images, '", printable(path), "' holds none"),
         "leave them out, or train on image files");
  if (kind != DataKind::images && !spec.data.images.image_sizes->empty())
    fail(Exit::usage, "E_IMAGE_SIZES", cat("`image_sizes` is for image files, '", printable(path), "' holds none"),
         "leave it out; arrays keep their size");
  if (kind == DataKind::images) {
    Table table = read_image_table(spec, path, needs.labeled);
    skip_unknown_labels(spec, needs, table);
    report_skipped(spec, table, needs);
    for (const std::string& note : table.notes()) needs.log.note(note);
    return open_image_dataset(spec, table, graph, needs);
  }
  if (kind == DataKind::features) {
    std::optional<FeatureTable> read;
    if (!needs.table) {
      read.emplace(read_feature_table(spec, path, needs.features.get(), needs.log));
      skip_bad_features(spec, needs.task, needs.features.get(), needs.classes, needs.labeled, *read);
    }
    const FeatureTable& table = needs.table ? *needs.table : *read;
    report_skipped(spec, table.table(), needs);
    return open_feature_dataset(table, graph, needs);
  }
  if (kind == DataKind::text) {
    if (spec.data.text.text_columns->empty() && task_rule(needs.task).from_table())
      fail(Exit::usage, "E_USAGE", "text data needs `text_columns`",
           "name the column that holds the text; a table of image files: `image_column`, of features: `target`");
    require_tokenizer(spec);
    TextRows rows = read_text_rows(spec, path, needs.task, needs.labeled);
    if (rows.table) skip_bad_texts(spec, needs, *rows.table);
    skip_unknown_tags(spec, needs, rows);
    report_skipped(spec, rows, needs);
    if (rows.table) {
      for (const std::string& note : rows.table->notes()) needs.log.note(note);
    }
    return open_text_dataset(spec, rows, graph, needs);
  }
  const std::vector<InputSpec> specs = input_specs(graph, needs);
  const auto check = [&](const std::string& name, DType dtype, const Dims& dims) {
    check_input_tensor(path, specs, name, dtype, dims);
  };
  return open_tensors(read_tensor_file(path, Exit::data, check), path, graph, needs, batch_size);
}

std::unique_ptr<Dataset> open_tensors(std::vector<NamedTensor> tensors, const std::string& name,
                                      const SourceGraph& graph, const DataNeeds& needs, int64_t batch_size) {
  const std::vector<InputSpec> specs = input_specs(graph, needs);
  TensorOptions t;
  t.batch_size = batch_size;
  t.rows_per_item = needs.rows_per_item;
  for (const std::string& l : needs.labels) {
    const bool fed = std::any_of(specs.begin(), specs.end(), [&](const InputSpec& i) { return i.name == l; });
    if (l != t.label && !fed) t.more_labels.push_back(l);
  }
  std::map<std::string, HostTensor> fed;
  for (const NamedTensor& n : tensors) fed[n.name] = n.tensor;
  for (auto& [input, made] : derived_inputs(graph, fed, needs.log)) tensors.push_back({input, std::move(made)});
  warn_left_padding(graph, fed, needs.log);
  std::unique_ptr<Dataset> data = make_tensor_dataset(std::move(tensors), name, specs, t);
  check_tokens(*data, graph, needs);
  return data;
}

RunSpec validation_spec(RunSpec spec) {
  if (!spec.data.text.val_text_columns.empty()) spec.data.text.text_columns = spec.data.text.val_text_columns;
  if (!spec.data.val_label_column.empty()) spec.data.label_column = spec.data.val_label_column;
  spec.data.images.train_masks = spec.data.images.val_masks;
  spec.data.images.train_labels = spec.data.images.val_labels;
  return spec;
}

static std::vector<double> weights_of(const DataSpec& data, const Dataset& train) {
  if (!data.shuffle)
    fail(Exit::usage, "E_WEIGHTED_SAMPLING", "`weighted_sampling` draws rows, `shuffle` false keeps them in order",
         "leave one of them out");
  const std::vector<int64_t> classes = strata_of(train);
  if (classes.empty())
    fail(Exit::usage, "E_WEIGHTED_SAMPLING", "`weighted_sampling` goes by classes, and these labels are none",
         "it takes data with one whole number or name a row; leave it out otherwise");
  return class_weights(classes, kIgnoreIndex);
}

static void require_token_batches(const ScheduleSpec& schedule, const Dataset& train) {
  const std::span<const int32_t> lengths = train.lengths();
  if (lengths.empty())
    fail(Exit::usage, "E_USAGE", "`in_tokens` counts the tokens of texts, the training data has none",
         "leave it out: `batch_size` counts rows then");
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  if (longest > schedule.batch_size)
    fail(Exit::usage, "E_USAGE",
         cat("`batch_size` ", schedule.batch_size, " counts tokens (`in_tokens`), the longest text has ", longest),
         "give a larger `batch_size`, or cut texts with `max_seq_len`");
}

SamplerOptions sampler_options(const RunSpec& spec, const Dataset& train, bool text) {
  SamplerOptions s;
  s.batch_size = spec.schedule.batch_size;
  s.accumulation = spec.schedule.gradient_accumulation_steps;
  s.seed = static_cast<uint64_t>(spec.device.seed);
  s.in_tokens = spec.data.text.in_tokens;
  if (spec.data.text.in_tokens) require_token_batches(spec.schedule, train);
  if (spec.data.weighted_sampling)
    s.weights = std::make_shared<const std::vector<double>>(weights_of(spec.data, train));
  s.order = !spec.data.shuffle                       ? Order::file
            : text && spec.data.text.group_by_length ? Order::grouped
                                                     : Order::shuffled;
  return s;
}

}  // namespace amp
