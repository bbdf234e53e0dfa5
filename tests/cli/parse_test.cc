// The grammar of the command line: verbs, spellings of flags, switches, repeated flags and missing values, and the
// errors for unknown words.
#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "tests/cli/cli_helper.h"
#include "tests/support.h"
#include "tools/cli/config.h"

using namespace amp;
using namespace amp::cli;
using Strings = std::vector<std::string>;

TEST_CASE("the first word is the model or a verb", "[cli]") {
  CHECK(train({}).verb == Verb::train);
  CHECK(train({}).str("model") == "m.onnx");
  CHECK(parse({"train", "m.onnx", "--train", "t.csv"}).positional == Strings{"m.onnx"});
  CHECK(parse({"--lr", "1", "m.onnx", "--train=t.csv"}).str("model") == "m.onnx");
  CHECK(parse({"check", "m.onnx"}).verb == Verb::check);
  CHECK(parse({"--json", "check", "m.onnx"}).flag("json"));
  CHECK(parse({"grad", "m.onnx", "--inputs", "b.safetensors", "--loss", "mse", "--out", "g"}).verb == Verb::grad);
  CHECK(parse({"export", "m.onnx", "--out", "n.onnx"}).verb == Verb::export_model);
  CHECK(parse({"tokenize", "--vocab", "v.txt"}).positional.empty());
  CHECK(parse({"--train", "t.csv", "--", "-odd-.onnx"}).str("model") == "-odd-.onnx");
  CHECK(parse({"./check", "--train", "t.csv"}).str("model") == "./check");
  CHECK(parse({"--model", "m.onnx", "--train", "t.csv"}).str("model") == "m.onnx");
  CHECK(mentions(refusal({"m.onnx", "--model", "n.onnx", "--train", "t"}), {"two models", "m.onnx", "n.onnx"}));
}

TEST_CASE("what a verb needs", "[cli]") {
  CHECK(mentions(refusal({}), {"no model", "usage: onnx-amp-finetune MODEL.onnx"}));
  CHECK(mentions(refusal({"m.onnx"}), {"needs --train FILE"}));
  // A memory estimate needs the data, because the longest batch determines it.
  CHECK_FALSE(refusal({"m.onnx", "--dry_run"}).empty());
  CHECK(mentions(refusal({"predict", "m.onnx", "--inputs", "x"}), {"'predict' needs --out"}));
  CHECK(mentions(refusal({"eval", "m.onnx"}), {"no data", "--val"}));
  CHECK(mentions(refusal({"eval", "m.onnx", "--val", "a", "--inputs", "b"}), {"contradict"}));
  CHECK(mentions(train_refusal({"other.onnx"}), {"unexpected word 'other.onnx'"}));
  CHECK(mentions(refusal({"chekc", "m.onnx"}), {"unexpected word", "verb 'check'"}));
  CHECK(refusal({"bench", "m.onnx"}).empty());  // without data, bench uses a synthetic batch
  CHECK(mentions(refusal({"benchmark", "m.onnx"}), {"unexpected word"}));
}

TEST_CASE("underscores and dashes, = and a space, a single dash", "[cli]") {
  CHECK(train({"--max_grad_norm", "0.5"}).num("max_grad_norm") == 0.5);
  CHECK(train({"--max-grad-norm=0.5"}).num("max_grad_norm") == 0.5);
  CHECK(train({"--max_grad-norm=0.5"}).num("max_grad_norm") == 0.5);
  CHECK(train({"-b", "4"}).integer("batch_size") == 4);
  CHECK(train({"-lr=2"}).num("lr") == 2);
  CHECK(train({"--max_steps", "-1"}).integer("max_steps") == -1);
  CHECK(train({"--output=a=b"}).str("output") == "a=b");
  CHECK(train({"--output=--odd"}).str("output") == "--odd");
}

