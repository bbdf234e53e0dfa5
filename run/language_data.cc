#include "run/language_data.h"

#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "data/language/masking.h"
#include "run/text_rows.h"

namespace amp {

namespace {

// Texts put together have places of their own and do not see each other: the graph must take both.
void require_apart(const RunSpec& spec, const std::vector<InputSpec>& inputs) {
  if (*spec.packing != "bfd") return;
  std::string why = "it has no input position_ids";
  for (const InputSpec& i : inputs) {
    if (text_role(i.name) == TextRole::positions) why.clear();
  }
  bool squares = false;
  for (const InputSpec& i : inputs)
    squares = squares || (text_role(i.name) == TextRole::mask && i.dims && i.dims->size() > 2);
  if (why.empty() && !squares) why = "its attention mask is not one of (batch, length, length)";
  if (!why.empty())
    fail(Exit::usage, "E_PACKING", cat("--packing bfd keeps texts in a sequence apart, which this model cannot: ", why),
         "leave it out: padding is not computed anyway (--remove_padding); or let texts see each other with --packing "
         "wrapped");
}

}  // namespace

LanguageOptions language_options(const RunSpec& spec, int64_t most) {
  static const std::map<std::string, LossOn> on = {
      {"answers", LossOn::answers}, {"last_answer", LossOn::last_answer}, {"all", LossOn::all}};
  static const std::map<std::string, TextPacking> packing = {{"none", TextPacking::none},
                                                             {"stride", TextPacking::stride},
                                                             {"wrapped", TextPacking::wrapped},
                                                             {"bfd", TextPacking::bfd}};
  LanguageOptions o;
  o.columns = *spec.text_columns;
  o.packing = packing.at(*spec.packing);
  if (is_masked_language_model(spec)) {
    o.loss_on = LossOn::all;
    o.end_answers = false;
  } else {
    o.loss_on = on.at(*spec.train_on);
    o.end_texts = *spec.append_eos == "true";
    o.end_answers = *spec.append_eos != "false";
  }
  o.max_seq_len = most;
  o.stride = *spec.doc_stride;
  return o;
}

std::shared_ptr<const ChatTemplate> chat_template_of(const RunSpec& spec, const Tokenizer& tokenizer) {
  const std::filesystem::path files = tokenizer_path(spec);
  std::error_code error;
  const bool folder = std::filesystem::is_directory(files, error);
  return open_chat_template(spec.chat_template, (folder ? files : files.parent_path()).string(), tokenizer);
}

std::unique_ptr<Dataset> open_language_dataset(const RunSpec& spec, const TextRows& rows, const Tokenizer& tokenizer,
                                               const std::vector<InputSpec>& specs, const TextOptions& t,
                                               const DataNeeds& needs) {
  LanguageOptions options = language_options(spec, t.fixed_seq_len > 0 ? t.fixed_seq_len : t.max_seq_len);
  if (needs.labelled) {
    require_apart(spec, specs);
  } else {  // every row is told of, by itself
    options.keep_rows = true;
    if (options.packing == TextPacking::wrapped) options.packing = TextPacking::stride;
    if (options.packing == TextPacking::bfd || is_masked_language_model(spec)) options.packing = TextPacking::none;
  }
  LanguageTexts texts = encode_language(*rows.table, tokenizer, chat_template_of(spec, tokenizer), options);
  const auto of_all = [&](int64_t n) {
    return cat(with_thousands(n), " of ", with_thousands(rows.table->rows()), " rows");
  };
  if (texts.cut > 0 && needs.labelled)
    needs.log.note(
        cat(of_all(texts.cut), " of ", rows.table->name(), " are cut at --max_seq_len ", options.max_seq_len));
  if (texts.unanswered > 0 && needs.labelled)
    needs.log.warning(cat("W_NO_ANSWER: ", of_all(texts.unanswered), " of ", rows.table->name(),
                          " have nothing to learn within --max_seq_len ", options.max_seq_len, ": left out"));
  if (texts.texts.empty())
    fail(Exit::data, "E_DATA_EMPTY", cat(rows.table->name(), ": there is nothing to learn in any row"),
         "give a larger --max_seq_len, or --train_on all");
  if (options.packing != TextPacking::none)
    needs.log.info(cat("packing ", *spec.packing, ": ", of_all(rows.table->rows()), " in ",
                       with_thousands(static_cast<int64_t>(texts.texts.size())), " sequences"));
  TextOptions seen = t;
  seen.sees_ahead = is_masked_language_model(spec);
  auto data = make_labelled_dataset(std::move(texts.texts), rows.names, tokenizer, specs, seen);
  if (!seen.sees_ahead || !needs.labelled) return data;
  return make_masked_dataset(std::move(data), tokenizer, specs,
                             {*spec.mlm_probability, *spec.whole_word_mask, static_cast<uint64_t>(spec.seed)});
}

}  // namespace amp
