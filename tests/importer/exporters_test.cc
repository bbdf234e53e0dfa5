// Compares the importer's decisions (weight or constant) on files of seven exporters with the truth: weights are the
// tensors that changed when the framework's trainable parameters changed (tests/data/importer/exporters/ORIGIN.md). A
// decision that `check` does not mark unsure must be right.
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "importer/discover/describe.h"
#include "models.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

struct Listed {
  bool trainable = false, unsure = false;
  std::string reason;
};

std::map<std::string, Listed> listed(const Imported& m) {
  std::map<std::string, Listed> out;
  std::istringstream lines(describe_tensors_json(m.graph, m.verdicts));
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    out[row.at("name")] = {row.at("trainable"), row.at("unsure"), row.at("reason")};
  }
  return out;
}

}  // namespace

TEST_CASE("verdicts on files of many exporters", "[discover][exporters]") {
  const std::string folder = kData + "exporters/";
  nlohmann::json files;
  std::ifstream(folder + "truth.json") >> files;
  REQUIRE(files.size() >= 12);
  size_t tensors = 0, unsure = 0;
  for (const auto& [file, truth] : files.items()) {
    const auto found = listed(import_model(folder + file + ".onnx"));
    for (const auto& [name, is] : truth.items()) {
      if (is == "any") continue;
      const auto at = found.find(name);
      const Listed row = at == found.end() ? Listed{false, false, "not listed"} : at->second;
      INFO(file << ": " << name << " is a " << is << "; " << row.reason);
      ++tensors;
      unsure += row.unsure;
      if (!row.unsure) CHECK(row.trainable == (is == "weight"));
    }
  }
  CHECK(tensors > 200);
  CHECK(unsure * 100 <= 3 * tensors);  // at most 3 % of the decisions may be unsure
}
