// The order of classes through the verbs. The models are right by construction (word i, brightness i or feature i is
// class i of the model's order), so accuracy before training is 1 only if every label is mapped to its own output.
// Metadata and config.json have the formats of transformers, timm and ultralytics.
#include <catch2/catch_all.hpp>

#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

constexpr int kWords = 12;

Words with(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string braces(const std::vector<double>& values) {
  std::string out = "{";
  for (const double v : values) out += (out.size() > 1 ? "," : "") + std::to_string(v);
  return out + "}";
}

// Returns a model in which word i of the vocabulary is class i. tokens: the model classifies each word; otherwise it
// classifies the mean over the words of a text.
onnx::ModelProto words_model(int classes, bool tokens = false) {
  std::vector<double> table((5 + kWords) * kWords), weights(static_cast<size_t>(kWords * classes));
  for (int i = 0; i < kWords; ++i) {
    table[static_cast<size_t>((5 + i) * kWords + i)] = 10;
    if (i < classes) weights[static_cast<size_t>(i * classes + i)] = 1;
  }
  const std::string n = std::to_string(classes);
  return test::parse(
      "<ir_version: 8, opset_import: [\"\" : 13]> net (int64[B,S] input_ids) => (float[B," +
      std::string(tokens ? "S," : "") + n + "] logits) <float[17,12] e = " + braces(table) + ", float[12," + n +
      "] w = " + braces(weights) + ", float[" + n +
      "] b = " + braces(std::vector<double>(static_cast<size_t>(classes), -1)) + "> { x = Gather (e, input_ids) " +
      (tokens ? "p = MatMul (x, w) " : "m = ReduceMean <axes = [1], keepdims = 0> (x) p = MatMul (m, w) ") +
      "logits = Add (p, b) }");
}

void write_vocab(const TempDir& f) {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 0; i < kWords; ++i) text += "w" + std::to_string(i) + "\n";
  write_bytes(f / "vocab.txt", text);
}

// Returns a table with two rows for each label; the label at place i belongs to word i.
std::string csv(const Words& labels) {
  std::string text = "text,label\n";
  for (int again = 0; again < 2; ++again) {
    for (size_t i = 0; i < labels.size(); ++i) {
      const std::string w = "w" + std::to_string(i);
      if (!labels[i].empty()) text += w + " " + w + "," + labels[i] + "\n";
    }
  }
  return text;
}

Words numbers(int from, int to, const std::string& before = "", const std::string& after = "") {
  Words out;
  for (int i = from; i <= to; ++i) out.push_back(before + std::to_string(i) + after);
  return out;
}

struct Before {
  double accuracy = -1;
  std::string err;
  json labels;
};

// Trains for one step with learning rate 0.
Before train(const TempDir& f, const std::string& model, const std::string& data, const Words& more) {
  const Said said = must_run(with({model, "--train", data, "--val", data, "--max_steps", "1", "--lr", "0", "--device",
                                   "cpu", "--overwrite", "--output_dir", f / "run"},
                                  more));
  const json run = json::parse(bytes_of(f / "run/run.json"));
  return {run.at("initial_metrics").at("accuracy").get<double>(), said.err, run.at("labels")};
}

const Words kText = {"--text_columns", "text"};

}  // namespace

