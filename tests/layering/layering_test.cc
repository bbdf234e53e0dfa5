// Checks the order of the modules in ARCHITECTURE.md. Includes follow its table. A library is included only by the
// module that wraps it. The trainer does not read a node's operator, and run/ does not depend on the command line.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support.h"

namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Reads what each module may include besides itself: the table of ARCHITECTURE.md, rows "| `name/` | contents | a, b
// |".
std::map<std::string, std::set<std::string>> read_table(const std::string& text) {
  static const std::regex row(R"re(^\| `(\w+)/` \|.*\|([^|]*)\|$)re"), word(R"re(\w+)re");
  std::map<std::string, std::set<std::string>> out;
  std::istringstream in(text);
  std::smatch m;
  for (std::string line; std::getline(in, line);) {
    if (!std::regex_match(line, m, row)) continue;
    const std::string names = m[2];
    std::set<std::string>& to = out[m[1]];
    for (std::sregex_iterator i(names.begin(), names.end(), word), end; i != end; ++i) to.insert(i->str());
  }
  return out;
}

const std::map<std::string, std::set<std::string>>& allowed() {
  static const auto table = read_table(read(fs::path(amp::test::source_root()) / "ARCHITECTURE.md"));
  return table;
}

// A row of the table of folders: "| `run/data/` | spec, settings |".
struct Folder {
  std::string parent, name;  // "run", "data"
  std::vector<std::string> allowed;
};
std::vector<Folder> read_folders(const std::string& text) {
  static const std::regex row(R"re(^\| `([\w/]+)/(\w+)/` \|([^|]*)\|$)re"), word(R"re(\w+)re");
  std::vector<Folder> out;
  std::istringstream in(text);
  std::smatch m;
  for (std::string line; std::getline(in, line);) {
    if (!std::regex_match(line, m, row)) continue;
    Folder& f = out.emplace_back(Folder{m[1], m[2], {}});
    const std::string names = m[3];
    for (std::sregex_iterator i(names.begin(), names.end(), word), end; i != end; ++i) f.allowed.push_back(i->str());
  }
  return out;
}

const std::vector<Folder>& folders() {
  static const auto table = read_folders(read(fs::path(amp::test::source_root()) / "ARCHITECTURE.md"));
  return table;
}

// Returns the part of `path` below parent/ that names a folder: "data" for run/data/x.h; empty for run/host.h.
std::string folder_in(const std::string& parent, const std::string& path) {
  if (path.rfind(parent + "/", 0) != 0) return {};
  const std::string rest = path.substr(parent.size() + 1);
  return rest.find('/') == std::string::npos ? std::string() : rest.substr(0, rest.find('/'));
}

// Returns why a file may not include another file of the same parent folder; empty if it may.
std::string folder_fault(const std::string& from, const std::string& to) {
  std::set<std::string> parents;
  for (const Folder& f : folders()) parents.insert(f.parent);
  for (const std::string& parent : parents) {
    if (from.rfind(parent + "/", 0) != 0 || to.rfind(parent + "/", 0) != 0) continue;
    const std::string a = folder_in(parent, from), b = folder_in(parent, to);
    if (to == "run/run.h") return "run/run.h is for other programs";
    if (b.empty() || a == b || from == "run/run.h") continue;
    const auto row = std::find_if(folders().begin(), folders().end(),
                                  [&](const Folder& f) { return f.parent == parent && f.name == a; });
    const bool listed =
        row != folders().end() && std::find(row->allowed.begin(), row->allowed.end(), b) != row->allowed.end();
    if (!listed) return parent + "/" + a + " may not include " + parent + "/" + b;
  }
  return {};
}

struct Source {
  std::string path;  // "ops/conv.cc"
  std::string text;
};

std::string module_of(const std::string& path) { return path.substr(0, path.find('/')); }

struct Include {
  std::string path;
  bool quoted = false;
  int line = 0;
};
std::vector<Include> includes(const std::string& text) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  std::vector<Include> out;
  std::istringstream in(text);
  std::smatch m;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (std::regex_search(line, m, pattern)) out.push_back({m[2], m[1] == "\"", number});
  }
  return out;
}

bool is_protobuf(const std::string& p) { return p.rfind("onnx/", 0) == 0 || p.rfind("google/protobuf", 0) == 0; }
bool is_cuda(const std::string& p) {
  return p.rfind("cuda", 0) == 0 || p.rfind("cublas", 0) == 0 || p.rfind("cudnn", 0) == 0 || p == "nccl.h";
}

