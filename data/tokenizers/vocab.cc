#include "data/tokenizers/vocab.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/utf8.h"

namespace amp {

Vocab Vocab::read(const std::string& path) { return parse(std::string(read_file(path).text()), path); }

Vocab Vocab::parse(std::string bytes, const std::string& name) {
  check_utf8_file(bytes, name);
  Vocab v;
  v.bytes_ = std::make_shared<const std::string>(std::move(bytes));
  const char* const hint = "the vocabulary must be the vocab.txt that the model was trained with, one token a line";
  std::string_view rest = without_byte_order_mark(*v.bytes_);
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string_view token = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (!token.empty() && token.back() == '\r') token.remove_suffix(1);
    const auto id = static_cast<int32_t>(v.tokens_.size());
    if (token.empty()) fail(Exit::data, "E_VOCAB", cat(name, ":", id + 1, ": empty line"), hint);
    const auto [known, is_new] = v.ids_.emplace(token, id);
    if (!is_new) {
      fail(Exit::data, "E_VOCAB",
           cat(name, ":", id + 1, ": token '", printable(token), "' is already on line ", known->second + 1), hint);
    }
    if (token.substr(0, 2) == "##") v.continuing_.emplace(token.substr(2), id);
    v.tokens_.push_back(token);
    v.longest_ = std::max(v.longest_, token.size());
  }
  for (const auto& [token, id] : {std::pair{"[UNK]", &v.unk_},
                                  {"[PAD]", &v.pad_},
                                  {"[CLS]", &v.cls_},
                                  {"[SEP]", &v.sep_},
                                  {"[MASK]", &v.mask_}}) {
    *id = v.find(token);
    if (*id < 0 && id != &v.mask_) {
      fail(Exit::data, "E_VOCAB",
           cat(name, ":", v.size(), ": the file ends and none of its ", v.size(), " lines is ", token), hint);
    }
  }
  return v;
}

int32_t Vocab::find(std::string_view token) const {
  const auto at = ids_.find(token);
  return at == ids_.end() ? -1 : at->second;
}

int32_t Vocab::find_continuing(std::string_view piece) const {
  const auto at = continuing_.find(piece);
  return at == continuing_.end() ? -1 : at->second;
}

}  // namespace amp
