// PaddlePaddle's command line: the conversion of its flags, and the errors for unsupported ones.
#include "tools/cli/compat.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "tests/cli/cli_helper.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::cli;
using Words = std::vector<std::string>;

namespace {

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::string xnli() { return test::test_data("xnli"); }

// Returns the command line in the documentation of PaddlePaddle's BERT.
Words documented() {
  return {"--task_name",
          "XNLI",
          "--use_fp16=true",
          "--do_train",
          "true",
          "--do_val",
          "true",
          "--do_test",
          "true",
          "--batch_size",
          "32",
          "--in_tokens",
          "false",
          "--init_pretraining_params",
          "bert.onnx",
          "--data_dir",
          xnli(),
          "--vocab_path",
          "vocab.txt",
          "--checkpoints",
          "out",
          "--save_steps",
          "1000",
          "--weight_decay",
          "0.01",
          "--warmup_proportion",
          "0.1",
          "--validation_steps",
          "100",
          "--epoch",
          "3",
          "--max_seq_len",
          "128",
          "--learning_rate",
          "5e-5",
          "--skip_steps",
          "10",
          "--verbose",
          "true"};
}

std::vector<Command> commands(Words words, const Words& more = {}) {
  words.insert(words.begin(), {"--compat", "paddle"});
  words.insert(words.end(), more.begin(), more.end());
  return commands_of(words);
}

// Returns the message and the hint of a refused command line.
std::string refused(const Words& words, const Words& more = {}) {
  try {
    commands(words, more);
  } catch (const Error& error) {
    const Error e = cli::with_flags(error);
    return e.exit() == Exit::usage ? e.fact() + " / " + e.hint() : "another exit: " + e.fact();
  }
  return "";
}

const Options& of(const std::vector<Command>& c, size_t i) { return c.at(i).options; }

}  // namespace

TEST_CASE("the documented command line trains, then tests", "[cli]") {
  const auto c = commands(documented());
  REQUIRE(c.size() == 2);
  const Options& t = of(c, 0);
  CHECK(t.verb == Verb::train);
  CHECK(t.str("model") == "bert.onnx");
  CHECK(t.str("train") == xnli() + "/multinli/multinli.train.de.tsv," + xnli() + "/multinli/multinli.train.en.tsv");
  CHECK(t.list("text_columns") == Words{"premise", "hypo"});
  CHECK(t.str("label_column") == "label");
  CHECK(t.list("label_map") == Words{"contradictory=contradiction"});
  CHECK(t.str("val") == xnli() + "/xnli.dev.tsv");
  CHECK(t.list("val_text_columns") == Words{"sentence1", "sentence2"});
  CHECK(t.str("val_label_column") == "gold_label");
  CHECK(t.str("eval_group_by") == "language");
  CHECK(t.flag("use_fp16"));
  CHECK(t.integer("batch_size") == 32);
  CHECK_FALSE(t.flag("in_tokens"));
  CHECK(t.str("vocab") == "vocab.txt");
  CHECK(t.str("output_dir") == "out");
  CHECK(t.integer("save_steps") == 1000);
  CHECK(t.num("weight_decay") == 0.01);
  CHECK(t.num("warmup_steps") == 0.1);
  CHECK(t.integer("eval_steps") == 100);
  CHECK(t.num("epochs") == 3);
  CHECK(t.integer("max_seq_len") == 128);
  CHECK(t.num("lr") == 5e-5);
  CHECK(t.integer("logging_steps") == 10);
  CHECK(t.flag("verbose"));
  const Options& e = of(c, 1);
  CHECK(e.verb == Verb::eval);
  CHECK(e.str("model") == "out/model.onnx");
  CHECK(e.str("val") == xnli() + "/xnli.test.tsv");
  CHECK(e.str("out") == "out/test_metrics.json");
  CHECK(e.str("eval_group_by") == "language");
  CHECK_FALSE(e.flag("use_fp16"));  // the exported file is evaluated in its own types
  CHECK(mentions(c[0].line, {"--do_train: onnx-amp-finetune train bert.onnx", "--use_fp16=true"}));
}