TEST_CASE("text: whole numbers in any form, subsets, JSON, names in metadata and config.json", "[classes]") {
  const TempDir f;
  write_vocab(f);
  const std::string model = save(f, words_model(12), "m.onnx");
  for (const Words& labels : {numbers(0, 11), numbers(0, 11, "LABEL_"), numbers(0, 11, "", ".0"), numbers(1, 12),
                              Words{"", "", "", "3", "", "", "", "7", "", "", "", "11"},
                              Words{"", "", "2", "", "", "", "", "", "", "", "10"}}) {
    write_bytes(f / "t.csv", csv(labels));
    const Before before = train(f, model, f / "t.csv", kText);
    INFO(before.err);
    CHECK(before.accuracy == 1);
    CHECK(before.labels.size() == 12);
    CHECK_THAT(before.err, ContainsSubstring("classes: 12, whole numbers"));
  }
  std::string lines;
  for (int i = 0; i < 12; ++i) lines += json{{"text", "w" + std::to_string(i)}, {"label", i}}.dump() + "\n";
  write_bytes(f / "t.jsonl", lines);
  CHECK(train(f, model, f / "t.jsonl", kText).accuracy == 1);

  const Words mnli = {"entailment", "neutral", "contradiction"};
  write_bytes(f / "n.csv", csv(mnli));
  const json named = {{"id2label", {{"0", mnli[0]}, {"1", mnli[1]}, {"2", mnli[2]}}}};
  const std::string three = save(f, words_model(3), "three.onnx");
  const Said told = run_verb(with(
      {three, "--train", f / "n.csv", "--max_steps", "1", "--lr", "0", "--device", "cpu", "--output_dir", f / "told"},
      kText));
  CHECK_THAT(told.err, ContainsSubstring("W_CLASS_ORDER"));
  for (const json& config : {named, json{{"label2id", {{mnli[0], 0}, {mnli[1], 1}, {mnli[2], 2}}}},
                             json{{"label_names", mnli}}, json{{"pretrained_cfg", {{"label_names", mnli}}}},
                             json{{"id2label", {{"0", "ENTAILMENT"}, {"1", "NEUTRAL"}, {"2", "CONTRADICTION"}}}}}) {
    write_bytes(f / "config.json", config.dump());
    const Before before = train(f, three, f / "n.csv", kText);
    INFO(before.err);
    CHECK(before.accuracy == 1);
    CHECK_THAT(before.err, ContainsSubstring("config.json'"));
  }
  write_bytes(f / "config.json", json{{"id2label", {{"0", mnli[2]}, {"1", mnli[1]}, {"2", mnli[0]}}}}.dump());
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"labels", json(mnli).dump()},
                                          {"names", "{0: 'entailment', 1: 'neutral', 2: 'contradiction'}"},
                                          {"id2label", named["id2label"].dump()},
                                          {"classes", "entailment,neutral,contradiction"}}) {
    onnx::ModelProto m = words_model(3);
    auto* entry = m.add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
    const Before before = train(f, save(f, m, "own.onnx"), f / "n.csv", kText);
    INFO(before.err);
    CHECK(before.accuracy == 1);
    CHECK_THAT(before.err, ContainsSubstring("metadata '" + key + "'"));
  }
  const Before asked = train(f, three, f / "n.csv", with(kText, {"--labels", "entailment,neutral,contradiction"}));
  CHECK(asked.accuracy == 1);
  write_bytes(f / "names.txt", "entailment\nneutral\ncontradiction\n");
  CHECK(train(f, three, f / "n.csv", with(kText, {"--labels", f / "names.txt"})).accuracy == 1);
}

TEST_CASE("scores of positions are no classes, whatever length the probe has", "[classes]") {
  const TempDir f;
  write_vocab(f);
  const std::string e = braces(std::vector<double>(17 * kWords, 0.5)), w = braces(std::vector<double>(kWords, 0.5));
  const auto model = [&](const std::string& outputs) {
    return test::parse("<ir_version: 8, opset_import: [\"\" : 13]> net (int64[B,S] input_ids) => (" + outputs +
                       ") <float[17,12] e = " + e + ", float[12,1] w = " + w +
                       ", int64[1] last = {2}> { x = Gather (e, input_ids) h = Tanh (x) s = MatMul (h, w) "
                       "starts = Squeeze (s, last) }");
  };
  const std::string scores = save(f, model("float[B,N] starts"), "scores.onnx");
  const std::string both = save(f, model("float[B,N] starts, float[B,S,12] h"), "both.onnx");
  for (const int classes : {2, 3, 4, 12}) {  // 3 is also the sequence length with which a model is examined first
    INFO(classes);
    write_bytes(f / "t.csv", csv(numbers(1, classes, "class")));
    const Words run =
        with({"--train", f / "t.csv", "--max_steps", "1", "--device", "cpu", "--overwrite", "--output_dir", f / "run"},
             kText);
    const Said refused = run_verb(with({scores}, run));
    CHECK(refused.code == 4);
    CHECK(refused.id == "E_HEAD");
    CHECK_THAT(run_verb(with({scores, "--head_from", "starts"}, run)).fact, ContainsSubstring("cannot read 'starts'"));
    const Said said = must_run(with({both}, run));
    CHECK_THAT(said.err,
               ContainsSubstring("new head") && ContainsSubstring(" on 'h'") && !ContainsSubstring("W_CLASS_ORDER"));
  }
  CHECK_THAT(run_verb({"check", both}).out, !ContainsSubstring("serves for"));
  CHECK_THAT(run_verb({"check", scores}).out, ContainsSubstring("head: none can be attached"));
}

