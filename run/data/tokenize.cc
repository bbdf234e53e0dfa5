#include "run/data/tokenize.h"

#include "base/error.h"
#include "run/data/data.h"
#include "run/spec/spec.h"

namespace amp {

std::unique_ptr<Tokenizer> tokenizer_of(const RunSpec& spec) {
  const std::string path = tokenizer_path(spec);
  if (path.empty()) fail(Exit::usage, "E_USAGE", "tokenize needs `tokenizer` FILE", "or `vocab` vocab.txt");
  return open_tokenizer(path, tokenizer_options(spec.data.text));
}

}  // namespace amp