TEST_CASE("switches", "[cli]") {
  CHECK_FALSE(train({}).flag("use_fp16"));
  CHECK(train({"--use_fp16"}).flag("use_fp16"));
  CHECK(train({"--use_fp16=true"}).flag("use_fp16"));
  CHECK(train({"--use-fp16", "True"}).flag("use_fp16"));
  CHECK(train({"--use_fp16", "1"}).flag("use_fp16"));
  CHECK_FALSE(train({"--shuffle", "false"}).flag("shuffle"));
  CHECK_FALSE(train({"--shuffle=off"}).flag("shuffle"));
  CHECK_FALSE(train({"--no_shuffle"}).flag("shuffle"));
  CHECK_FALSE(train({"--no-group-by-length"}).flag("group_by_length"));
  CHECK(train({"--no_shuffle=false"}).flag("shuffle"));
  // The word after a switch that is not true or false is the model.
  CHECK(parse({"--train", "t", "--use_fp16", "m.onnx"}).str("model") == "m.onnx");
  CHECK(mentions(train_refusal({"--use_fp16=maybe"}), {"--use_fp16 maybe", "true or false"}));
  CHECK(mentions(train_refusal({"--no_shuffle=maybe"}), {"--no_shuffle maybe", "true or false"}));
}

TEST_CASE("a flag that may stand alone takes the next word only where that is a value", "[cli]") {
  const auto port = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"--train", "t.csv"};
    words.insert(words.end(), more.begin(), more.end());
    const auto o = parse(words);
    return o.str("serve") + " " + o.str("model");
  };
  CHECK(port({"m.onnx"}) == "off m.onnx");
  CHECK(port({"m.onnx", "--serve"}) == "0 m.onnx");
  CHECK(port({"--serve", "m.onnx"}) == "0 m.onnx");
  CHECK(port({"--serve", "--quiet", "m.onnx"}) == "0 m.onnx");
  CHECK(port({"--serve", "8080", "m.onnx"}) == "8080 m.onnx");
  CHECK(port({"--serve=8080", "m.onnx"}) == "8080 m.onnx");
  CHECK(port({"--serve", "true", "m.onnx"}) == "0 m.onnx");
  CHECK(port({"--serve", "off", "m.onnx"}) == "off m.onnx");
  CHECK(mentions(train_refusal({"--serve=65536"}), {"--serve 65536", "off, or a port"}));
}

TEST_CASE("repeated flags: lists collect, of others the last counts", "[cli]") {
  CHECK(train({"--freeze", "A*", "--freeze=[B]*"}).list("freeze") == Strings{"A*", "[B]*"});
  CHECK(train({"--freeze", "a,b"}).list("freeze") == Strings{"a,b"});
  CHECK(train({"--text_columns", "a,b", "--text_column_names", "c"}).list("text_columns") == Strings{"a", "b", "c"});
  const Options twice = train({"--lr", "1", "--learning_rate", "2"});
  CHECK(twice.num("lr") == 2);
  REQUIRE(twice.warnings.size() == 1);
  CHECK(mentions(twice.warnings[0], {"--learning_rate is given twice, 1 and 2", "the last one is used"}));
  CHECK(train({"--lr", "1", "--lr", "1"}).warnings.empty());
  CHECK_FALSE(train({}).has("freeze"));
}

TEST_CASE("a repeated flag that names data names all of it", "[cli]") {
  for (const char* name : {"train", "val", "train_masks", "val_masks", "train_labels", "val_labels"}) {
    INFO(name);
    const std::string flag = std::string("--") + name;
    const Options o = parse({"m.onnx", flag, "a.x", flag + "=b.x,c.x", "--train", "t"});
    CHECK(o.str(name).starts_with("a.x,b.x,c.x"));
    CHECK(o.warnings.empty());
  }
  CHECK(parse({"m.onnx", "--train_file", "a.csv", "--train", "b.csv"}).str("train") == "a.csv,b.csv");
  const auto config = [](const std::string& text) {
    std::vector<std::string> warnings;
    return parse_config(text, "c.json", Verb::train, warnings).at(0).texts;
  };
  CHECK(config(R"({"train": ["a.csv", "b.csv"]})") == Strings{"a.csv", "b.csv"});
  const test::TempDir f;  // a comma separates names, unless the whole value names a file
  std::ofstream(f / "a,b.csv") << "x";
  CHECK(mentions(train_refusal({"--train", f / "a,b.csv", "--train", "c.csv"}), {"comma"}));
}

