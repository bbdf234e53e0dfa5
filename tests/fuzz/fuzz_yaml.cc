// Fuzzes the conversion of YAML to JSON: aliases, tags, many documents, deep nesting. The result must be JSON that can
// be written.
#include "fuzz/fuzz.h"
#include "tools/cli/other_trainers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace amp;
  return fuzz::accepts_or_refuses([&] {
    const nlohmann::ordered_json json = cli::yaml_to_json(std::string(fuzz::text(data, size)), "fuzz.yaml");
    json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  });
}
