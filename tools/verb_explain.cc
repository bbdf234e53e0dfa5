// Verb explain: prints the meaning and the remedy of an error id, or a list of all ids.
#include <iostream>

#include "base/error.h"
#include "base/error_table.h"
#include "base/text.h"
#include "tools/verbs.h"

namespace amp {

static const ErrorEntry& entry_of(const std::string& word) {
  if (const ErrorEntry* e = find_error(word)) return *e;
  std::vector<std::string> ids;
  for (const ErrorEntry& e : error_table()) ids.push_back(e.id);
  const std::string near = nearest(word, ids);
  fail(Exit::usage, "E_USAGE", cat("there is no error '", printable(word), "'"),
       near.empty() ? "`explain` lists all errors" : cat("did you mean '", near, "'?"));
}

static int run_explain(const cli::Options& opts, const Console&) {
  if (opts.positional.empty()) {
    for (const ErrorEntry& e : error_table())
      std::cout << e.id << " (exit code " << e.exit << "): " << e.meaning << '\n';
    return 0;
  }
  const ErrorEntry& e = entry_of(opts.positional[0]);
  std::cout << e.id << " (exit code " << e.exit << ")\n  " << e.meaning << "\n  Remedy: " << e.remedy
            << "\n  Example: " << e.example << '\n';
  return 0;
}

static const RegisterVerb explain_verb(cli::Verb::explain, run_explain);

}  // namespace amp