TEST_CASE("other spellings stand for ours", "[cli]") {
  CHECK(train({"--fp16"}).flag("use_fp16"));
  CHECK(train({"--per_device_train_batch_size", "32"}).integer("batch_size") == 32);
  CHECK(train({"--warmup_proportion", "0.1"}).num("warmup_steps") == 0.1);
  CHECK(train({"--optim", "adamw_torch"}).str("optimizer") == "adamw");
  CHECK(train({"--no_cuda"}).str("device") == "cpu");
  CHECK(train({"--no-cuda", "false"}).str("device") == "auto");
  CHECK(train({"--use_cuda", "True"}).str("device") == "cuda");
  CHECK(train({"--model_ema"}).list("ema_decay") == std::vector<std::string>{"0.9998"});
  CHECK(train({"--ema_decay", "0.99,0.9990"}).list("ema_decay") == std::vector<std::string>{"0.99", "0.999"});
  CHECK(train({"--loss_scaling", "1024.0"}).str("loss_scale") == "1024");
  CHECK(train({"--loss_scale", "0"}).str("loss_scale") == "dynamic");
  CHECK(train({"--resume_from_checkpoint", "true"}).str("resume") == "auto");
  CHECK(train({"--load_best_model_at_end", "--val", "v"}).str("export_weights") == "best");
  CHECK(train({"--bn", "frozen"}).str("batchnorm") == "freeze");
  CHECK(train({"--lr_scheduler_type", "Cosine"}).str("lr_scheduler") == "cosine");
  CHECK(mentions(train_refusal({"--warmup_ratio", "1"}), {"--warmup_ratio 1", "below 1", "--warmup_steps"}));
}

TEST_CASE("unknown flags name the nearest one", "[cli]") {
  CHECK(mentions(train_refusal({"--leraning_rate", "1"}),
                 {"unknown flag --leraning_rate", "did you mean --learning_rate?"}));
  CHECK(mentions(train_refusal({"--use_fp61"}), {"unknown flag --use_fp61", "did you mean --use_fp16?"}));
  CHECK(mentions(train_refusal({"--no_use_fp61"}), {"unknown flag --no_use_fp61"}));
  CHECK(mentions(train_refusal({"--no_lr"}), {"unknown flag --no_lr"}));
  CHECK(mentions(train_refusal({"--qqqqqqqqqq=1"}), {"unknown flag --qqqqqqqqqq\n", "--help"}));
  CHECK(mentions(train_refusal({"--report_to", "none"}), {"unknown flag --report_to", "metrics.jsonl"}));
  CHECK(mentions(train_refusal({"--num_workers", "4"}), {"unknown flag --num_workers", "--loading_threads"}));
  CHECK(mentions(train_refusal({"--patience", "3"}), {"unknown flag --patience", "--early_stopping_patience"}));
  CHECK(mentions(train_refusal({"--wandb"}), {"unknown flag --wandb", "metrics.jsonl"}));
  CHECK(mentions(train_refusal({"-x"}), {"unknown flag -x"}));
  CHECK(
      mentions(refusal({"predict", "m", "--lr", "1"}), {"flag --lr is not one of 'predict'", "it belongs to: train"}));
}