TEST_CASE("what is not given is PaddlePaddle's default, below every other source", "[cli]") {
  const Words few = {"--task_name", "xnli", "--data_dir", xnli(), "m.onnx"};
  const Options t = of(commands(few), 0);
  CHECK(t.integer("batch_size") == 32);
  CHECK(t.integer("max_seq_len") == 512);
  CHECK(t.num("weight_decay") == 0.01);
  CHECK(t.num("warmup_steps") == 0.1);
  CHECK(t.integer("eval_steps") == 1000);
  CHECK(t.integer("save_steps") == 10000);
  CHECK(t.integer("logging_steps") == 10);
  CHECK(t.integer("seed") == 0);
  CHECK(t.str("output_dir") == "checkpoints");
  CHECK(t.source("batch_size") == Source::preset);
  CHECK_FALSE(t.flag("use_fp16"));
  const Options own = of(commands(few, {"--warmup_steps", "7", "--overwrite", "--max_steps=3"}), 0);
  CHECK(own.num("warmup_steps") == 7);
  CHECK(own.flag("overwrite"));
  CHECK(own.integer("max_steps") == 3);
}

TEST_CASE("do_train, do_val and do_test say what is run", "[cli]") {
  const auto no_train = commands(documented(), {"--do_train", "false"});
  REQUIRE(no_train.size() == 2);
  CHECK(of(no_train, 0).str("val") == xnli() + "/xnli.dev.tsv");
  CHECK(of(no_train, 0).str("model") == "bert.onnx");
  CHECK(of(no_train, 0).flag("use_fp16"));
  CHECK(of(no_train, 1).str("val") == xnli() + "/xnli.test.tsv");
  const auto train_only = commands(documented(), {"--do_val=False", "--do_test", "0"});
  REQUIRE(train_only.size() == 1);
  CHECK(of(train_only, 0).str("val").empty());
  CHECK(of(train_only, 0).integer("eval_steps") == 0);
  CHECK(mentions(refused(documented(), {"--do_train", "false", "--do_val", "false", "--do_test", "false"}),
                 {"the command line requests nothing", "--do_train"}));
}

TEST_CASE("in_tokens counts tokens; evaluation takes the rows that fit", "[cli]") {
  const auto c = commands(documented(), {"--in_tokens", "true", "--batch_size", "4096"});
  CHECK(of(c, 0).flag("in_tokens"));
  CHECK(of(c, 0).integer("batch_size") == 4096);
  CHECK(of(c, 1).integer("batch_size") == 32);
}

TEST_CASE("schedules, devices and loss scales have our names", "[cli]") {
  const Options o = of(commands(documented(), {"--lr_scheduler", "noam_decay", "--use_cuda", "false", "--loss_scaling",
                                               "128", "--do_lower_case", "false", "--shuffle", "false"}),
                       0);
  CHECK(o.str("lr_scheduler") == "noam");
  CHECK(o.str("device") == "cpu");
  CHECK(o.str("loss_scale") == "128");
  CHECK_FALSE(o.flag("lower_case"));
  CHECK_FALSE(o.flag("shuffle"));
  const Options linear = of(commands(documented(), {"--lr_scheduler=linear_warmup_decay", "--use_cuda=true"}), 0);
  CHECK(linear.str("lr_scheduler") == "linear");
  CHECK(linear.str("device") == "auto");
}

TEST_CASE("flags that mean nothing here are told with their reason", "[cli]") {
  const Options o = of(commands(documented(), {"--bert_config_path", "bert_config.json", "--use_fast_executor", "true",
                                               "--init_checkpoint", "other.onnx"}),
                       0);
  CHECK(o.str("model") == "other.onnx");
  REQUIRE(o.warnings.size() == 3);
  CHECK(mentions(o.warnings[0], {"--bert_config_path", "architecture"}));
  CHECK(mentions(o.warnings[1], {"--use_fast_executor"}));
  CHECK(mentions(o.warnings[2], {"--init_checkpoint counts"}));
}

TEST_CASE("a folder is a run's, or a checkpoint that is converted first", "[cli]") {
  const test::TempDir f;
  put(f / "config.json", "{}");
  auto words = documented();
  std::replace(words.begin(), words.end(), std::string("bert.onnx"), f.path.string());
  const auto converted = commands(words);
  REQUIRE(converted.size() == 3);
  CHECK(of(converted, 0).verb == Verb::convert);
  CHECK(of(converted, 0).str("out") == "out.start/model.onnx");
  CHECK(of(converted, 1).str("model") == "out.start/model.onnx");
  CHECK(of(converted, 1).integer("num_labels") == 3);
  put(f / "model.onnx", "");
  CHECK(of(commands(words), 0).str("model") == f / "model.onnx");
  const test::TempDir empty;
  CHECK(mentions(refused(documented(), {"--init_checkpoint", empty.path.string()}),
                 {"without model.onnx", "Hugging Face"}));
}

