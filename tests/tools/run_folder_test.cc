// The folder of a run: which contents are refused, what --overwrite replaces and when, and the state after a crash.
#include <sys/resource.h>

#include <catch2/catch_all.hpp>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/fs.h"
#include "base/safetensors.h"
#include "run/folder/output_folder.h"
#include "run/folder/run_files.h"
#include "tests/errors.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace stdfs = std::filesystem;

namespace {

const std::string kEntry = test_data("zoo/lenet_relu_dyn18");

std::vector<std::string> lenet(const std::string& dir, std::vector<std::string> more) {
  std::vector<std::string> words = {
      kEntry + "/model.onnx", "--train", kEntry + "/batch.safetensors", "--loss", "cross_entropy", "--quiet",
      "--output_dir",         dir};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Returns all files of a folder except the lock: path and bytes.
std::map<std::string, std::string> contents(const std::string& dir) {
  std::map<std::string, std::string> out;
  for (const auto& e : stdfs::recursive_directory_iterator(dir)) {
    if (e.is_regular_file() && e.path().filename() != ".lock")
      out[stdfs::relative(e.path(), dir).string()] = bytes_of(e.path().string());
  }
  return out;
}

// Creates a run's folder without a run. Its files contain `text`.
void fake_run(const std::string& dir, const std::string& text, int step) {
  OutputFolder run({dir, "none", true, {}});
  run.begin();
  write_bytes(run.work() + "/metrics.jsonl", text);
  Checkpoint c;
  c.step = step;
  c.tensors["w"] = HostTensor::of<float>({1}, {static_cast<float>(step)});
  save_checkpoint(run.work() + "/checkpoints", c);
  const std::string finish = run.finish_path();
  write_bytes(finish + "/model.onnx", text);
  write_bytes(finish + "/run.json", text);
  run.publish();
}

Error refused(OutputRequest request) {
  return error_of([&] { OutputFolder folder(std::move(request)); });
}

}  // namespace

TEST_CASE("--overwrite: the old run is whole until the new one is complete", "[folder]") {
  const TempDir f;
  const std::string dir = f / "run";
  must_run(lenet(dir, {"--max_steps", "2"}));
  auto before = contents(dir);
  CHECK(before.count("model.onnx") == 1);
  // Tests three failures: a fault that is found while the data are read, a fault that ends the run later, and a full
  // disk.
  CHECK(error_of([&] { must_run(lenet(dir, {"--overwrite", "--val", f / "no.safetensors"})); }).exit() == Exit::data);
  CHECK(contents(dir) == before);
  CHECK(error_of([&] {
          must_run(lenet(dir, {"--overwrite", "--use_fp16", "--inject_overflow", "0-9", "--max_steps", "9",
                               "--max_consecutive_skips", "2"}));
        }).exit() == Exit::numerical);
  auto after = contents(dir);
  std::erase_if(after, [](const auto& e) { return e.first.starts_with(".new-run/"); });
  CHECK(after == before);
  // The new run replaces all files of the old one and no others.
  write_bytes(dir + "/notes.txt", "mine");
  stdfs::create_directory(dir + "/checkpoints/best-of-all");
  must_run(lenet(dir, {"--overwrite", "--max_steps", "1", "--lr", "0.1"}));
  after = contents(dir);
  CHECK(after["notes.txt"] == "mine");
  CHECK(stdfs::exists(dir + "/checkpoints/best-of-all"));
  CHECK(list_checkpoints(dir + "/checkpoints") == std::vector<int64_t>{1});
  CHECK(after["model.onnx"] != before["model.onnx"]);
  CHECK_FALSE(stdfs::exists(dir + "/.new-run"));
  CHECK_FALSE(stdfs::exists(dir + "/.finish"));
}

TEST_CASE("overwrite is neither recorded nor taken from a configuration", "[folder]") {
  const TempDir f;
  const std::string dir = f / "run";
  must_run(lenet(dir, {"--max_steps", "1", "--overwrite"}));
  CHECK_FALSE(json::parse(bytes_of(dir + "/run.json"))["config"].contains("overwrite"));
  const auto before = contents(dir);
  CHECK(error_of([&] { must_run({"--config", dir + "/run.json"}); }).id() == "E_OUTPUT_EXISTS");
  // Writes run.json as an earlier version recorded the flag.
  json old = json::parse(bytes_of(dir + "/run.json"));
  old["config"]["overwrite"] = true;
  old["sources"]["overwrite"] = "command line";
  write_bytes(f / "old.json", old.dump());
  CHECK(error_of([&] { must_run({"--config", f / "old.json"}); }).id() == "E_OUTPUT_EXISTS");
  CHECK(contents(dir) == before);
  write_bytes(f / "own.json", R"({"overwrite": true})");
  const Error e = error_of([&] { must_run(lenet(dir, {"--config", f / "own.json"})); });
  CHECK(e.exit() == Exit::usage);
  CHECK_THAT(e.hint(), ContainsSubstring("--overwrite"));
}

TEST_CASE("an input in the run's folder is never replaced", "[folder]") {
  const TempDir f;
  const std::string dir = f / "mine";
  stdfs::create_directory(dir);
  stdfs::copy(kEntry + "/model.onnx", dir + "/model.onnx");
  const auto before = contents(dir);
  for (const char* resume : {"none", "auto"}) {
    const Error e = refused({dir, resume, resume == std::string("none"), {{"--model", dir + "/../mine/model.onnx"}}});
    CHECK(e.exit() == Exit::usage);
    CHECK(e.id() == "E_OUTPUT_INPUT");
    CHECK_THAT(e.fact(), ContainsSubstring("--model") && ContainsSubstring("mine/model.onnx"));
  }
  // model.onnx is not an input of this run, and no record shows that a run wrote it. --overwrite and --resume do
  // not permit replacing it either.
  for (const OutputRequest& r : {OutputRequest{dir, "none", false, {}}, OutputRequest{dir, "none", true, {}},
                                 OutputRequest{dir, "auto", false, {}}}) {
    const Error e = refused(r);
    CHECK(e.id() == "E_OUTPUT_FOREIGN");
    CHECK_THAT(e.hint(), ContainsSubstring("another `output_dir`"));
  }
  CHECK(contents(dir) == before);
  CHECK_FALSE(stdfs::exists(dir + "/.lock"));
  // Files with other names do not matter.
  stdfs::rename(dir + "/model.onnx", dir + "/base.onnx");
  must_run({dir + "/base.onnx", "--train", kEntry + "/batch.safetensors", "--loss", "cross_entropy", "--quiet",
            "--output_dir", dir, "--max_steps", "1"});
  CHECK(bytes_of(dir + "/base.onnx") == bytes_of(kEntry + "/model.onnx"));
  // A model of the run that the user has replaced belongs to the user.
  stdfs::copy(kEntry + "/model.onnx", dir + "/model.onnx", stdfs::copy_options::overwrite_existing);
  CHECK(refused({dir, "none", true, {}}).id() == "E_OUTPUT_FOREIGN");
}

TEST_CASE("each of a run's names is refused when no run wrote it", "[folder]") {
  for (const std::string name : kRunFiles) {
    const TempDir f;
    const std::string path = f / name;
    if (name == "checkpoints") {
      stdfs::create_directory(path);
      CHECK_NOTHROW(OutputFolder({f.path.string(), "none", false, {}}));
      write_bytes(path + "/mine", "x");
    } else {
      write_bytes(path, "x");
    }
    INFO(name);
    CHECK(refused({f.path.string(), "none", true, {}}).id() == "E_OUTPUT_FOREIGN");
  }
}

TEST_CASE("a wrong start leaves no folder behind, nor a lock in one that was there", "[folder]") {
  const TempDir f;
  CHECK(error_of([&] { must_run(lenet(f / "a/b", {"--val", f / "no.safetensors"})); }).exit() == Exit::data);
  CHECK_FALSE(stdfs::exists(f / "a"));
  stdfs::create_directory(f / "c");
  CHECK(error_of([&] { must_run(lenet(f / "c", {"--val", f / "no.safetensors"})); }).exit() == Exit::data);
  CHECK(stdfs::is_empty(f / "c"));
  write_bytes(f / "file", "x");
  CHECK(refused({f / "file", "none", false, {}}).exit() == Exit::storage);
  CHECK(refused({f / "file/under", "none", false, {}}).exit() == Exit::storage);
}

TEST_CASE("a move that was cut short after any step is finished by the next start", "[folder]") {
  const auto complete = [](const std::string& dir) {
    const auto all = contents(dir);
    return all.at("metrics.jsonl") == "new" && all.at("model.onnx") == "new" && all.at("run.json") == "new" &&
           list_checkpoints(dir + "/checkpoints") == std::vector<int64_t>{2, 3} && all.size() == 8 &&
           list_dir(dir) == std::vector<std::string>{".lock",         ".run-files.json", "checkpoints",
                                                     "metrics.jsonl", "model.onnx",      "run.json"};
  };
  // The moves of a new run with checkpoints 2 and 3 over an old one with 1 and 2, stopped after `done` of them.
  for (size_t done = 0; done <= 6; ++done) {
    const TempDir f;
    const std::string dir = f / "run", aside = dir + "/.new-run";
    fake_run(dir, "old", 1);
    fake_run(dir, "old", 2);
    stdfs::copy(dir + "/checkpoints/checkpoint-2", dir + "/checkpoints/checkpoint-1", stdfs::copy_options::recursive);
    fake_run(f / "other", "new", 2);
    stdfs::copy(f / "other/checkpoints/checkpoint-2", f / "other/checkpoints/checkpoint-3",
                stdfs::copy_options::recursive);
    stdfs::copy(f / "other", aside, stdfs::copy_options::recursive);
    stdfs::remove(aside + "/.lock");
    const std::vector<std::string> names = {
        "metrics.jsonl",  "run.json", "model.onnx", "checkpoints/checkpoint-2", "checkpoints/checkpoint-3",
        ".run-files.json"};
    write_bytes(aside + "/.move.json",
                json{{"move", names}, {"remove", {"checkpoints/checkpoint-1", "../other/model.onnx", "notes"}}}.dump());
    for (size_t i = 0; i < done; ++i) {
      stdfs::remove_all(dir + "/" + names[i]);
      stdfs::rename(aside + "/" + names[i], dir + "/" + names[i]);
    }
    INFO(done);
    finish_interrupted(dir);
    CHECK(complete(dir));
    // Kept, although the recorded list names it: it is outside of the folder.
    CHECK(stdfs::exists(f / "other/model.onnx"));
  }
}

TEST_CASE("a move takes a checkpoint that does not verify, and never keeps the replaced run's", "[folder]") {
  const TempDir f;
  const std::string dir = f / "run", aside = dir + "/.new-run", name = "checkpoints/checkpoint-2";
  fake_run(dir, "old", 2);
  fake_run(f / "other", "new", 2);
  write_bytes(f / "other/checkpoints/checkpoint-2/state.safetensors", "new");  // other bytes than the manifest lists
  stdfs::copy(f / "other", aside, stdfs::copy_options::recursive);
  stdfs::remove(aside + "/.lock");
  write_bytes(aside + "/.move.json", json{{"move", {name}}, {"remove", json::array()}}.dump());
  finish_interrupted(dir);
  CHECK(bytes_of(dir + "/" + name + "/state.safetensors") == "new");
  CHECK_FALSE(stdfs::exists(aside));
}

TEST_CASE("a replacing run that was stopped goes on aside, and takes the place at its end", "[folder]") {
  const TempDir f;
  const std::string dir = f / "run";
  fake_run(dir, "old", 5);
  {
    OutputFolder run({dir, "none", true, {}});
    run.begin();
    CHECK(run.work() == dir + "/.new-run");
    Checkpoint c;
    c.step = 3;
    save_checkpoint(run.work() + "/checkpoints", c);
  }
  CHECK(bytes_of(dir + "/model.onnx") == "old");
  {
    OutputFolder run({dir, "auto", false, {}});
    CHECK(run.work() == dir + "/.new-run");
    REQUIRE(run.checkpoint());
    CHECK(run.checkpoint()->step == 3);
    run.begin();
    write_bytes(run.finish_path() + "/model.onnx", "new");
    run.publish();
  }
  CHECK(bytes_of(dir + "/model.onnx") == "new");
  CHECK(list_checkpoints(dir + "/checkpoints") == std::vector<int64_t>{3});
  CHECK_FALSE(stdfs::exists(dir + "/metrics.jsonl"));  // the new run did not write this file
  CHECK_FALSE(stdfs::exists(dir + "/.new-run"));
}

TEST_CASE("a run out of --max_minutes leaves a checkpoint, and goes on", "[folder]") {
  const TempDir f;
  const std::string dir = f / "run";
  const Said s = run_verb(lenet(dir, {"--max_steps", "3", "--max_minutes", "1e-6"}));
  CHECK(s.code == 75);
  CHECK_THAT(s.err, ContainsSubstring("stopped by --max_minutes after step 1"));
  CHECK(list_checkpoints(dir + "/checkpoints") == std::vector<int64_t>{1});
  CHECK_FALSE(stdfs::exists(dir + "/model.onnx"));
  CHECK(json::parse(bytes_of(dir + "/run.json"))["config"]["max_minutes"] == 1e-6);
  must_run(lenet(dir, {"--max_steps", "3", "--max_minutes", "60", "--resume", "auto"}));
  CHECK(json_lines(dir + "/metrics.jsonl").size() == 3);
  const Error e = error_of([&] { must_run(lenet(f / "other", {"--max_minutes", "-1"})); });
  CHECK_THAT(e.fact(), ContainsSubstring("at least 0"));
}

TEST_CASE("damaged checkpoints are named, and nothing starts afresh unasked", "[folder]") {
  const TempDir f;
  const std::string dir = f / "run";
  must_run(lenet(dir, {"--max_steps", "2", "--save_steps", "1"}));
  for (const char* n : {"1", "2"}) stdfs::resize_file(dir + "/checkpoints/checkpoint-" + n + "/state.safetensors", 100);
  const auto before = contents(dir);
  const Error e = error_of([&] { must_run(lenet(dir, {"--max_steps", "4", "--resume", "auto"})); });
  CHECK(e.exit() == Exit::checkpoint);
  CHECK(e.id() == "E_CKPT_DAMAGED");
  CHECK_THAT(e.fact(), ContainsSubstring("checkpoint-1") && ContainsSubstring("checkpoint-2") &&
                           ContainsSubstring("has 100 bytes"));
  CHECK_THAT(e.hint(), ContainsSubstring("--overwrite"));
  CHECK(contents(dir) == before);
  CHECK(error_of([&] { must_run({"export", dir, "--out", f / "x.onnx"}); }).id() == "E_CKPT_DAMAGED");
}

TEST_CASE("a run of a version that kept no record goes on; its model is not vouched for", "[folder]") {
  const TempDir f;
  const std::string dir = f / "run";
  must_run(lenet(dir, {"--max_steps", "2"}));
  stdfs::remove(dir + "/.run-files.json");
  CHECK(refused({dir, "auto", false, {}}).id() == "E_OUTPUT_FOREIGN");
  stdfs::remove(dir + "/model.onnx");  // as if the run had been killed
  must_run(lenet(dir, {"--max_steps", "2", "--resume", "auto"}));
  CHECK(stdfs::exists(dir + "/model.onnx"));
}

TEST_CASE("a run that would train nothing is refused before it writes", "[folder]") {
  const TempDir f;
  const Error e = error_of([&] { must_run(lenet(f / "run", {"--max_steps", "2", "--freeze", "*"})); });
  CHECK(e.exit() == Exit::usage);
  CHECK(e.id() == "E_NOTHING_TRAINS");
  CHECK_THAT(e.fact(), ContainsSubstring("are frozen"));
  CHECK_FALSE(stdfs::exists(f / "run"));
}

TEST_CASE("a file with integer weights only is refused, and told what would train", "[folder]") {
  const TempDir f;
  std::string w;
  for (int i = 0; i < 64; ++i) w += cat(i ? ", " : "", i % 7 - 3);
  const std::string model = save(
      f, test::parse("<ir_version: 8, opset_import: [\"\": 17]> net (float[B,8] x) => (float[B,8] y) <int8[8,8] w = {" +
                     w + "}, float s = {0.1}, int8 z = {0}> { d = DequantizeLinear(w, s, z) y = MatMul(x, d) }"));
  write_safetensors(f / "data.safetensors",
                    {{"x", HostTensor::zeros(DType::f32, {4, 8})}, {"label", HostTensor::zeros(DType::f32, {4, 8})}});
  const Error e = error_of([&] {
    must_run(
        {model, "--train", f / "data.safetensors", "--loss", "mse", "--max_steps", "1", "--output_dir", f / "run"});
  });
  CHECK(e.id() == "E_NOTHING_TRAINS");
  CHECK_THAT(e.fact(), ContainsSubstring("1 DequantizeLinear has integer weights"));
  CHECK_THAT(e.hint(), ContainsSubstring("--train_quantized true"));
  CHECK_FALSE(stdfs::exists(f / "run"));
}

TEST_CASE("a file size limit: exit 7, checkpoints whole, nothing left behind", "[folder]") {
  const TempDir f;
  const std::string dir = f / "run";
  must_run(lenet(dir, {"--max_steps", "1"}));
  const auto before = contents(dir);
  struct rlimit was;
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &was) == 0);
  auto* const former = std::signal(SIGXFSZ, SIG_IGN);  // as ImmediateStop does
  const rlimit small{100000, was.rlim_max};            // a limit below the model's 257,410 bytes
  std::vector<Error> errors;
  ::setrlimit(RLIMIT_FSIZE, &small);
  for (const auto& words : {std::vector<std::string>{"export", dir, "--out", f / "x.onnx"},
                            {"export", kEntry + "/model.onnx", "--out", f / "y.onnx"},
                            lenet(dir, {"--max_steps", "2", "--overwrite"}),
                            lenet(f / "other", {"--max_steps", "2"})}) {
    try {
      must_run(words);
    } catch (const Error& e) {
      errors.push_back(e);
    }
  }
  ::setrlimit(RLIMIT_FSIZE, &was);
  std::signal(SIGXFSZ, former);
  REQUIRE(errors.size() == 4);
  for (const Error& e : errors) {
    CHECK(e.exit() == Exit::storage);
    CHECK_THAT(e.fact(), ContainsSubstring("File too large"));
  }
  CHECK(contents(dir) == before);
  CHECK(list_dir(f.path.string()) == std::vector<std::string>{"run"});
}

