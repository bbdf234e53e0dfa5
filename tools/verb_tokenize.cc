// Verb tokenize: reads lines of UTF-8 text from standard input and writes one line for each: token ids, JSON, or the
// text of given ids. Lines end with LF.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "run/data/tokenize.h"
#include "tools/spec_of.h"
#include "tools/verbs.h"

namespace amp {

namespace {

std::string as_json(const Tokenizer& tokenizer, const Encoding& e) {
  nlohmann::ordered_json j = {
      {"ids", e.ids}, {"tokens", nlohmann::json::array()}, {"offsets", e.places}, {"type_ids", e.types}};
  for (const int32_t id : e.ids) j["tokens"].push_back(tokenizer.token(id));
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string encoded(const Tokenizer& tokenizer, const cli::Options& opts, const std::string& line) {
  const bool json = opts.flag("json");
  const int64_t longest = opts.integer("max_seq_len");
  const size_t tab = opts.flag("pairs") ? line.find('\t') : std::string::npos;
  if (opts.flag("pairs") && tab == std::string::npos)
    fail(Exit::data, "E_DATA_COLUMN", "--pairs: the line has no tab", "write two texts with a tab between them");
  const Encoding e = tab == std::string::npos
                         ? tokenizer.encode(line, longest, json)
                         : tokenizer.encode_pair(line.substr(0, tab), line.substr(tab + 1), longest, json);
  if (json) return as_json(tokenizer, e);
  std::string out;
  for (const int32_t id : e.ids) {
    if (!out.empty()) out += ' ';
    out += std::to_string(id);
  }
  return out;
}

std::string decoded(const Tokenizer& tokenizer, const std::string& line) {
  std::vector<int32_t> ids;
  for (const std::string& word : split(line, ' ')) {
    size_t used = 0;
    int64_t id = -1;
    try {
      id = std::stoll(word, &used);
    } catch (const std::exception&) {
    }
    if (used != word.size() || id < 0 || id >= tokenizer.size())
      fail(Exit::data, "E_DATA_TOKEN_RANGE", cat("'", printable(word), "' is no token id below ", tokenizer.size()));
    ids.push_back(static_cast<int32_t>(id));
  }
  return tokenizer.decode(ids);
}

}  // namespace

static int run_tokenize(const cli::Options& opts, const Console&) {
  const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of(spec_of(opts));
  std::ios::sync_with_stdio(false);
  std::string line;
  int64_t number = 0;
  while (std::cout && std::getline(std::cin, line)) {  // stops if the reading process closed the pipe
    if (++number == 1) line = without_byte_order_mark(line);
    try {
      std::cout << (opts.flag("decode") ? decoded(*tokenizer, line) : encoded(*tokenizer, opts, line)) << '\n';
    } catch (Error& e) {
      throw e.at(cat("standard input, line ", number));
    }
  }
  return 0;
}

static const RegisterVerb tokenize_verb(cli::Verb::tokenize, run_tokenize);

}  // namespace amp
