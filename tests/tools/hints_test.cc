// Everything that error hints recommend exists: every flag, value, verb and file type named by a text in the sources.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <filesystem>
#include <regex>
#include <set>

#include "base/npz.h"
#include "data/reader.h"
#include "data/table.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
namespace fs = std::filesystem;

namespace {

struct Text {
  std::string where, text;
};

// Returns whether a quote separates digits, as in 1'000, and does not start a character literal.
bool separates_digits(const std::string& code, size_t at) {
  const auto digit = [&](size_t i) { return i < code.size() && std::isxdigit(static_cast<unsigned char>(code[i])); };
  return at > 0 && digit(at - 1) && digit(at + 1) && (at + 2 >= code.size() || code[at + 2] != '\'');
}

// Returns the string literals of a C++ source; adjacent ones are joined. Comments and character literals are skipped.
std::vector<Text> literals(const std::string& path, const std::string& code) {
  std::vector<Text> out;
  bool adjacent = false;
  int line = 1;
  const auto skip = [&](size_t& i, size_t to) {
    line +=
        static_cast<int>(std::count(code.begin() + static_cast<long>(i), code.begin() + static_cast<long>(to), '\n'));
    i = to;
  };
  const auto keep = [&](const std::string& text) {
    if (!adjacent) out.push_back({path + ":" + std::to_string(line), ""});
    out.back().text += text;
    adjacent = true;
  };
  for (size_t i = 0; i < code.size();) {
    const std::string_view rest = std::string_view(code).substr(i);
    if (rest.starts_with("//")) {
      skip(i, std::min(code.find('\n', i), code.size()));
    } else if (rest.starts_with("/*")) {
      skip(i, std::min(code.find("*/", i) + 2, code.size()));
    } else if (rest.starts_with("R\"")) {
      const size_t open = code.find('(', i);
      const std::string close = ")" + code.substr(i + 2, open - i - 2) + "\"";
      const size_t end = code.find(close, open);
      keep(code.substr(open + 1, end - open - 1));
      skip(i, end + close.size());
    } else if (rest[0] == '"') {
      std::string text;
      for (++i; i < code.size() && code[i] != '"'; ++i) {
        if (code[i] == '\\') ++i;
        text += code[i];
      }
      keep(text);
      ++i;
    } else if (rest[0] == '\'' && !separates_digits(code, i)) {
      i += rest[1] == '\\' ? 2 : 1;
      skip(i, code.find('\'', i + 1) + 1);
      adjacent = false;
    } else {
      adjacent = adjacent && std::isspace(static_cast<unsigned char>(rest[0]));
      line += rest[0] == '\n';
      ++i;
    }
  }
  return out;
}

// Literals of the product, with settings as the flags that the program prints.
std::vector<Text> all_literals() {
  std::vector<Text> out;
  for (const char* module :
       {"base", "graph", "backend", "ops", "importer", "precision", "data", "trainer", "run", "tools"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_root()) / module)) {
      const std::string extension = entry.path().extension();
      if (extension != ".cc" && extension != ".h") continue;
      for (const Text& t : literals(fs::relative(entry.path(), source_root()), bytes_of(entry.path())))
        out.push_back({t.where, cli::with_flags(t.text)});
    }
  }
  return out;
}

bool word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Returns the lower-case word that begins at a position. Empty if there is none, or a placeholder in capitals.
std::string word_at(const std::string& text, size_t at) {
  size_t end = at;
  while (end < text.size() && word_character(text[end])) ++end;
  const std::string word = text.substr(at, end - at);
  const bool lower = !word.empty() && std::islower(static_cast<unsigned char>(word[0])) &&
                     std::none_of(word.begin(), word.end(), [](unsigned char c) { return std::isupper(c); });
  return lower ? word : "";
}