TEST_CASE("a resumed run has the settings and the data it began with", "[folder]") {
  const TempDir f;
  const std::string dir = f / "run", data = f / "data.safetensors";
  stdfs::copy_file(kEntry + "/batch.safetensors", data);
  stdfs::permissions(data, stdfs::perms::owner_all);
  const auto words = [&](std::vector<std::string> more) {
    std::vector<std::string> w = {kEntry + "/model.onnx", "--train", data,           "--loss",
                                  "cross_entropy",        "--quiet", "--output_dir", dir,
                                  "--max_steps",          "2",       "--save_steps", "1"};
    w.insert(w.end(), more.begin(), more.end());
    return w;
  };
  must_run(words({}));
  const Error e = error_of([&] { must_run(words({"--resume", "auto", "--adam_beta1", "0.8", "--clip_mode", "inf"})); });
  CHECK(e.exit() == Exit::checkpoint);
  CHECK(e.id() == "E_CKPT_MISMATCH");
  CHECK_THAT(e.fact(),
             ContainsSubstring("adam_beta1 was 0.9, is 0.8") && ContainsSubstring("clip_mode was norm, is inf"));
  must_run(words({"--resume", "auto", "--threads", "1", "--logging_steps", "7"}));

  std::vector<NamedTensor> other = read_safetensors(data).tensors;
  for (NamedTensor& t : other) {
    if (is_float(t.tensor.dtype())) t.tensor = HostTensor::zeros(t.tensor.dtype(), t.tensor.dims());
  }
  write_safetensors(data, other);
  CHECK_THAT(error_of([&] { must_run(words({"--resume", "auto"})); }).fact(), ContainsSubstring("train was "));
  must_run({"export", dir, "--out", f / "out.onnx"});  // export reads only the shapes of the data
}