// Returns the faults of one file.
std::vector<std::string> faults(const Source& s) {
  std::vector<std::string> out;
  const std::string module = module_of(s.path);
  const auto add = [&](int line, const std::string& what) {
    out.push_back(s.path + ":" + std::to_string(line) + ": " + what);
  };
  for (const Include& i : includes(s.text)) {
    if (i.quoted) {
      const std::string target = module_of(i.path);
      if (i.path.find('/') == std::string::npos || !allowed().count(target))
        add(i.line, "\"" + i.path + "\" is not a path from the root into a module");
      else if (target != module && !allowed().at(module).count(target))
        add(i.line, module + " may not include " + target + " (\"" + i.path + "\")");
      if (const std::string why = folder_fault(s.path, i.path); !why.empty()) add(i.line, why);
    }
    if (is_protobuf(i.path) && module != "importer") add(i.line, "only importer sees ONNX and Protocol Buffers");
    if (i.path == "mpi.h" && s.path.rfind("trainer/mpi/", 0) != 0) add(i.line, "only trainer/mpi sees MPI");
    if (i.path == "microhttpd.h" && s.path != "run/report/report_server.cc")
      add(i.line, "only run/report/report_server.cc sees HTTP");
    if (is_cuda(i.path) && s.path.rfind("backend/cuda/", 0) != 0) add(i.line, "only backend/cuda sees CUDA");
  }
  static const std::regex command_line(R"re(\b(argv|argc|Flag|Verb|std::c(out|err|in)|printf)\b)re");
  static const std::regex op_name(R"re((\bop\s*->\s*name|\.op\s*[!=]=|\bop_name\b|->op\s*[!=]=|\bop\(\)\s*\.name))re");
  std::istringstream in(s.text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (module == "trainer" && std::regex_search(line, op_name)) add(number, "the trainer asks a node its operator");
    if (module == "run" && std::regex_search(line.substr(0, line.find("//")), command_line))
      add(number, "the library knows no command line and prints nothing");
    if (s.path.size() > 2 && s.path.substr(s.path.size() - 2) == ".h" &&
        line.find("using namespace") != std::string::npos)
      add(number, "a header opens a namespace");
  }
  return out;
}

std::vector<Source> sources() {
  std::vector<Source> out;
  for (const auto& [module, _] : allowed()) {
    const fs::path root = fs::path(amp::test::source_root()) / module;
    REQUIRE(fs::is_directory(root));
    for (const auto& e : fs::recursive_directory_iterator(root)) {
      const std::string extension = e.path().extension().string();
      if (extension != ".h" && extension != ".cc" && extension != ".cu" && extension != ".cuh") continue;
      out.push_back({fs::relative(e.path(), amp::test::source_root()).generic_string(), read(e.path())});
    }
  }
  return out;
}

}  // namespace

TEST_CASE("includes follow the order of the modules") {
  const std::vector<Source> all = sources();
  CHECK(allowed().size() == 12);
  CHECK(all.size() > 150);
  size_t read = 0;
  for (const Source& s : all) {
    read += includes(s.text).size();
    for (const std::string& f : faults(s)) FAIL_CHECK(f);
  }
  CHECK(read > 1000);
}

// A row names only folders of earlier rows, so the folders of a module have an order. Their README.md repeats the row.
TEST_CASE("the table of folders is complete and has an order") {
  std::map<std::string, std::set<std::string>> before;
  for (const Folder& f : folders()) {
    const fs::path folder = fs::path(amp::test::source_root()) / f.parent / f.name;
    REQUIRE(fs::is_directory(folder));
    std::string names;
    for (const std::string& a : f.allowed) {
      INFO(f.parent << "/" << f.name << " includes " << a);
      CHECK(before[f.parent].count(a) == 1);
      names += (names.empty() ? "`" : ", `") + a + "/`";
    }
    std::string text = std::regex_replace(read(folder / "README.md"), std::regex(R"re(\s+)re"), " ");
    INFO(folder << "/README.md");
    CHECK(text.find("May include its siblings: " + (names.empty() ? "none" : names) + ".") != std::string::npos);
    before[f.parent].insert(f.name);
  }
  CHECK(before.size() == 2);
  for (const auto& [parent, names] : before) {
    for (const auto& e : fs::directory_iterator(fs::path(amp::test::source_root()) / parent)) {
      INFO(e.path());
      CHECK((!e.is_directory() || names.count(e.path().filename().string()) == 1));
    }
  }
}

