// Fuzzes readers of tokenizer files, distinguished by their first bytes: tokenizer.json; vocab.json and merges.txt
// separated by a line "---"; SentencePiece models; vocab.txt. A readable tokenizer then encodes a text with many
// scripts and the input's end.
#include "base/utf8.h"
#include "data/tokenizer.h"
#include "fuzz/fuzz.h"
#include "fuzz/memory_folder.h"

namespace {

using namespace amp;

constexpr std::string_view kBetween = "\n---\n";

std::string write(std::string_view bytes) {
  fuzz::MemoryFolder& folder = fuzz::memory_folder();
  if (!bytes.starts_with('{')) return folder.put(bytes.starts_with('\n') ? "spiece.model" : "vocab.txt", bytes);
  const size_t between = bytes.find(kBetween);
  if (between == std::string_view::npos) return folder.put("tokenizer.json", bytes);
  folder.put("merges.txt", bytes.substr(between + kBetween.size()));
  return folder.put("vocab.json", bytes.substr(0, between));
}

void use(const Tokenizer& tokenizer, std::string_view text) {
  const int64_t characters = count_code_points(text);
  std::vector<int32_t> ids;
  for (const Piece& p : tokenizer.pieces(text)) {
    fuzz::must(p.id >= 0 && p.id < tokenizer.size(), "a token's id is not below the vocabulary's size");
    fuzz::must(p.begin >= 0 && p.begin <= p.end && p.end <= characters, "a token lies outside the text");
    ids.push_back(p.id);
  }
  tokenizer.decode(ids);
  tokenizer.decode(ids, true);
  tokenizer.encode_pair(text, "two", 64, true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = fuzz::text(data, size);
  return fuzz::accepts_or_refuses([&] {
    const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(write(bytes));
    std::string text =
        "It's  12\u00bd caf\u00e9s, na\u0308ive \u4e2d\u6587 \u0915\u094d\u0937 \U0001f469\u200d\U0001f680 "
        "</s>[MASK]\n\t<0x41>";
    text += bytes.substr(bytes.size() - std::min<size_t>(bytes.size(), 48));
    if (const size_t bad = find_invalid_utf8(text); bad != std::string::npos) text.resize(bad);
    use(*tokenizer, text);
  });
}
