// Implements what tokenizers have in common: templates of special tokens, truncation, and the registry of file formats.
// Pairs are truncated longest first, as Hugging Face's `longest_first` does.
#include "data/tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"

namespace amp {

namespace fs = std::filesystem;

std::vector<int32_t> Tokenizer::tokenize(std::string_view text) const {
  std::vector<int32_t> ids;
  for (const Piece& p : pieces(text)) ids.push_back(p.id);
  return ids;
}

std::vector<int32_t> Tokenizer::tokenize_word(std::string_view word) const { return tokenize(word); }

int32_t Tokenizer::pad() const { return special_.pad >= 0 ? special_.pad : std::max(special_.eos, 0); }

int64_t count_special(const TokenTemplate& frame) {
  return std::count_if(frame.begin(), frame.end(),
                       [](const TemplatePart& p) { return p.what == TemplatePart::What::special; });
}

int64_t ids_before(const TokenTemplate& frame, TemplatePart::What text, int64_t first_length) {
  int64_t n = 0;
  for (const TemplatePart& p : frame) {
    if (p.what == text) break;
    n += p.what == TemplatePart::What::first ? first_length : 1;
  }
  return n;
}

Encoding assemble(const TokenTemplate& frame, std::span<const Piece> first, std::span<const Piece> second,
                  bool places) {
  Encoding e;
  for (const TemplatePart& p : frame) {
    if (p.what == TemplatePart::What::special) {
      e.ids.push_back(p.id);
      if (places) e.places.emplace_back(0, 0);
    }
    const std::span<const Piece> pieces = p.what == TemplatePart::What::first    ? first
                                          : p.what == TemplatePart::What::second ? second
                                                                                 : std::span<const Piece>();
    for (const Piece& x : pieces) {
      e.ids.push_back(x.id);
      if (places) e.places.emplace_back(x.begin, x.end);
    }
    e.types.resize(e.ids.size(), p.type);
  }
  return e;
}

namespace {

int64_t room_in(const TokenTemplate& frame, int64_t max_seq_len) {
  const int64_t specials = count_special(frame);
  if (max_seq_len < specials) {
    fail(Exit::usage, "E_SEQ_LEN", cat("max_seq_len is ", max_seq_len, ", but the special tokens take ", specials),
         "raise `max_seq_len`");
  }
  return max_seq_len - specials;
}

std::span<const Piece> cut(const std::vector<Piece>& pieces, size_t n, bool left) {
  const std::span<const Piece> all = pieces;
  n = std::min(n, all.size());
  return left ? all.last(n) : all.first(n);
}

std::vector<Piece> without_places(const std::vector<int32_t>& ids) {
  std::vector<Piece> out;
  for (const int32_t id : ids) out.push_back({id});
  return out;
}

}  // namespace

Encoding Tokenizer::encode(std::string_view text, int64_t max_seq_len, bool places) const {
  const size_t room = max_seq_len != 0 ? static_cast<size_t>(room_in(single_, max_seq_len)) : SIZE_MAX;
  const std::vector<Piece> all = places ? pieces(text) : without_places(tokenize(text));
  Encoding out = assemble(single_, cut(all, room, cut_left_), {}, places);
  out.cut = all.size() > room;
  return out;
}

Encoding Tokenizer::encode_pair(std::string_view a, std::string_view b, int64_t max_seq_len, bool places) const {
  const size_t room = max_seq_len != 0 ? static_cast<size_t>(room_in(pair_, max_seq_len)) : SIZE_MAX;
  const std::vector<Piece> first = places ? pieces(a) : without_places(tokenize(a)),
                           second = places ? pieces(b) : without_places(tokenize(b));
  size_t small = std::min(first.size(), second.size()), large = std::max(first.size(), second.size());
  if (small + large > room) {
    large = small > room ? small : std::max(small, room - small);
    if (small + large > room) {
      small = room / 2;
      large = small + room % 2;
    }
  }
  const bool swapped = first.size() > second.size();
  Encoding out = assemble(pair_, cut(first, swapped ? large : small, cut_left_),
                          cut(second, swapped ? small : large, cut_left_), places);
  out.cut = first.size() + second.size() > room;
  return out;
}

// The registered file formats.

namespace {
std::vector<TokenizerFormat>& formats() {
  static std::vector<TokenizerFormat> all;
  return all;
}
}  // namespace

TokenizerRegistration::TokenizerRegistration(TokenizerFormat format) {
  const auto at =
      std::upper_bound(formats().begin(), formats().end(), format,
                       [](const TokenizerFormat& a, const TokenizerFormat& b) { return a.order < b.order; });
  formats().insert(at, std::move(format));
}

std::string find_tokenizer(const std::string& folder) {
  for (const TokenizerFormat& f : formats()) {
    for (const std::string& name : f.names) {
      const fs::path path = fs::path(folder) / name;
      std::error_code error;
      if (fs::is_regular_file(path, error)) return path.string();
    }
  }
  return {};
}

std::vector<std::string> tokenizer_files() {
  std::vector<std::string> all = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"};
  for (const TokenizerFormat& f : formats()) {
    all.insert(all.end(), f.names.begin(), f.names.end());
    all.insert(all.end(), f.beside.begin(), f.beside.end());
  }
  return all;
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path, const TokenizerOptions& options) {
  std::string file = path;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    file = find_tokenizer(path);
    std::vector<std::string> names;
    for (const TokenizerFormat& f : formats()) names.insert(names.end(), f.names.begin(), f.names.end());
    if (file.empty())
      fail(Exit::data, "E_TOKENIZER", cat("the folder '", printable(path), "' holds no tokenizer"),
           cat("it would be one of ", join(names, ", ")));
  }
  const std::string name = fs::path(file).filename().string();
  for (const TokenizerFormat& f : formats()) {
    if (f.reads(name)) return f.open(file, options);
  }
  bug("no format reads any file");  // the last format accepts every name
}

}  // namespace amp