TEST_CASE("text: labels that the head does not know, another head, a run on other labels", "[classes]") {
  const TempDir f;
  write_vocab(f);
  const std::string model = save(f, words_model(3), "m.onnx");
  write_bytes(f / "b.csv", csv({"b", "c", "d"}));
  const Words flags = with(kText, {"--max_steps", "1", "--lr", "0", "--device", "cpu", "--output_dir", f / "o"});
  const auto refused = [&](const std::string& file, const std::string& data, const Words& more = {}) {
    return run_verb(with(with({file, "--train", data}, flags), more));
  };
  must_run(with({model, "--train", f / "b.csv", "--labels", "b,c,d"}, flags));
  write_bytes(f / "a.csv", csv({"a", "b", "c"}));
  const Said other = refused(f / "o/model.onnx", f / "a.csv", {"--vocab", f / "vocab.txt", "--output_dir", f / "o2"});
  CHECK(other.id == "E_DATA_LABEL_NEW");
  CHECK_THAT(other.fact, ContainsSubstring("its 3 classes are: b, c, d"));
  CHECK_THAT(other.hint, ContainsSubstring("--num_labels") && ContainsSubstring("--labels"));
  const Before subset = train(f, f / "o/model.onnx", (write_bytes(f / "s.csv", csv({"", "c", "d"})), f / "s.csv"),
                              with(kText, {"--vocab", f / "vocab.txt"}));
  CHECK(subset.accuracy == 1);
  CHECK(subset.labels == json({"b", "c", "d"}));

  write_bytes(f / "config.json", R"({"id2label": {"0": "neg", "1": "pos"}})");
  const Said misfit = refused(model, f / "b.csv", {"--overwrite"});
  CHECK(misfit.id == "E_LABELS");
  CHECK_THAT(misfit.fact, ContainsSubstring("2 names, the model's head has 3 classes"));
  write_bytes(f / "config.json", R"({"id2label": {"0": "pos", "1": "neg", "2": "other"}})");
  write_bytes(f / "two.csv", csv({"neg", "pos"}));
  const Said fresh = must_run(with({model, "--train", f / "two.csv", "--num_labels", "2", "--overwrite"}, flags));
  CHECK_THAT(fresh.err, ContainsSubstring("new head: 0=neg, 1=pos"));
  CHECK(json::parse(bytes_of(f / "o/run.json")).at("labels") == json({"neg", "pos"}));
}

