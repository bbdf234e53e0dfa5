// Flag values: ranges, values with their own syntax, contradictions.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "base/number_text.h"
#include "tests/cli/cli_helper.h"

using namespace amp;
using namespace amp::cli;

TEST_CASE("a value out of range is refused with flag, value and range", "[cli]") {
  struct Case {
    std::string flag, value, range;
  };
  const std::vector<Case> cases{{"lr", "nan", "at least 0"},
                                {"lr", "-1", "at least 0"},
                                {"lr", "inf", "at least 0"},
                                {"lr", "1e-4x", "at least 0"},
                                {"lr", "1,5", "at least 0"},
                                {"gradient_accumulation_steps", "0", "at least 1"},
                                {"batch_size", "0", "at least 1"},
                                {"batch_size", "2.5", "at least 1"},
                                {"batch_size", "99999999999999999999", "at least 1"},
                                {"init_loss_scale", "0", "above 0"},
                                {"loss_scale", "-2", "dynamic"},
                                {"loss_scale", "inf", "dynamic"},
                                {"loss_scale", "auto", "dynamic"},
                                {"max_grad_norm", "-1", "at least 0"},
                                {"dropout", "1", "below 1"},
                                {"scale_growth_factor", "1", "above 1"},
                                {"scale_backoff_factor", "1", "above 0 and below 1"},
                                {"scale_growth_interval", "0", "at least 1"},
                                {"ema_decay", "1", "at least 0 and below 1"},
                                {"export_weights", "ema:2", "ema:DECAY"},
                                {"max_steps", "-2", "at least -1"},
                                {"max_seq_len", "1", "2 and more"},
                                {"max_seq_len", "-8", "0 (no limit)"},
                                {"inject_overflow", "8-6", "3,6-8"},
                                {"inject_overflow", "3,,4", "3,6-8"},
                                {"inject_overflow", "-1", "3,6-8"},
                                {"delimiter", "ab", "one character"},
                                {"memory_budget", "0", "bytes, or a number with KiB"},
                                {"memory_budget", "2 GiBs", "bytes, or a number with KiB"},
                                {"memory_budget", "-1MiB", "bytes, or a number with KiB"},
                                {"delimiter", "\"", "one character"},
                                {"require", "acuracy>=1", "accuracy"},
                                {"require", "accuracy", "a number"},
                                {"require", "accuracy>=x", "a number"},
                                {"optimizer", "adamx", "sgd, adam, adamw"},
                                {"adam_epsilon", "0", "above 0"},
                                {"seed", "-1", "at least 0"},
                                {"threads", "-1", "at least 0"},
                                {"warmup_steps", "1.5", "a fraction below 1"}};
  for (const Case& c : cases) {
    INFO(c.flag << " " << c.value);
    const std::string text = train_refusal({"--" + c.flag + "=" + c.value, "--val", "v.csv"});
    INFO(text);
    CHECK(mentions(text, {"--" + c.flag + " " + c.value, c.range}));
  }
}

TEST_CASE("numbers in the spellings that people use", "[cli]") {
  CHECK(train({"--lr", "+1E-4"}).num("lr") == 1e-4);
  CHECK(train({"--lr", "0"}).num("lr") == 0);
  CHECK(train({"--batch_size", "3.0"}).integer("batch_size") == 3);
  CHECK(train({"--max_steps", "1e6"}).integer("max_steps") == 1000000);
  CHECK(train({"--epochs", "0.5"}).num("epochs") == 0.5);
  CHECK(std::isinf(train({"--max_loss_scale", "inf"}).num("max_loss_scale")));
  CHECK(train({"--delimiter", "\\t"}).str("delimiter") == "\t");
  CHECK(train({"--delimiter", ";"}).str("delimiter") == ";");
  CHECK(train({"--memory_budget", "2GiB"}).str("memory_budget") == "2147483648");
  CHECK(train({"--memory_budget", "1.5 MB"}).str("memory_budget") == "1500000");
  CHECK(train({"--memory_budget", "1048576"}).str("memory_budget") == "1048576");
  for (const double v : {5e-5, 0.1, 1e-8, 65536.0, 0.9998, 1.0 / 3}) CHECK(parse_number(number_text(v)) == v);
  CHECK(number_text(16777216) == "16777216");
}

