// Datasets for language models and encoder-decoder models. Chat templates are Jinja (data/language/), as in Hugging
// Face tokenizers; a `packing` of bfd packs by best fit decreasing. Masked language models hide tokens as BERT does
// (80/10/10). Predictions keep one sequence per row: options that join rows apply only to labeled data.

#include "run/data/language_data.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/json_nesting.h"
#include "base/number_text.h"
#include "base/text.h"
#include "data/language/marked_answers.h"
#include "data/language/masking.h"
#include "data/language/preferences.h"
#include "run/data/text_rows.h"
#include "run/data/text_settings.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"

namespace amp {

namespace {

// Fails if `packing` is bfd and the graph lacks an input that packed texts need: position ids per text, and an
// attention mask that separates the texts.
void require_apart(const LanguageSpec& language, const std::vector<InputSpec>& inputs) {
  if (*language.packing != "bfd") return;
  std::string why = "it has no input position_ids";
  for (const InputSpec& i : inputs) {
    if (text_role(i.name) == TextRole::positions) why.clear();
  }
  bool squares = false;
  for (const InputSpec& i : inputs)
    squares = squares || (text_role(i.name) == TextRole::mask && i.dims && i.dims->size() > 2);
  if (why.empty() && !squares) why = "its attention mask is not one of (batch, length, length)";
  if (!why.empty())
    fail(Exit::usage, "E_PACKING", cat("`packing` bfd keeps texts in a sequence apart, which this model cannot: ", why),
         "leave it out: padding is not computed anyway (`remove_padding`); or let texts see each other with `packing` "
         "wrapped");
}

// Returns decoder_start_token_id of the config.json in the model's or the tokenizer's folder; -1: there is none.
int64_t configured_start(const RunSpec& spec) {
  for (const std::filesystem::path folder : config_folders(spec)) {
    const std::string path = (folder / "config.json").string();
    if (!path_exists(path)) continue;
    const FileBytes bytes = read_file(path);
    const nlohmann::json config = parse_json(bytes.text());
    if (!config.is_object()) continue;
    const auto id = config.find("decoder_start_token_id");
    if (id != config.end() && id->is_number_integer()) return id->get<int64_t>();
  }
  return -1;
}

struct StartToken {
  int32_t id;
  bool configured;  // true if the value comes from config.json
};

StartToken start_token(const RunSpec& spec, const Tokenizer& tokenizer) {
  const std::string& asked = *spec.data.language.decoder_start_token;
  int64_t id = asked == "auto" ? configured_start(spec) : tokenizer.find(asked);
  const bool configured = asked == "auto" && id >= 0;
  if (asked == "auto" && id < 0) id = tokenizer.pad();
  if (id < 0) id = parse_integer(asked).value_or(-1);
  if (id < 0 || id >= tokenizer.size())
    fail(Exit::usage, "E_FLAG_VALUE",
         cat("`decoder_start_token` ", printable(asked), ": the vocabulary has no such token"),
         cat("give a token of the tokenizer, or an id below ", tokenizer.size()));
  return {static_cast<int32_t>(id), configured};
}

}  // namespace

int64_t longest_target(const DataSpec& data) {
  return *data.language.max_target_length > 0 ? *data.language.max_target_length : *data.text.max_seq_len;
}

Seq2SeqOptions seq2seq_options(const RunSpec& spec, const Tokenizer& tokenizer) {
  Seq2SeqOptions o;
  o.prefix = *spec.data.language.source_prefix;
  o.max_source = *spec.data.text.max_seq_len;
  o.max_target = longest_target(spec.data);
  o.start = start_token(spec, tokenizer).id;
  return o;
}

RunSpec with_start_token(RunSpec spec, const Log& log) {
  if (*spec.objective.task != "seq2seq" || *spec.data.language.decoder_start_token != "auto" ||
      tokenizer_path(spec).empty())
    return spec;
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(tokenizer_path(spec), tokenizer_options(spec.data.text));
  const StartToken start = start_token(spec, *tokenizer);
  log.info(cat("targets begin with ", printable(tokenizer->token(start.id)), ", ",
               start.configured ? "config.json's decoder_start_token_id" : "the padding token",
               " (`decoder_start_token` another)"));
  spec.data.language.decoder_start_token.suggest(std::to_string(start.id));
  return spec;
}

std::unique_ptr<Dataset> open_seq2seq_dataset(const RunSpec& spec, const TextRows& rows, const Tokenizer& tokenizer,
                                              const std::vector<InputSpec>& specs, const DataNeeds& needs) {
  const std::vector<std::string>& columns = *spec.data.text.text_columns;
  if (columns.size() != 2)
    fail(Exit::usage, "E_TEXT_COLUMNS", "`task` seq2seq needs two columns, source and target",
         "give `text_columns` SOURCE,TARGET; the verb generate writes targets");
  if (*spec.data.language.packing != "none")
    fail(Exit::usage, "E_PACKING",
         cat("`packing` ", *spec.data.language.packing, " puts texts of one kind together, not pairs of them"),
         "leave it out: `group_by_length` brings rows of similar length together");
  Seq2SeqOptions options = seq2seq_options(spec, tokenizer);
  options.source = columns[0];
  options.target = columns[1];
  Seq2SeqTexts texts = encode_seq2seq(*rows.table, tokenizer, options);
  if (texts.cut > 0 && needs.labeled)
    needs.log.note(cat(with_thousands(texts.cut), " of ", with_thousands(rows.table->rows()), " rows of ",
                       rows.table->name(), " are cut at `max_seq_len` ", options.max_source, " or `max_target_length` ",
                       options.max_target));
  return make_seq2seq_dataset(std::move(texts), rows.names, tokenizer, specs, spec.data.text.pad_to_multiple, options);
}

LanguageOptions language_options(const RunSpec& spec, int64_t most) {
  static const std::map<std::string, LossOn> on = {
      {"answers", LossOn::answers}, {"last_answer", LossOn::last_answer}, {"all", LossOn::all}};
  static const std::map<std::string, TextPacking> packing = {{"none", TextPacking::none},
                                                             {"stride", TextPacking::stride},
                                                             {"wrapped", TextPacking::wrapped},
                                                             {"bfd", TextPacking::bfd}};
  LanguageOptions o;
  o.columns = *spec.data.text.text_columns;
  o.packing = packing.at(*spec.data.language.packing);
  if (is_masked_language_model(spec)) {
    o.loss_on = LossOn::all;
    o.end_answers = false;
  } else {
    o.loss_on = on.at(*spec.data.language.train_on);
    o.end_texts = *spec.data.language.append_eos == "true";
    o.end_answers = *spec.data.language.append_eos != "false";
  }
  o.max_seq_len = most;
  o.stride = *spec.data.text.doc_stride;
  return o;
}

std::vector<LanguageOptions> answer_options_of(Task task, const Table& table, const LanguageOptions& options) {
  if (has_marked_answers(task)) return marked_options(table, options);
  if (!has_answer_pairs(task)) return {options};
  const std::array<LanguageOptions, 2> sides = pair_options(table, options);
  return {sides.begin(), sides.end()};
}

bool reads_marks(const DataSpec& data, Task task) {
  return has_marked_answers(task) && !are_pairs(*data.text.text_columns);
}

std::shared_ptr<const ChatTemplate> chat_template_of(const RunSpec& spec, const Tokenizer& tokenizer) {
  return open_chat_template(spec.data.language.chat_template, tokenizer_folder(spec), tokenizer);
}

static void warn_unanswered(const DataNeeds& needs, const Table& table, int64_t rows, int64_t max_seq_len) {
  if (rows > 0)
    needs.log.warning(cat("W_NO_ANSWER: ", with_thousands(rows), " of ", with_thousands(table.rows()), " rows of ",
                          table.name(), " have nothing to learn within `max_seq_len` ", max_seq_len, ": left out"));
}

[[noreturn]] static void refuse_unanswered(const Table& table, const std::string& hint) {
  fail(Exit::data, "E_DATA_EMPTY", cat(table.name(), ": there is nothing to learn in any row"), hint);
}

// Reports answers that are cut or left out. Fails if no answer is left. Answers: AnswerPairs or MarkedAnswers.
template <class Answers>
static void report_answers(const DataNeeds& needs, const Table& table, const Answers& answers, int64_t max_seq_len) {
  if (answers.cut > 0)
    needs.log.note(cat(with_thousands(answers.cut), " answers of ", with_thousands(table.rows()), " rows of ",
                       table.name(), " are cut at `max_seq_len` ", max_seq_len));
  warn_unanswered(needs, table, answers.unanswered, max_seq_len);
  if (answers.texts.empty()) refuse_unanswered(table, "give a larger `max_seq_len`");
}

// Opens pairs of answers: a sample has two rows.
static std::unique_ptr<Dataset> open_pairs_dataset(const TextRows& rows, const Tokenizer& tokenizer,
                                                   std::shared_ptr<const ChatTemplate> chat,
                                                   const std::vector<InputSpec>& specs, TextOptions t,
                                                   const LanguageOptions& options, const DataNeeds& needs) {
  AnswerPairs pairs = encode_pairs(*rows.table, tokenizer, std::move(chat), options);
  report_answers(needs, *rows.table, pairs, options.max_seq_len);
  t.sides = true;
  return make_labeled_dataset(std::move(pairs.texts), rows.names, tokenizer, specs, t);
}

// Prints the number of answers with each mark. The advice is that of TRL (arXiv:2402.01306, equation 8): all answers of
// one mark together should weigh 1 to 4/3 times as much as those of the other mark.
static void note_marks(const RunSpec& spec, const std::vector<char>& marks, const DataNeeds& needs) {
  const auto wanted = static_cast<double>(std::count(marks.begin(), marks.end(), 1)),
             others = static_cast<double>(marks.size()) - wanted;
  const std::string numbers = cat("data: ", with_thousands(static_cast<int64_t>(wanted)), " desirable and ",
                                  with_thousands(static_cast<int64_t>(others)), " other answers");
  if (wanted == 0 || others == 0)
    return needs.log.warning(cat(numbers, ": answers of the other kind are missing. Are the marks right?"));
  LossSpec loss;
  loss.kind = "kto";
  for (const LossSpec& s : requested_losses(spec.objective).parts) loss = s.kind == loss.kind ? s : loss;
  const double share = others * loss.number("undesirable_weight") / wanted, now = loss.number("desirable_weight");
  const bool balanced = wanted == others || (now >= share * 0.995 && now <= share * 1.335);
  char advice[96];
  std::snprintf(advice, sizeof advice, ",desirable_weight=X with X from %.3g to %.3g would balance them", share,
                share * 4 / 3);
  needs.log.note(balanced ? numbers : cat(numbers, ": `loss` kto", advice));
}

// Opens marked answers: a sample has two rows, see make_marked_dataset().
static std::unique_ptr<Dataset> open_marked_dataset(const RunSpec& spec, const TextRows& rows,
                                                    const Tokenizer& tokenizer, const std::vector<InputSpec>& specs,
                                                    const TextOptions& t, const LanguageOptions& options,
                                                    const DataNeeds& needs) {
  MarkedAnswers answers =
      encode_marked(*rows.table, tokenizer, chat_template_of(spec, tokenizer), options, *spec.data.label_column);
  report_answers(needs, *rows.table, answers, options.max_seq_len);
  if (answers.texts.size() == 1)
    fail(Exit::data, "E_DATA_PAIRS",
         cat(rows.table->name(), ": the loss kto compares each answer with one to another prompt, the data has one"),
         "add rows");
  if (needs.training) note_marks(spec, answers.desirable, needs);
  return make_marked_dataset(std::move(answers), rows.names, tokenizer, specs, t, kDesirable);
}

std::unique_ptr<Dataset> open_language_dataset(const RunSpec& spec, const TextRows& rows, const Tokenizer& tokenizer,
                                               const std::vector<InputSpec>& specs, const TextOptions& t,
                                               const DataNeeds& needs) {
  LanguageOptions options = language_options(spec, t.fixed_seq_len > 0 ? t.fixed_seq_len : t.max_seq_len);
  if (has_answer_pairs(needs.task))
    return open_pairs_dataset(rows, tokenizer, chat_template_of(spec, tokenizer), specs, t, options, needs);
  if (has_marked_answers(needs.task) && needs.labeled)
    return open_marked_dataset(spec, rows, tokenizer, specs, t, options, needs);
  if (needs.labeled) {
    require_apart(spec.data.language, specs);
  } else {  // each row has a separate prediction
    options.keep_rows = true;
    if (options.packing == TextPacking::wrapped) options.packing = TextPacking::stride;
    if (options.packing == TextPacking::bfd || is_masked_language_model(spec)) options.packing = TextPacking::none;
  }
  LanguageTexts texts = encode_language(*rows.table, tokenizer, chat_template_of(spec, tokenizer), options);
  const auto of_all = [&](int64_t n) {
    return cat(with_thousands(n), " of ", with_thousands(rows.table->rows()), " rows");
  };
  if (texts.cut > 0 && needs.labeled)
    needs.log.note(
        cat(of_all(texts.cut), " of ", rows.table->name(), " are cut at `max_seq_len` ", options.max_seq_len));
  if (needs.labeled) warn_unanswered(needs, *rows.table, texts.unanswered, options.max_seq_len);
  if (texts.texts.empty()) refuse_unanswered(*rows.table, "give a larger `max_seq_len`, or `train_on` all");
  if (options.packing != TextPacking::none)
    needs.log.info(cat("packing ", *spec.data.language.packing, ": ", of_all(rows.table->rows()), " in ",
                       with_thousands(static_cast<int64_t>(texts.texts.size())), " sequences"));
  TextOptions seen = t;
  seen.sees_ahead = is_masked_language_model(spec);
  auto data = make_labeled_dataset(std::move(texts.texts), rows.names, tokenizer, specs, seen);
  if (!seen.sees_ahead || !needs.labeled) return data;
  return make_masked_dataset(std::move(data), tokenizer, specs,
                             {*spec.data.language.mlm_probability, *spec.data.language.whole_word_mask,
                              static_cast<uint64_t>(spec.device.seed)});
}

}  // namespace amp