TEST_CASE("eval and predict of classifiers that other programs trained", "[classes]") {
  const TempDir f;
  write_vocab(f);
  const std::string model = save(f, words_model(3), "m.onnx");
  const Words eval = {"eval", model, "--device", "cpu", "--text_columns", "text", "--val"};
  const auto accuracy = [&](const Words& labels, const Words& more = {}) {
    write_bytes(f / "t.csv", csv(labels));
    return json::parse(must_run(with(with(eval, {f / "t.csv"}), more)).out).at("accuracy").get<double>();
  };
  CHECK(accuracy({"0", "1", "2"}) == 1);
  CHECK(accuracy({"0", "2", "1"}) == 1. / 3);
  CHECK(accuracy({"", "1", "2"}) == 1);
  CHECK(accuracy({"z", "b", "c"}, {"--labels", "z,b,c"}) == 1);
  write_bytes(f / "t.csv", csv({"z", "b", "c"}));
  const Said refused = run_verb(with(eval, {f / "t.csv"}));
  CHECK(refused.id == "E_LABELS");
  CHECK_THAT(refused.hint, ContainsSubstring("--labels"));
  // If the data have only some of the classes, the hint does not propose a new head either.
  write_bytes(f / "t.csv", csv({"z", "", "c"}));
  CHECK(run_verb(with(eval, {f / "t.csv"})).hint == refused.hint);
  write_bytes(f / "t.csv", csv({"z", "b", "c"}));
  const auto predicted = [&] {
    must_run({"predict", model, "--inputs", f / "t.csv", "--text_columns", "text", "--device", "cpu", "--out",
              f / "p.jsonl"});
    return json_lines(f / "p.jsonl").at(2).at("predicted_label");
  };
  CHECK(predicted() == "2");
  write_bytes(f / "config.json", R"({"id2label": {"0": "Z", "1": "B", "2": "C"}})");
  CHECK(accuracy({"z", "b", "c"}) == 1);
  CHECK(accuracy({"0", "1", "2"}) == 1);
  CHECK(predicted() == "C");
}

TEST_CASE("tags, sets of labels, tables of features", "[classes]") {
  const TempDir f;
  write_vocab(f);
  const Words tags = {"O", "B-PER", "I-PER", "B-LOC"};
  write_bytes(f / "config.json", R"({"id2label": {"0": "O", "1": "B-PER", "2": "I-PER", "3": "B-LOC"}})");
  std::string conll;
  for (const int i : {0, 1, 2, 3, 0, 1, 2})
    conll += "w" + std::to_string(i) + "\t" + tags[static_cast<size_t>(i)] + "\n";
  write_bytes(f / "t.conll", conll + "\n" + conll);
  const std::string tagger = save(f, words_model(4, true), "tags.onnx");
  CHECK(train(f, tagger, f / "t.conll", {}).accuracy == 1);
  CHECK(json::parse(must_run({"eval", tagger, "--val", f / "t.conll", "--task", "token", "--device", "cpu"}).out)
            .at("accuracy") == 1);

  fs::remove(f / "config.json");
  std::string sets = "text,label\n";
  for (const int i : {2, 10, 3, 11, 0, 1}) sets += "w" + std::to_string(i) + "," + std::to_string(i) + "\n";
  write_bytes(f / "s.csv", sets);
  const std::string model = save(f, words_model(12), "m.onnx");
  must_run(with({model, "--train", f / "s.csv", "--val", f / "s.csv", "--task", "multilabel", "--max_steps", "1",
                 "--lr", "0", "--device", "cpu", "--overwrite", "--output_dir", f / "run"},
                kText));
  // the mean over [CLS], the word and [SEP] gives the word's logit 10/3 - 1 and the others -1
  CHECK(json::parse(bytes_of(f / "run/run.json")).at("initial_metrics").at("exact_match") == 1);

  // The table has a column of 0 and 1 for each label, in any order. The model's class names identify its outputs.
  write_bytes(f / "columns.csv", "text,w3,w1,w2,w0\nw2,0,0,1,0\nw0,0,0,0,1\nw3,1,0,0,0\nw1,0,1,0,0\n");
  write_bytes(f / "config.json", R"({"id2label": {"0": "w0", "1": "w1", "2": "w2", "3": "w3"}})");
  const std::string four = save(f, words_model(4), "four.onnx");
  must_run(with({four, "--train", f / "columns.csv", "--val", f / "columns.csv", "--label_column", "w3,w1,w2,w0",
                 "--max_steps", "1", "--lr", "0", "--device", "cpu", "--overwrite", "--output_dir", f / "run"},
                kText));
  const json multi = json::parse(bytes_of(f / "run/run.json"));
  CHECK(multi.at("initial_metrics").at("exact_match") == 1);
  CHECK(multi.at("labels") == json::parse(R"(["w0", "w1", "w2", "w3"])"));
  CHECK(
      json::parse(must_run({"eval", f / "run", "--val", f / "columns.csv", "--device", "cpu"}).out).at("exact_match") ==
      1);
  write_bytes(f / "texts.csv", "text\nw2\n");  // without labels, for predict
  must_run({"predict", f / "run", "--inputs", f / "texts.csv", "--out", f / "p.csv", "--device", "cpu", "--quiet"});
  CHECK_THAT(bytes_of(f / "p.csv"), ContainsSubstring("w2"));
  fs::remove(f / "config.json");

  onnx::ModelProto net = test::parse(
      "<ir_version: 8, opset_import: [\"\" : 17]> net (float[N,3] x) => (float[N,3] logits) <float[3,3] w = "
      "{5,0,0,0,5,0,0,0,5}> { logits = MatMul (x, w) }");
  std::string rows = "a,b,c,answer\n";
  const Words answers = {"zebra", "ant", "10"};
  for (int i = 0; i < 6; ++i)
    rows += std::string(i % 3 == 0 ? "1.5" : "0.25") + (i % 3 == 1 ? ",1.5" : ",0.25") +
            (i % 3 == 2 ? ",1.5," : ",0.25,") + answers[static_cast<size_t>(i % 3)] + "\n";
  write_bytes(f / "rows.csv", rows);
  write_bytes(f / "config.json", R"({"id2label": {"0": "zebra", "1": "ant", "2": "10"}})");
  CHECK(train(f, save(f, net, "net.onnx"), f / "rows.csv",
              {"--target", "answer", "--continuous", "a,b,c", "--feature_scaling", "none"})
            .accuracy == 1);
}