TEST_CASE("files of a language each are a task's data, too", "[cli]") {
  const test::TempDir f;
  for (const char* name : {"train-en.tsv", "dev-de.tsv", "dev-en.tsv", "test-de.tsv", "test-en.tsv"})
    put(f / name, "p\th\tneutral\n");
  const auto c = commands(documented(), {"--data_dir", f.path.string()});
  CHECK(of(c, 0).str("train") == f / "train-en.tsv");
  CHECK(of(c, 0).list("text_columns") == Words{"0", "1"});
  CHECK(of(c, 0).str("label_column") == "2");
  CHECK(of(c, 0).str("eval_group_by") == "file");
  CHECK(of(c, 1).str("val") == (f / "test-de.tsv") + "," + (f / "test-en.tsv"));
}

TEST_CASE("GLUE's tasks are read by their columns; a test set without labels is left out", "[cli]") {
  const test::TempDir f;
  put(f / "train.tsv", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\ta\tb\tc\td\n");
  put(f / "dev.tsv", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\ta\tb\tc\td\n");
  const auto c = commands(documented(), {"--data_dir", f.path.string(), "--task_name=mrpc"});
  REQUIRE(c.size() == 1);
  CHECK(of(c, 0).list("text_columns") == Words{"#1 String", "#2 String"});
  CHECK(of(c, 0).str("label_column") == "Quality");
  CHECK(of(c, 0).list("val_text_columns").empty());
  CHECK(of(c, 0).list("label_map").empty());
  REQUIRE(of(c, 0).warnings.size() == 1);
  CHECK(mentions(of(c, 0).warnings[0], {"--do_test is left out", "not public"}));
}

TEST_CASE("what cannot be meant is named with a hint", "[cli]") {
  CHECK(
      mentions(refused(documented(), {"--use_fp16=maybe"}), {"--use_fp16 maybe: not a truth value", "true or false"}));
  CHECK(mentions(refused(documented(), {"--task_name", "xnil"}), {"--task_name xnil", "did you mean 'xnli'?"}));
  CHECK(mentions(refused(documented(), {"--task_name", "squad"}), {"one of xnli, mnli, cola, mrpc"}));
  CHECK(mentions(refused(documented(), {"--warmup_proportions", "1"}),
                 {"unknown flag", "did you mean --warmup_proportion?"}));
  CHECK(mentions(refused(documented(), {"--epoch", "many"}), {"--epoch", "many"}));
  CHECK(mentions(refused(documented(), {"--batch_size"}), {"--batch_size needs a value"}));
  CHECK(mentions(refused(documented(), {"a.onnx", "b.onnx"}), {"unexpected word 'b.onnx'"}));
  CHECK(mentions(refused({"--task_name", "xnli"}), {"--data_dir is missing"}));
  CHECK(mentions(refused({"--task_name", "xnli", "--data_dir", xnli()}), {"no weights to start from"}));
  CHECK(mentions(refused({"--compat", "padle"}), {"padle", "paddle"}));
  const test::TempDir empty;
  CHECK(mentions(refused(documented(), {"--data_dir", empty.path.string()}),
                 {"has no multinli/multinli.train.LANGUAGE.tsv, which --do_train reads", "xnli.dev.tsv"}));
  CHECK(mentions(refused(documented(), {"--data_dir", empty / "no"}), {"there is no such folder"}));
  put(empty / "xnli.test.tsv", "language\tgold_label\n");
  try {
    commands(documented(), {"--data_dir", empty.path.string(), "--do_train", "false", "--do_val", "false"});
    FAIL("taken");
  } catch (const Error& e) {
    CHECK(e.id() == "E_DATA_COLUMN");
    CHECK(mentions(e.fact(), {"xnli.test.tsv:1", "column 7 is needed"}));
  }
  CHECK(mentions(train_refusal({"--config", test::test_data("cli/compat.json")}), {"--compat", "command line"}));
}
