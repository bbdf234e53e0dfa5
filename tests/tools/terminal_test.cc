// Strings of a model that control a terminal: verbs print them escaped, as text, as JSON and in errors.
#include <catch2/catch_all.hpp>

#include "base/safetensors.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"
#include "tools/cli/error_line.h"

using namespace amp;
using namespace amp::test;

namespace {

const std::string kOp = "\x1b[31mOp\x7f\xc2\x9b\xe2\x80\xae";  // a color, DEL, C1's CSI, right to left

std::string model(const TempDir& f, const std::string& op, const std::string& domain) {
  onnx::ModelProto m = parse(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[N,4] x) => (float[N,2] y)
    <float[4,2] w = {1,2,3,4,5,6,7,8}> { h = MatMul (x, w)  y = Relu (h) })");
  m.mutable_graph()->mutable_node(1)->set_op_type(op);
  m.mutable_graph()->mutable_node(1)->set_domain(domain);
  if (!domain.empty()) {
    m.add_opset_import()->set_domain(domain);
    m.mutable_opset_import(1)->set_version(1);
  }
  return save(f, m);
}

// Runs the words as the program does, and returns what it prints.
std::string printed(const std::vector<std::string>& words) {
  std::ostringstream err;
  Said said;
  cli::guarded(err, [&] {
    said = run_verb(words);
    if (said.error) std::rethrow_exception(said.error);
    return said.code;
  });
  return said.out + said.err + err.str();
}

}  // namespace

TEST_CASE("strings of a model do not control the terminal") {
  const TempDir f;
  write_safetensors(f / "batch.safetensors",
                    {{"x", HostTensor::zeros(DType::f32, {2, 4})}, {"label", HostTensor::zeros(DType::i64, {2})}});
  for (const auto& [op, domain] : {std::pair{kOp, std::string()}, {std::string("Op"), kOp}, {kOp, kOp}}) {
    const std::string m = model(f, op, domain), batch = f / "batch.safetensors";
    const std::vector<std::vector<std::string>> commands = {
        {"check", m},
        {"check", m, "--json"},
        {"plan", m, "--use_fp16"},
        {"plan", m, "--use_fp16", "--json"},
        {"plan", m, "--use_fp16", "--format", "dot"},
        {"bench", m, "--loss", "cross_entropy"},
        {"predict", m, "--inputs", batch, "--out", f / "p.npz"},
        {m, "--train", batch, "--loss", "cross_entropy", "--max_steps", "1", "--output_dir", f / "run"}};
    for (const std::vector<std::string>& words : commands) {
      const std::string out = printed(words);
      INFO(join(words, " ") << ": " << printable_lines(out));
      if (words[0] == "check" || words[0] == "plan") CHECK(out.find("Op") != std::string::npos);  // Op is named
      CHECK(printable_lines(out) == out);
    }
  }
}
