// tokenize: UTF-8 lines from standard input, a line of token ids for each. Lines end with \n only.
#include <iostream>

#include "base/error.h"
#include "data/wordpiece.h"
#include "tools/verbs.h"

namespace amp {

int run_tokenize(const cli::Options& opts) {
  WordPieceOptions o;
  o.lower_case = opts.flag("lower_case");
  const WordPiece tokenizer(Vocab::read(opts.str("vocab")), o);
  std::ios::sync_with_stdio(false);
  std::string line;
  int64_t number = 0;
  while (std::getline(std::cin, line)) {
    ++number;
    try {
      const Encoding e = tokenizer.encode(line, opts.integer("max_seq_len"));
      for (size_t i = 0; i < e.ids.size(); ++i) std::cout << (i ? " " : "") << e.ids[i];
      std::cout << '\n';
    } catch (Error& e) {
      throw e.at(cat("standard input, line ", number));
    }
  }
  return 0;
}

}  // namespace amp