TEST_CASE("image folders, tables of paths, masks", "[classes]") {
  const TempDir f;
  const auto model = [&](const std::string& head, const std::string& out) {
    // The logit of class k is 2 k v - k^2, where v is 11 times the mean of the red channel. It is largest for the k
    // nearest to v.
    std::vector<double> w, b;
    for (int k = 0; k < 12; ++k) {
      w.push_back(2 * k);
      b.push_back(-k * k);
    }
    return save(f,
                test::parse("<ir_version: 8, opset_import: [\"\" : 13]> net (float[B,3,8,8] x) => (float[" + out +
                            "] logits) <float[1,3,1,1] p = {11,0,0}, float[12,1,1,1] w = " + braces(w) +
                            ", float[12] b = " + braces(b) + "> { v = Conv (x, p) c = Conv (v, w, b) " + head + " }"),
                out.size() > 6 ? "masks.onnx" : "m.onnx");
  };
  std::string table = "path,label\n";
  for (int k = 0; k < 12; ++k) {
    const std::string dir = f / ("imgs/" + std::to_string(k));
    fs::create_directories(dir);
    for (int j = 0; j < 2; ++j) {
      std::string ppm = "P6 8 8 255\n";
      for (int i = 0; i < 64; ++i) ppm += {static_cast<char>((k * 255 + 5) / 11), '\0', '\0'};
      write_bytes(dir + "/" + std::to_string(j) + ".ppm", ppm);
      table += "imgs/" + std::to_string(k) + "/" + std::to_string(j) + ".ppm," + std::to_string(k) + "\n";
    }
  }
  write_bytes(f / "t.csv", table);
  const Words plain = {"--transforms", "resize 8", "--eval_transforms", "resize 8"};
  const std::string net = model("g = GlobalAveragePool (c) logits = Flatten (g)", "B,12");
  CHECK(train(f, net, f / "imgs", plain).accuracy == 1);
  CHECK(train(f, net, f / "t.csv", with(plain, {"--image_column", "path"})).accuracy == 1);
  fs::remove_all(f / "imgs/10");
  fs::remove_all(f / "imgs/4");
  const Before subset = train(f, net, f / "imgs", plain);
  CHECK(subset.accuracy == 1);
  CHECK(subset.labels.size() == 12);
  CHECK(
      json::parse(must_run({"eval", net, "--val", f / "imgs", "--eval_transforms", "resize 8", "--device", "cpu"}).out)
          .at("accuracy") == 1);
}