TEST_CASE("missing values", "[cli]") {
  CHECK(mentions(train_refusal({"--lr"}), {"--lr needs a value", "at least 0"}));
  CHECK(mentions(train_refusal({"--lr", "--use_fp16"}), {"--lr needs a value, found the flag --use_fp16"}));
  CHECK(mentions(train_refusal({"--lr="}), {"--lr", "not a number"}));
  CHECK(mentions(refusal({"m.onnx", "--train", ""}), {"--train", "empty", "unset shell variable"}));
}

TEST_CASE("control characters of a hostile word never reach the terminal", "[cli]") {
  const std::string text = train_refusal({"--\x1b[2Jx"});
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(mentions(text, {"\\x1b"}));
}

TEST_CASE("help and version are found anywhere and check nothing", "[cli]") {
  CHECK(parse({"--help"}).verb == Verb::help);
  CHECK_FALSE(parse({"-h"}).help_topic.has_value());
  CHECK(parse({"grad", "--unknown", "--help"}).help_topic == Verb::grad);
  CHECK(parse({"help", "plan"}).help_topic == Verb::plan);
  CHECK(parse({"help", "--all"}).help_all);
  CHECK(parse({"--help", "--all"}).help_all);
  CHECK(parse({"--version"}).verb == Verb::version);
  CHECK(parse({"version"}).verb == Verb::version);
  CHECK(mentions(refusal({"help", "trian"}), {"no help on 'trian'", "'train'"}));
  CHECK(parse({"--train", "t.csv", "--", "--help"}).str("model") == "--help");
}

TEST_CASE("the commands that the issue spells are accepted", "[cli]") {
  const Options o = train({"--loss",
                           "cross_entropy",
                           "--optimizer",
                           "sgd",
                           "--lr",
                           "0.01",
                           "--momentum",
                           "0.9",
                           "--weight_decay",
                           "0",
                           "--decay_exclude",
                           "none",
                           "--max_steps",
                           "10",
                           "--batch_size",
                           "4",
                           "--shuffle",
                           "false",
                           "--lr_scheduler",
                           "constant",
                           "--warmup_steps",
                           "0",
                           "--max_grad_norm",
                           "0",
                           "--dropout",
                           "0",
                           "--output_dir",
                           "D",
                           "--freeze",
                           "a",
                           "--tie_weights",
                           "none",
                           "--batchnorm",
                           "train",
                           "--inject_overflow",
                           "3,6-8",
                           "--min_loss_scale",
                           "0",
                           "--max_loss_scale",
                           "inf"});
  CHECK(o.str("optimizer") == "sgd");
  CHECK(o.num("momentum") == 0.9);
  CHECK(o.warnings.empty());
  for (const char* kind : {"cross_entropy", "cross_entropy_nchw", "nll_probs", "bce_logits", "mse", "causal_lm",
                           "qa_span", "rmspe_exp", "cosine_mse"}) {
    CHECK(parse({"grad",    "m",    "--inputs",      "b",    "--loss",   kind, "--output", "o", "--batchnorm", "train",
                 "--dtype", "fp64", "--tie_weights", "auto", "--freeze", "x",  "--freeze", "y", "--out",       "g"})
              .list("loss") == std::vector<std::string>{kind});
  }
  CHECK(parse({"tokenize", "--vocab", "v", "--lower_case", "true", "--max_seq_len", "16"}).integer("max_seq_len") ==
        16);
  CHECK(parse({"tokenize", "--vocab", "v"}).integer("max_seq_len") == 0);
  CHECK(train({}).integer("max_seq_len") == 128);
}

TEST_CASE("asking for a flag that does not exist, or as another type, is a bug and says so", "[cli]") {
  const Options o = train({});
  for (const auto& ask :
       {+[](const Options& x) { (void)x.num("learning_rate"); }, +[](const Options& x) { (void)x.num("seed"); }}) {
    try {
      ask(o);
      FAIL("accepted");
    } catch (const amp::Error& e) {
      CHECK(e.exit() == amp::Exit::internal);
    }
  }
}