TEST_CASE("steps to break, and gates", "[cli]") {
  CHECK(parse_steps("3,6-8") == StepRanges{{3, 3}, {6, 8}});
  CHECK(parse_steps("0") == StepRanges{{0, 0}});
  CHECK(parse_steps("") == StepRanges{});
  CHECK_FALSE(parse_steps("a").has_value());
  CHECK(train({"--val", "v", "--require", "eval_accuracy >= 0.850", "--require", "loss<1"}).list("require") ==
        std::vector<std::string>{"accuracy>=0.85", "loss<1"});
  CHECK(parse_gate("accuracy>=0.85")->met(0.85));
  CHECK_FALSE(parse_gate("accuracy>0.85")->met(0.85));
  CHECK(parse_gate("loss<=1")->met(1));
  CHECK_FALSE(parse_gate("loss<1")->met(1));
  CHECK_FALSE(parse_gate("loss<=1")->met(std::numeric_limits<double>::quiet_NaN()));
}

TEST_CASE("contradictions are refused and name both flags", "[cli]") {
  CHECK(mentions(train_refusal({"--use_fp16", "--use_bf16"}), {"--use_fp16", "--use_bf16", "contradict"}));
  CHECK(train_refusal({"--use_fp16", "--use_bf16=false"}).empty());
  CHECK(mentions(train_refusal({"--quiet", "--verbose"}), {"--quiet", "--verbose"}));
  CHECK(mentions(train_refusal({"--resume", "auto", "--overwrite"}), {"--resume auto", "--overwrite"}));
  CHECK(mentions(train_refusal({"--min_loss_scale", "8", "--max_loss_scale", "4"}),
                 {"--min_loss_scale 8", "--max_loss_scale 4"}));
  CHECK(mentions(train_refusal({"--init_loss_scale", "8", "--max_loss_scale", "4"}),
                 {"--init_loss_scale 8", "--max_loss_scale 4"}));
  CHECK(mentions(train_refusal({"--nesterov"}), {"--nesterov", "--optimizer adamw"}));
  CHECK(mentions(train_refusal({"--nesterov", "--optimizer", "sgd"}), {"--nesterov", "--momentum 0"}));
  CHECK(train_refusal({"--nesterov", "--optimizer", "sgd", "--momentum", "0.9"}).empty());
  CHECK(mentions(train_refusal({"--export_weights", "ema"}), {"--export_weights ema", "--ema_decay"}));
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--export_weights", "best"},
                                                {"--early_stopping_patience", "2"},
                                                {"--eval_steps", "5"},
                                                {"--require", "accuracy>=0.5"},
                                                {"--metric_for_best_model", "loss"}}) {
    CHECK(mentions(train_refusal(words), {words[0], "needs validation data", "--val"}));
  }
  CHECK(mentions(refusal({"predict", "m", "--inputs", "i", "--out", "o", "--use_fp16", "--dtype", "fp32"}),
                 {"--use_fp16", "--dtype fp32"}));
}

TEST_CASE("values that follow from other flags", "[cli]") {
  const Options o = train({"--batch_size", "32", "--max_loss_scale", "1024"});
  CHECK(o.integer("eval_batch_size") == 32);
  CHECK(o.source("eval_batch_size") == Source::derived);
  CHECK_FALSE(o.was_set("eval_batch_size"));
  CHECK(o.num("init_loss_scale") == 1024);
  CHECK(train({"--eval_batch_size", "5"}).integer("eval_batch_size") == 5);
  CHECK(train({"--eval_batch_size", "0"}).integer("eval_batch_size") == 8);
  CHECK(parse({"predict", "m", "--inputs", "i", "--out", "o", "--use_bf16"}).str("dtype") == "bf16");
  CHECK(train({"--momentum", "0.9"}).warnings.size() == 1);
  CHECK(train({"--early_stopping_threshold", "0.1"}).warnings.size() == 1);
  CHECK(train({"--early_stopping_threshold", "0.1", "--early_stopping_patience", "2", "--val", "v"}).warnings.empty());
}
