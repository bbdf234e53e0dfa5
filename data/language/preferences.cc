#include "data/language/preferences.h"

#include "base/error.h"

namespace amp {

std::array<LanguageOptions, 2> pair_options(const Table& table, const LanguageOptions& options) {
  const std::vector<std::string>& columns = options.columns;
  if (options.packing != TextPacking::none)
    fail(Exit::usage, "E_PACKING", "pairs of answers cannot be packed, and `packing` is given", "leave it out");
  if (columns.size() != 2 && columns.size() != 3)
    fail(Exit::usage, "E_TEXT_COLUMNS", "pairs of answers are in two or three columns",
         "give `text_columns` prompt,chosen,rejected, or chosen,rejected for whole conversations");
  if (columns.size() == 2 && table.rows() > 0 && !table.is_json(0, table.column(columns[0])))
    fail(Exit::usage, "E_TEXT_COLUMNS", "answers in two columns are conversations, these are texts",
         "name the prompt's column, too: `text_columns` prompt,chosen,rejected");
  std::array<LanguageOptions, 2> sides = {options, options};
  for (size_t k = 0; k < 2; ++k) {
    sides[k].columns = columns.size() == 2 ? std::vector{columns[k]} : std::vector{columns[0], columns[k + 1]};
    sides[k].loss_on = columns.size() == 2 ? LossOn::last_answer : LossOn::answers;
    sides[k].keep_rows = true;
  }
  return sides;
}

AnswerPairs encode_pairs(const Table& table, const Tokenizer& tokenizer, std::shared_ptr<const ChatTemplate> chat,
                         const LanguageOptions& options) {
  const std::array<LanguageOptions, 2> sides = pair_options(table, options);
  const LanguageTexts preferred = encode_language(table, tokenizer, chat, sides[0]),
                      rejected = encode_language(table, tokenizer, chat, sides[1]);
  AnswerPairs out;
  out.cut = preferred.cut + rejected.cut;
  for (size_t i = 0; i < preferred.texts.size(); ++i) {
    if (!has_something_to_learn(preferred.texts.labels(i)) || !has_something_to_learn(rejected.texts.labels(i))) {
      ++out.unanswered;
      continue;
    }
    out.texts.append(preferred.texts[i]);
    out.texts.append(rejected.texts[i]);
  }
  return out;
}

}  // namespace amp
