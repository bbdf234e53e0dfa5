// Fused kernels on the emulated device: interpreted, and from the generated source, compiled by this machine's
// compiler. Their bits are those of the unfused graph.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_all.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <map>
#include <set>
#include <thread>

#include "backend/functor_texts.h"
#include "backend/functors.h"
#include "ops/cuda/fused_source.h"
#include "ops/fuse.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/host_compiler.h"
#include "tests/cuda/trained.h"
#include "tests/ops/fuse_cases.h"
#include "tests/ops/one_node.h"
#ifdef TEST_NVRTC
#include "backend/cuda/runtime/nvrtc.h"
#include "tests/support.h"
#endif

using namespace amp;
using namespace amp::test;

namespace {

// Nodes that launch something: no views, no casts of parameters, which the update does.
size_t launches(const Graph& g) {
  size_t n = 0;
  for (int32_t i = 0; i < g.n_nodes(); ++i) {
    const Node& node = g.node(NodeId{i});
    n += !node.op->view && !(node.op->name == "Cast" && g.value(node.in[0]).kind == ValueKind::param);
  }
  return n;
}

}  // namespace

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
    INFO(op->name);
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
  double longest = 0, all = 0;
  for (const auto& [name, source] : sources) {
    INFO(source.body);
    std::string why;
    const auto start = std::chrono::steady_clock::now();
    const std::string code = cuda::compile_cubin(source, "sm_90", why);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    longest = std::max(longest, seconds);
    all += seconds;
    INFO(why);
    REQUIRE(code.size() > 1000);
    CHECK(code.substr(0, 4) ==
          "\x7f"
          "ELF");
  }
  std::cout << "NVRTC " << cuda::nvrtc_version() << ": " << sources.size() << " fused kernels in " << all
            << " s on one thread, the longest " << longest << " s\n";
}

TEST_CASE("files of machine code are whole or not there", "[cuda][fuse][nvrtc]") {
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
  CHECK(std::distance(std::filesystem::directory_iterator(folder / "sub"), {}) == 1);  // nothing half written is left
}
#endif

// ", 7 to compile: 0.9 s on 4 threads", of the kernels of a training micro-batch.
static std::string seconds_to_compile([[maybe_unused]] const Golden& g, [[maybe_unused]] DType low) {
  std::string text;
#ifdef TEST_NVRTC
  if (!cuda::nvrtc_missing().empty()) return text;
  const auto device = cuda::make_emulated_device();
  std::map<std::string, cuda::GeneratedSource> sources;
  device->compiler = [&](const cuda::GeneratedSource& s) {
    sources.emplace(s.name, s);
    return cuda::GeneratedKernel{};
  };
  prepare_training(g, *device, low);
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::future<std::string>> codes;
  for (const auto& [name, source] : sources) {
    codes.push_back(std::async(std::launch::async, [&s = source] {
      std::string why;
      return cuda::compile_cubin(s, "sm_90", why);
    }));
  }
  for (auto& c : codes) CHECK_FALSE(c.get().empty());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  text = cat(", ", sources.size(), " to compile: ", seconds, " s on ", std::thread::hardware_concurrency(), " threads");
#endif
  return text;
}

// Not run by itself: test_cuda "[fusion_table]" FOLDER_OF_MODELS in AMP_ZOO.
TEST_CASE("kernels of a training micro-batch, before and after", "[.][fusion_table]") {
  const char* const zoo = std::getenv("AMP_ZOO");
  const std::filesystem::path folder = zoo ? zoo : test_data() + "/zoo";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    try {
      const Golden g(entry.path());
      const Graph before = *planned_graph(g, DType::f16), after = fuse_elementwise(before);
      std::cout << g.name << ": " << launches(before) << " kernels, fused " << launches(after)
                << seconds_to_compile(g, DType::f16) << '\n';
    } catch (const std::exception& e) {
      std::cout << entry.path().filename().string() << ": " << e.what() << '\n';
    }
  }
}

// Not run by itself: what fusing would gain on the CPU, where it is not done.
TEST_CASE("time of a training micro-batch on the CPU, fused and not", "[.][fusion_cpu]") {
  const char* const zoo = std::getenv("AMP_ZOO");
  const std::filesystem::path folder = zoo ? zoo : test_data() + "/zoo";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    for (const DType low : {DType::f32, DType::f16}) {
      const Golden g(entry.path());
      const std::shared_ptr<const Graph> plain = planned_graph(g, low),
                                         graphs[2] = {plain, std::make_shared<Graph>(fuse_elementwise(*plain))};
      std::vector<HostTensor> memory;
      std::vector<std::unique_ptr<Program>> programs;
      HostArena arenas[2];
      const RunState state{1, 2, 3};
      for (size_t i = 0; i < 2; ++i) {
        ProgramOptions o;
        o.arena = &arenas[i];
        o.state = &state;
        for (int32_t v = 0; v < graphs[i]->n_values(); ++v) {
          const Value& x = graphs[i]->value(ValueId{v});
          if (x.kind != ValueKind::param) continue;
          const auto slot = static_cast<size_t>(x.slot);
          if (o.params.size() <= slot) o.params.resize(slot + 1);
          if (o.grads.size() <= slot) o.grads.resize(slot + 1);
          for (auto* to : {&o.params, &o.grads}) {
            memory.push_back(to == &o.params ? random_tensor(x.dims, slot).cast(x.dtype)
                                             : HostTensor::zeros(x.dtype, x.dims));
            (*to)[slot] = Tensor{memory.back().mutable_data(), x.dtype, x.dims};
          }
        }
        programs.push_back(std::make_unique<Program>(graphs[i], o));
      }
      double best[2] = {1e9, 1e9};
      for (int run = 0; run < 60; ++run) {
        Program& p = *programs[static_cast<size_t>(run % 2)];
        for (const auto& [name, t] : g.batch) {
          if (p.has_input(name)) p.set_input(name, t);
        }
        const auto start = std::chrono::steady_clock::now();
        p.run();
        best[run % 2] =
            std::min(best[run % 2], std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
      std::cout << g.name << ' ' << name_of(low) << ": " << best[0] * 1e3 << " ms, fused " << best[1] * 1e3 << " ms\n";
    }
  }
}
