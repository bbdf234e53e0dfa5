// Fuzzes configuration files. The first byte selects the verb, and JSON or YAML. The remaining bytes are the file:
// flags, the configuration of a run.json, or another trainer's configuration.
#include "fuzz/fuzz.h"
#include "tools/cli/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace amp;
  if (size == 0) return 0;
  const cli::Verb verb = cli::verbs()[data[0] / 2 % cli::verbs().size()].verb;
  return fuzz::accepts_or_refuses([&] {
    std::vector<std::string> warnings;
    const std::string path = data[0] % 2 == 0 ? "fuzz.json" : "fuzz.yaml";
    for (const cli::Assignment& a : cli::parse_config(fuzz::text(data + 1, size - 1), path, verb, warnings))
      fuzz::must(a.flag && has(a.flag->verbs, verb), "an assignment is not one of the verb");
  });
}
