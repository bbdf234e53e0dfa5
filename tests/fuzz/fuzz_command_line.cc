// Fuzzes command lines with their environment: one word per line, and lines that begin with ONNX_AMP_ are
// variables. An accepted command line is recorded as a configuration, which must be accepted in turn.
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "tools/cli/config.h"

namespace {

using namespace amp;

// True for flags that read files, such as --config. They are not executed, because files depend on this machine.
bool reads_files(const std::string& word) {
  const std::string name = cli::snake_case(word);
  return name.find("config") != name.npos || name.find("compat") != name.npos || name.find("args") != name.npos;
}

void use(const cli::Options& options) {
  if (options.verb == cli::Verb::help || options.verb == cli::Verb::version) return;
  std::vector<std::string> warnings;
  const std::string record = effective_config_json(options);
  cli::parse_config(record, "record.json", options.verb, warnings);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<const char*> argv = {"onnx-amp-finetune"}, envp;
  std::vector<std::string> words = split(std::string(fuzz::text(data, size)), '\n');
  for (std::string& word : words) {
    word.resize(std::strlen(word.c_str()));  // an argument ends at its first null byte
    if (reads_files(word)) return 0;
    (word.starts_with("ONNX_AMP_") ? envp : argv).push_back(word.c_str());
  }
  envp.push_back(nullptr);
  return fuzz::accepts_or_refuses([&] {
    for (const cli::Command& c : cli::parse_commands(static_cast<int>(argv.size()), argv.data(), envp.data())) {
      try {
        use(c.options);
      } catch (const Error& e) {
        std::cerr << "the recorded configuration is refused: " << e.fact() << '\n';
        std::abort();
      }
    }
  });
}
