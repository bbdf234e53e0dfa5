// Fuzzes readers of labeled texts that are not tables: SQuAD's JSON if the input begins with '{' or '[', else CoNLL.
#include "data/questions.h"
#include "data/tagged_text.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace amp;
  const std::string_view text = fuzz::text(data, size);
  return fuzz::accepts_or_refuses([&] {
    if (!text.starts_with('{') && !text.starts_with('[')) {
      parse_conll(text, "fuzz.conll", true);
      return;
    }
    for (const AnswersAre answers : {AnswersAre::given, AnswersAre::given_or_no, AnswersAre::unread})
      fuzz::accepts_or_refuses([&] { parse_squad(text, "fuzz.json", answers); });
  });
}