// Returns whether a value in a text is one of the flag's choices.
bool takes(const cli::Flag& f, const std::string& value) {
  // Lists words that may follow a flag without being its value, as in "--task chooses others".
  static const std::set<std::string> words = {"and",  "or",  "nor",  "is",    "are",     "has",   "says", "with", "to",
                                              "when", "for", "that", "would", "chooses", "gives", "in",   "by"};
  if (f.type() != SettingType::choice || words.count(value)) return true;
  try {
    parse_value(f, std::vector<std::string>{value});
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("literals are found in C++ sources") {
  const auto t = literals("f",
                          "a(\"x\" // \"no\"\n  \"y\\\"z\", 'q', '\"', R\"(r\"s)\");\n/* \"no\" */ int n = 1'000; f(U' "
                          "', '\\''); b(\"t\")");
  REQUIRE(t.size() == 3);
  CHECK(t[0].text == "xy\"z");
  CHECK(t[1].text == "r\"s");
  CHECK(t[2].text == "t");
  CHECK(t[2].where == "f:3");
}

// Returns whether a position is in a quoted command of another program.
static bool of_another_program(const std::string& text, size_t at) {
  const size_t open = text.rfind('`', at);
  if (open == std::string::npos || std::count(text.begin(), text.begin() + static_cast<long>(at), '`') % 2 == 0)
    return false;
  const std::string_view command = std::string_view(text).substr(open + 1);
  return command.starts_with("python ") || command.starts_with("optimum-cli ") || command.starts_with("paddle2onnx ");
}

TEST_CASE("every flag that a text names exists, and takes the value that the text gives it") {
  // Flags that are not in the table: flags of the help and the parser, placeholders, and NVRTC's options.
  static const std::set<std::string> other = {"help",    "help_all",          "all",      "version", "flag", "no_flag",
                                              "explain", "print_completions", "print_man"};
  size_t flags = 0;
  for (const Text& t : all_literals()) {
    if (t.where.find("backend/cuda/runtime/nvrtc.cc") == 0) continue;
    for (size_t at = t.text.find("--"); at != std::string::npos; at = t.text.find("--", at + 2)) {
      const char before = at ? t.text[at - 1] : ' ';
      const std::string flag = word_at(t.text, at + 2);
      if (before == '-' || word_character(before) || flag.empty() || other.count(flag)) continue;
      if (of_another_program(t.text, at)) continue;
      const size_t end = at + 2 + flag.size();
      const bool given = end < t.text.size() && (t.text[end] == ' ' || t.text[end] == '=');
      const std::string value = given ? word_at(t.text, end + 1) : "";
      INFO(t.where << ": " << t.text);
      const auto found = cli::find_flag(flag);
      CHECK(found.has_value());
      if (!found) continue;
      ++flags;
      if (!value.empty() && !found->alias) CHECK(takes(*found->flag, value));
    }
  }
  CHECK(flags > 100);  // flags were found
}

TEST_CASE("every verb that a text quotes exists") {
  size_t verbs = 0;
  for (const Text& t : all_literals()) {
    for (size_t at = t.text.find('`'); at != std::string::npos;) {
      const size_t close = t.text.find('`', at + 1);
      if (close == std::string::npos) break;
      const std::string quoted = t.text.substr(at + 1, close - at - 1), verb = word_at(quoted, 0);
      at = t.text.find('`', close + 1);
      // A quoted text is a command if it is `verb` or `verb MODEL ...`. Other words are quoted, too.
      const bool command = !verb.empty() && (verb.size() == quoted.size() ||
                                             (quoted[verb.size()] == ' ' && verb.size() + 1 < quoted.size() &&
                                              std::isupper(static_cast<unsigned char>(quoted[verb.size() + 1]))));
      if (!command) continue;
      INFO(t.where << ": " << t.text);
      CHECK(cli::find_verb(verb) != nullptr);
      ++verbs;
    }
  }
  CHECK(verbs >= 2);
}

TEST_CASE("the file types that a refusal names are those that are read") {
  const TempDir f;
  const std::string model = save(f, test::parse(kMlp));
  write_bytes(f / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
  for (const char* name : {"mnist.pkl", "images.mat", "table.xlsx", "a.sqlite", "cat.heic"}) {
    write_bytes(f / name, "\x01\x02");
    const Said s = run_verb(
        {model, "--train", f / name, "--text_columns", "a", "--vocab", f / "vocab.txt", "--output_dir", f / "run"});
    INFO(name << ": " << s.fact << " / " << s.hint);
    CHECK(s.id == "E_FILE_TYPE");
    for (const char* type : {".csv", ".tsv", ".jsonl", ".safetensors", ".npz", ".npy", "images", "IDX"})
      CHECK(s.hint.find(type) != std::string::npos);
    static const std::regex extension(R"(\.[a-z]+\b)");
    for (auto m = std::sregex_iterator(s.hint.begin(), s.hint.end(), extension); m != std::sregex_iterator(); ++m) {
      const std::string file = "x" + m->str();
      const bool text = m->str() != ".safetensors" && m->str() != ".npz" && m->str() != ".npy";
      if (text) CHECK_NOTHROW(reader_of(file));
      if (!text) CHECK_NOTHROW(require_tensor_file(file));
    }
  }
}

TEST_CASE("a single image names what images are trained from") {
  const TempDir f;
  const std::string model = save(f, test::parse(kMlp));
  for (const char* name : {"cat.png", "photo.JPG"}) {
    write_bytes(f / name, "\x01\x02");
    const Said s = run_verb({model, "--train", f / name, "--output_dir", f / "run"});
    CHECK(s.id == "E_USAGE");
    CHECK(s.hint.find("a folder for each class") != std::string::npos);
    CHECK(s.hint.find("--image_column") != std::string::npos);
  }
}

TEST_CASE("an unclosed quote names what helps, and it helps") {
  const TempDir f;
  const std::string rows = "text,label\n\"never closed,yes\nfine,no\n";
  write_bytes(f / "t.csv", rows);
  try {
    Table::read(f / "t.csv");
    FAIL("read");
  } catch (const Error& e) {
    CHECK(e.id() == "E_DATA_CSV");
    CHECK(e.hint().find(".tsv") != std::string::npos);
    CHECK(e.hint().find("quoting") == std::string::npos);
  }
  std::string tabs = rows;
  std::replace(tabs.begin(), tabs.end(), ',', '\t');
  write_bytes(f / "t.tsv", tabs);
  CHECK(Table::read(f / "t.tsv").rows() == 2);
}

TEST_CASE("a value that resembles nothing suggests nothing") {
  for (const char* word : {"FOO", "bar", "xyz"}) {
    const std::string said = train_refusal({"--task", word});
    CHECK(said.find("did you mean") == std::string::npos);
    CHECK(said.find("one of auto, classification") != std::string::npos);
  }
  CHECK(train_refusal({"--task", "clasification"}).find("did you mean 'classification'?") != std::string::npos);
  CHECK(train_refusal({"--task", "pox"}).find("did you mean 'pos'?") != std::string::npos);
}

TEST_CASE("a name of a file or folder that is misspelt suggests the nearest one") {
  const TempDir f;
  fs::create_directories(f / "first_run");
  write_bytes(f / "settings.json", "{}");
  const std::string model = test_data("zoo/lenet_relu_dyn18/model.onnx");
  const auto near = [&](const std::string& name) { return "did you mean '" + (f / name) + "'?"; };
  CHECK(run_verb({"report", f / "firstrun", "--out", f / "r.html"}).hint == near("first_run"));
  CHECK(run_verb({"plan", model, "--use_fp16", "--op_list", f / "setings.json"}).hint == near("settings.json"));
  CHECK(train_refusal({"--config", f / "setings.json"}).find(near("settings.json")) != std::string::npos);
  CHECK(run_verb({"report", f / "unlike", "--out", f / "r.html"}).hint.find("--output_dir") != std::string::npos);
}
