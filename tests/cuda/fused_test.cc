// Fused kernels on the emulated device, interpreted and compiled from the generated source by the host compiler. Their
// bits equal those of the unfused graph.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "backend/functor_texts.h"
#include "backend/functors.h"
#include "ops/cuda/fused_source.h"
#include "ops/passes/fuse.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/host_compiler.h"
#include "tests/cuda/trained.h"
#include "tests/ops/fuse_cases.h"
#include "tests/ops/one_node.h"
#include "tests/support.h"
#ifdef TEST_NVRTC
#include "backend/cuda/runtime/nvrtc.h"
#endif

using namespace amp;
using namespace amp::test;

TEST_CASE("fused kernels have the text of every functor that they may call", "[cuda][fuse]") {
  std::set<std::string> named;
  for (const FunctorName& n : functor_names()) {
    INFO(n.op);
    CHECK(named.insert(std::string(n.op)).second);
    CHECK(find_functor(n.op));
    bool found = false;
    for (const FunctorText& t : functor_texts())
      found = found || (t.file == n.file && t.text.find(cat("struct ", n.functor, " :")) != std::string_view::npos);
    CHECK(found);
  }
  for (const OpDef* op : all_core_ops()) {
    INFO(op->name << " needs '// <functors>' around its functor (docs/adding_an_operator.md), and CMake run once more");
    if (find_functor(op->name)) CHECK(named.count(op->name));
  }
  CHECK(named.size() > 90);
}

TEST_CASE("random graphs compute the same bits when fused on the emulated device", "[cuda][fuse]") {
  const bool compiled = GENERATE(false, true);
  if (compiled && !HostCompiler::present()) SKIP("there is no C++ compiler, or not the sources");
  const auto plain = cuda::make_emulated_device(), device = cuda::make_emulated_device();
  HostCompiler compiler;
  size_t with_sums = 0;
  if (compiled) {
    device->compiler = [&](const cuda::GeneratedSource& s) {
      with_sums += s.cooperative;
      return compiler(s);
    };
  }
  for (uint64_t seed = 0; seed < (compiled ? 24 : 60); ++seed) {
    INFO("seed " << seed << (compiled ? ", compiled" : ", interpreted"));
    const RandomGraph r(seed);
    const std::vector<HostTensor> before = r.run(r.graph, *plain), after = r.run(fuse_elementwise(r.graph), *device);
    REQUIRE(before.size() == after.size());
    for (size_t i = 0; i < before.size(); ++i) CHECK(same_bits(before[i], after[i]));
  }
  CHECK((compiler.compiled() > 10) == compiled);
  CHECK((with_sums > 2) == compiled);
}

TEST_CASE("models train to the same bits when fused", "[cuda][fuse]") {
  const auto plain = cuda::make_emulated_device(), interpreting = cuda::make_emulated_device(),
             compiling = cuda::make_emulated_device();
  static HostCompiler compiler;
  if (HostCompiler::present()) compiling->compiler = [&](const cuda::GeneratedSource& s) { return compiler(s); };
  interpreting->chains = compiling->chains = false;  // regions sum channels and taps in a different order
  for (const auto& entry : zoo_entries()) {
    DYNAMIC_SECTION(entry.filename().string()) {
      const Golden g(entry);
      for (const DType low : {DType::f32, DType::f16, DType::bf16}) {
        const HostTensor want = trained(g, *plain, low, 2, false);
        CHECK(same_bits(trained(g, *interpreting, low, 2, true), want));
        if (compiling->compiler) CHECK(same_bits(trained(g, *compiling, low, 2, true), want));
      }
    }
  }
  if (!compiling->compiler) SKIP("there is no C++ compiler, or not the sources: kernels were interpreted only");
}

#ifdef TEST_NVRTC
TEST_CASE("NVRTC compiles the generated kernels of models", "[cuda][fuse][nvrtc]") {
  if (!cuda::nvrtc_missing().empty()) SKIP("no NVRTC: " << cuda::nvrtc_missing());
  const auto device = cuda::make_emulated_device();
  std::map<std::string, cuda::GeneratedSource> sources;
  device->compiler = [&](const cuda::GeneratedSource& s) {
    sources.emplace(s.name, s);
    return cuda::GeneratedKernel{};
  };
  for (const auto& entry : zoo_entries()) {
    const Golden g(entry);
    for (const DType low : {DType::f32, DType::f16}) trained(g, *device, low, 1, true);
  }
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const RandomGraph r(seed);
    r.run(fuse_elementwise(r.graph), *device);
  }
  CHECK(sources.size() > 40);
  CHECK(std::count_if(sources.begin(), sources.end(), [](const auto& s) { return s.second.cooperative; }) > 2);
  for (const auto& [name, source] : sources) {
    INFO(source.body);
    std::string why;
    const std::string code = cuda::compile_cubin(source, "sm_90", why);
    INFO(why);
    REQUIRE(code.size() > 1000);
    CHECK(code.substr(0, 4) ==
          "\x7f"
          "ELF");
  }
}

TEST_CASE("files of machine code are complete or absent", "[cuda][fuse][nvrtc]") {
  const TempDir folder;
  const std::string path = folder / "sub/a.cubin";
  CHECK(cuda::read_cubin(path).empty());
  const std::string code(5000, 'x');
  cuda::write_cubin(path, code);
  CHECK(cuda::read_cubin(path) == code);
  std::filesystem::resize_file(path, 3000);
  CHECK(cuda::read_cubin(path).empty());
  cuda::write_cubin(path, code);
  CHECK(cuda::read_cubin(path) == code);
  std::fstream(path, std::ios::in | std::ios::out).seekp(100).put('y');
  CHECK(cuda::read_cubin(path).empty());
  CHECK(std::distance(std::filesystem::directory_iterator(folder / "sub"), {}) == 1);  // no temporary file is left
}
#endif
