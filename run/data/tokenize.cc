#include "run/data/tokenize.h"

#include "base/checksum.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"
#include "run/data/data.h"
#include "run/spec/spec.h"

namespace amp {

std::unique_ptr<Tokenizer> tokenizer_of(const RunSpec& spec) {
  const std::string path = tokenizer_path(spec);
  if (path.empty()) fail(Exit::usage, "E_USAGE", "tokenize needs `tokenizer` FILE", "or `vocab` vocab.txt");
  return open_tokenizer(path, tokenizer_options(spec.data.text));
}

std::string tokenizer_sum(const RunSpec& spec) {
  std::string path = tokenizer_path(spec);
  if (is_dir(path)) path = find_tokenizer(path);
  return path.empty() ? std::string() : fingerprint(path);
}

}  // namespace amp