TEST_CASE("no header includes itself around a circle") {
  std::map<std::string, std::vector<std::string>> edges;
  for (const Source& s : sources()) {
    for (const Include& i : includes(s.text)) {
      if (i.quoted) edges[s.path].push_back(i.path);
    }
  }
  enum { kNew, kOpen, kDone };
  std::map<std::string, int> state;
  const std::function<void(const std::string&)> visit = [&](const std::string& path) {
    state[path] = kOpen;
    for (const std::string& next : edges[path]) {
      if (state[next] == kOpen) FAIL_CHECK(path << " and " << next << " include each other");
      if (state[next] == kNew) visit(next);
    }
    state[path] = kDone;
  };
  std::vector<std::string> paths;
  for (const auto& [path, _] : edges) paths.push_back(path);
  for (const std::string& p : paths) {
    if (state[p] == kNew) visit(p);
  }
}

// The linker merges two types with the same name in one program. CUDA's headers are not checked, because their code is
// in separate namespaces or runs on the device. ARM's folder is not checked, because a program has the code of one
// architecture only.
TEST_CASE("no name is that of two types") {
  static const std::regex type(R"re(^(?:struct|class|enum class|enum) (\w+)(?: final)?(?: :[^;]*)? *\{)re");
  std::map<std::string, std::string> first;
  for (const Source& s : sources()) {
    if (!s.path.ends_with(".h") || s.path.find("/cuda/") != std::string::npos) continue;
    if (s.path.find("isa/arm/levels.h") != std::string::npos) continue;
    std::istringstream in(s.text);
    std::smatch m;
    for (std::string line; std::getline(in, line);) {
      if (!std::regex_search(line, m, type)) continue;
      const std::string& other = first.emplace(m[1], s.path).first->second;
      if (other != s.path) FAIL_CHECK(m[1] << " is a type in " << other << " and in " << s.path);
    }
  }
  CHECK(first.size() > 300);
}

TEST_CASE("the rules catch what they forbid") {
  const auto caught = [](const std::string& path, const std::string& text) { return faults({path, text}).size(); };
  CHECK(caught("graph/x.cc", "#include \"backend/kernel.h\"\n") == 1);
  CHECK(caught("base/x.h", "  # include \"graph/graph.h\"\n") == 1);
  CHECK(caught("importer/x.cc", "#include \"precision/decide.h\"\n#include \"data/table.h\"\n") == 2);
  CHECK(caught("data/x.cc", "#include \"trainer/compile/session.h\"\n") == 1);
  CHECK(caught("importer/x.cc", "#include \"backend/kernel.h\"\n") == 1);
  CHECK(caught("trainer/x.cc", "#include \"run/prepare/common.h\"\n") == 1);
  CHECK(caught("run/data/x.cc", "#include \"run/model/surgery.h\"\n") == 1);
  CHECK(caught("run/model/x.cc", "#include \"run/data/data.h\"\n#include \"run/host.h\"\n") == 0);
  CHECK(caught("run/train/x.cc", "#include \"run/run.h\"\n") == 1);
  CHECK(caught("run/host.h", "#include \"run/spec/spec.h\"\n") == 1);
  CHECK(caught("backend/cpu/gemm/x.cc", "#include \"backend/cpu/conv/conv.h\"\n") == 1);
  CHECK(caught("run/x.cc", "#include \"tools/cli/options.h\"\n") == 1);
  CHECK(caught("run/x.cc", "int main(int argc, char** argv) {\n") == 1);
  CHECK(caught("run/x.cc", "std::cout << 1; // Verb\n") == 1);
  CHECK(caught("run/x.cc", "// as a Flag of the command line\n") == 0);
  CHECK(caught("tools/x.cc", "#include \"trainer/loop/trainer.h\"\n#include \"data/table.h\"\n") == 2);
  CHECK(caught("trainer/x.cc", "#include \"session.h\"\n") == 1);
  CHECK(caught("tools/x.cc", "#include <onnx/onnx_pb.h>\n") == 1);
  CHECK(caught("backend/cpu/x.cc", "#include <cuda_runtime.h>\n") == 1);
  CHECK(caught("trainer/x.cc", "if (node.op->name == \"Dropout\") return;\n") == 1);
  CHECK(caught("trainer/x.cc", "if (source.op == \"Dropout\") return;\n") == 1);
  CHECK(caught("ops/x.h", "using namespace amp;\n") == 1);
  CHECK(caught("ops/x.cc", "#include \"backend/cpu/gemm/gemm.h\"\n#include <vector>\nusing namespace std;\n") == 0);
  CHECK(caught("importer/x.cc", "#include <onnx/onnx_pb.h>\n") == 0);
}
