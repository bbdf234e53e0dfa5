// Vocab: a WordPiece vocabulary with one token per line. The id is the line's index from 0; "##x" continues a word.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace amp {

class Vocab {
 public:
  // Reads a vocab.txt. Throws E_VOCAB (exit 5) with file:line for an empty line, a repeated token, or a missing [UNK],
  // [PAD], [CLS] or [SEP].
  static Vocab read(const std::string& path);
  static Vocab parse(std::string bytes, const std::string& name);

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  std::string_view token(int32_t id) const { return tokens_.at(static_cast<size_t>(id)); }
  int32_t find(std::string_view token) const;             // -1: unknown
  int32_t find_continuing(std::string_view piece) const;  // id of the token "##" + piece; -1: unknown
  size_t longest() const { return longest_; }             // bytes of the longest token
  int32_t pad() const { return pad_; }
  int32_t unk() const { return unk_; }
  int32_t cls() const { return cls_; }
  int32_t sep() const { return sep_; }
  int32_t mask() const { return mask_; }  // -1 when the vocabulary has no [MASK]

 private:
  std::shared_ptr<const std::string> bytes_;  // owns the text of the views below
  std::vector<std::string_view> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_, continuing_;
  size_t longest_ = 0;
  int32_t pad_ = -1, unk_ = -1, cls_ = -1, sep_ = -1, mask_ = -1;
};

}  // namespace amp
