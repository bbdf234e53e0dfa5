// Builds the cases of padding_cases.h from the models of padding_models.h. Each case changes one thing of a plain
// encoder: mask, mixing operation, head, loss or inputs, and states whether its batches must be packed.
#include "padding_cases.h"

#include <map>

#include "padding_models.h"

namespace amp::test {

namespace {

constexpr int64_t kBatch = 4, kClasses = 3;
constexpr auto kAll = PaddingCase::all, kNone = PaddingCase::none, kSome = PaddingCase::some;

const std::string kScales =
    "E 0.8\nP 0.5\nT 0.5\nG 0.3\nWq 0.5\nWk 0.5\nWv 0.5\nWo 0.4\nU 0.4\nD 0.4\nWc 0.5\nWs 0.6\nF 0.3\nB1 0.4\nB2 0.4\n";

int64_t token(const CaseBatch& c, int64_t b, int64_t s) { return (5 * s + 3 * b + 7 * c.step) % 10 + 1; }

// Returns a batch. ids: token ids; padded positions have other ids in every batch. label: one class per sequence.
Tensors plain_batch(const CaseBatch& c) {
  std::vector<int64_t> ids, mask, label;
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t s = 0; s < c.length; ++s) {
      const bool there = s < c.lengths[static_cast<size_t>(b)];
      ids.push_back(there ? token(c, b, s) : (c.step + s) % 3);
      mask.push_back(there);
    }
    label.push_back((b + c.step) % kClasses);
  }
  const Dims d{kBatch, c.length};
  return {{"ids", HostTensor::of<int64_t>(d, ids)},
          {"mask", HostTensor::of<int64_t>(d, mask)},
          {"label", HostTensor::of<int64_t>({kBatch}, label)}};
}

// Returns a batch with one class per token; the class is `padded` at padded positions, from step `from` on.
Tensors token_batch(const CaseBatch& c, int64_t padded, int from) {
  Tensors t = plain_batch(c);
  const std::vector<int64_t> mask = t.at("mask").to_ints();
  std::vector<int64_t> label;
  for (size_t i = 0; i < mask.size(); ++i)
    label.push_back(mask[i] != 0 ? static_cast<int64_t>(i) % kClasses : c.step >= from ? padded : -100);
  t["label"] = HostTensor::of<int64_t>({kBatch, c.length}, label);
  return t;
}

LossSpec loss(const std::string& kind) {
  LossSpec s{kind};
  s.outputs = {"y"};
  return s;
}

PaddingCase one(const std::string& name, const std::string& text, decltype(PaddingCase::packed) packed) {
  PaddingCase c;
  c.name = name;
  c.text = text;
  c.scales = kScales;
  c.loss = loss("cross_entropy");
  c.batch = plain_batch;
  c.packed = packed;
  return c;
}

void add_masks(std::vector<PaddingCase>& cases) {
  for (const ModelPart& m : mask_kinds()) {
    for (const bool mean : {false, true}) {
      PaddingCase c = one("mask " + m.name + (mean ? ", masked mean" : ", first token"),
                          encoder(m, kNoMix) +
                              (m.name == "floating" || m.name == "boolean" || !mean ? head("first token").text
                                                                                    : head("masked mean").text) +
                              kClassifier,
                          m.packed);
      if (mean && (m.name == "floating" || m.name == "boolean")) continue;
      const DType type = m.name == "floating" ? DType::f32 : m.name == "boolean" ? DType::boolean : DType::i64;
      c.batch = [type](const CaseBatch& b) {
        Tensors t = plain_batch(b);
        t["mask"] = t["mask"].cast(type);
        t["other"] = t["mask"];  // equals the mask before step 5, and differs from it afterwards
        if (b.step >= 5)
          t["other"] = HostTensor::of<int64_t>(t["mask"].dims(), std::vector<int64_t>(kBatch * b.length, 1));
        return t;
      };
      cases.push_back(c);
    }
  }
}

void add_mixes(std::vector<PaddingCase>& cases) {
  for (const ModelPart& m : mixes()) {
    for (const bool mean : {false, true}) {
      const ModelPart& h = head(mean ? "masked mean" : "first token");
      // The mixing operation has already defined these weights.
      const bool weighted = mean && m.text.find("w3 =") != std::string::npos;
      PaddingCase c =
          one(m.name + ", " + h.name,
              encoder(mask_kinds()[0], m.text) +
                  (weighted ? "r0 = Mul(t, w)\nr = ReduceSum{keepdims=0}(r0, ones)\n" : h.text) + kClassifier,
              m.packed);
      c.options.batchnorm_train = m.name == "batch norm in training";
      cases.push_back(c);
    }
  }
}

void add_heads(std::vector<PaddingCase>& cases) {
  for (const ModelPart& h : heads()) {
    cases.push_back(one("head " + h.name, encoder(mask_kinds()[0], kNoMix) + h.text + kClassifier, h.packed));
    if (h.name == "first token" || h.name == "masked mean" || h.name == "mean")
      cases.push_back(
          one("counted positions, " + h.name, encoder(mask_kinds()[0], kNoMix, true) + h.text + kClassifier, h.packed));
  }
}

void add_token_losses(std::vector<PaddingCase>& cases) {
  const std::string text = encoder(mask_kinds()[0], kNoMix) + kTokenClassifier;
  std::map<std::string, LossSpec> losses{{"cross entropy", loss("cross_entropy")},
                                         {"smoothed", loss("cross_entropy")},
                                         {"weighted", loss("cross_entropy")},
                                         {"focal", loss("focal")},
                                         {"shifted", loss("causal_lm")}};
  losses["smoothed"].set("label_smoothing", {0.1});
  losses["weighted"].set("class_weights", {1, 2, 0.5});
  for (const auto& [name, spec] : losses) {
    for (const int late : {0, 5, 99}) {
      PaddingCase c = one("labels " + name +
                              (late == 99 ? ""
                               : late     ? ", at padding from batch 5 on"
                                          : ", at padding"),
                          text,
                          name == "shifted" ? kSome
                          : late == 99      ? kAll
                          : late == 0       ? kNone
                                            : kSome);
      c.loss = spec;
      c.batch = [late](const CaseBatch& b) { return token_batch(b, 1, late); };
      cases.push_back(c);
    }
  }
  PaddingCase dense = one(
      "regression of every token",
      encoder(mask_kinds()[0], kNoMix) + "param Ws 8 1\ny0 = MatMul(t, Ws)\ny = Squeeze(y0, last)\noutput y\n", kNone);
  dense.loss = loss("mse");
  dense.batch = [](const CaseBatch& b) {
    Tensors t = plain_batch(b);
    t["label"] = t["ids"].cast(DType::f32);
    return t;
  };
  cases.push_back(dense);
}

void add_losses(std::vector<PaddingCase>& cases) {
  const std::string text = encoder(mask_kinds()[0], kNoMix);
  PaddingCase silent = one("no label counts in the first batches", text + head("mean").text + kClassifier, kNone);
  silent.batch = [](const CaseBatch& b) {
    Tensors t = plain_batch(b);
    if (b.step < 4) t["label"] = HostTensor::of<int64_t>({kBatch}, std::vector<int64_t>(kBatch, -100));
    return t;
  };
  cases.push_back(silent);
  silent.name += ", first token";
  silent.text = text + head("first token").text + kClassifier;
  silent.packed = kAll;
  cases.push_back(silent);

  for (const bool mean : {false, true}) {
    PaddingCase hinge =
        one(std::string("hinge inside its margin at first, ") + (mean ? "mean" : "first token"),
            "input sign float32\ninput margin float32\n" + text + head(mean ? "mean" : "first token").text +
                "param Ws 8 1\nz0 = MatMul(r, Ws)\nz1 = Squeeze(z0, last)\nz2 = Mul(z1, sign)\n"
                "z3 = Sub(margin, z2)\nz4 = Relu(z3)\ny = ReduceMean{keepdims=0}(z4)\noutput y\n",
            mean ? kNone : kAll);
    hinge.loss = loss("model");
    hinge.batch = [](const CaseBatch& b) {
      Tensors t = plain_batch(b);
      const float shown = b.step < 3 ? 0 : 1;
      t["margin"] = HostTensor::of<float>({kBatch}, std::vector<float>(kBatch, b.step < 3 ? -1 : 5));
      t["sign"] = HostTensor::of<float>({kBatch}, {shown, -shown, shown, -shown});
      return t;
    };
    cases.push_back(hinge);
  }
  PaddingCase span = one("span over all places",
                         text +
                             "param Wc 8 2\ny0 = MatMul(t, Wc)\na0, b0 = Split{axis=-1}(y0)\na = Squeeze(a0, last)\n"
                             "b = Squeeze(b0, last)\noutput a\noutput b\n",
                         kNone);
  span.loss = {"qa_span"};
  span.loss.outputs = {"a", "b"};
  span.batch = [](const CaseBatch& b) {
    Tensors t = plain_batch(b);
    t["label"] = HostTensor::of<int64_t>({kBatch, 2}, std::vector<int64_t>(2 * kBatch, 0));
    return t;
  };
  cases.push_back(span);
  PaddingCase regression =
      one("regression", text + head("masked mean").text + "param Ws 8 1\ny = MatMul(r, Ws)\noutput y\n", kAll);
  regression.loss = loss("mse");
  regression.batch = [](const CaseBatch& b) {
    Tensors t = plain_batch(b);
    t["label"] = HostTensor::of<float>({kBatch, 1}, {0.5F, -1, 2, 0});
    return t;
  };
  cases.push_back(regression);
}

// Adds cases with masks that are not ones followed by zeros, and with token types.
void add_inputs(std::vector<PaddingCase>& cases) {
  const std::string text = encoder(mask_kinds()[0], kNoMix);
  const auto with_mask = [](const std::function<int64_t(int64_t s, int64_t n, int64_t length)>& at) {
    return [at](const CaseBatch& b) {
      Tensors t = plain_batch(b);
      std::vector<int64_t> m;
      for (const int64_t n : b.lengths) {
        for (int64_t s = 0; s < b.length; ++s) m.push_back(at(s, n, b.length));
      }
      t["mask"] = HostTensor::of<int64_t>({kBatch, b.length}, m);
      return t;
    };
  };
  const std::vector<std::pair<std::string, std::function<int64_t(int64_t, int64_t, int64_t)>>> masks = {
      {"padding on the left", [](int64_t s, int64_t n, int64_t length) { return s >= length - n; }},
      {"holes", [](int64_t s, int64_t n, int64_t) { return s < n && s != 1; }},
      {"packed inputs", [](int64_t s, int64_t n, int64_t length) { return s < n            ? 1
                                                                          : s + 1 < length ? 2
                                                                                           : 0; }},
      {"no tokens in a row", [](int64_t s, int64_t n, int64_t) { return n > 3 && s < n; }}};
  for (const auto& [name, at] : masks) {
    for (const ModelPart& h : {head("first token"), head("mean")}) {
      PaddingCase c =
          one(name + ", " + h.name, text + h.text + kClassifier, name == "no tokens in a row" ? kSome : kNone);
      c.batch = with_mask(at);
      cases.push_back(c);
    }
  }
  PaddingCase types = one("token types", text, kAll);
  const size_t at = types.text.find("e = Add(e0, e1)");
  types.text.replace(at, 15, "param T 2 8\ne2 = Gather(T, types)\ne3 = Add(e0, e1)\ne = Add(e3, e2)");
  types.text = "input types int64\n" + types.text + head("first token").text + kClassifier;
  types.batch = [](const CaseBatch& b) {
    Tensors t = plain_batch(b);
    std::vector<int64_t> type;
    for (int64_t i = 0; i < kBatch * b.length; ++i) type.push_back((i + b.step) % 2);
    t["types"] = HostTensor::of<int64_t>({kBatch, b.length}, type);
    return t;
  };
  cases.push_back(types);
}

// Adds cases in which separate queries attend to the tokens, or the tokens attend to another sequence.
void add_cross(std::vector<PaddingCase>& cases) {
  const std::string ask = R"(
    param G 5 8
    param Wd 8 8
    const q4 int64 4 = 1 5 2 4
    const j3 int64 3 = 0 0 8
    g0 = Reshape(G, q4)
    g1 = Transpose{perm=[0 2 1 3]}(g0)
    tw = MatMul(t, Wd)
    x1 = Reshape(tw, heads)
    xk = Transpose{perm=[0 2 3 1]}(x1)
    xv = Transpose{perm=[0 2 1 3]}(x1)
    front0 = Shape(x1)
    front1 = Slice(front0, zeros, ones)
    const rest int64 3 = 2 5 4
)";
  const auto text = [&](const std::string& mask) {
    return encoder(mask_kinds()[0], kNoMix) + ask +
           "to4 = Concat{axis=0}(front1, rest)\nxq = Expand(g1, to4)\nz0 = MatMul(xq, xk)\n" + mask +
           "z2 = Softmax{axis=-1}(z1)\nz3 = MatMul(z2, xv)\nz4 = Transpose{perm=[0 2 1 3]}(z3)\nz5 = Reshape(z4, j3)\n"
           "r = ReduceMean{axes=[1],keepdims=0}(z5)\n" +
           kClassifier;
  };
  PaddingCase masked = one("cross attention by the mask", text("z1 = Add(z0, bias)\n"), kAll);
  masked.scales += "Wd 0.5\n";
  cases.push_back(masked);
  PaddingCase open = one("cross attention without a mask", text("z1 = Identity(z0)\n"), kNone);
  open.scales += "Wd 0.5\n";
  cases.push_back(open);
}

}  // namespace

std::vector<PaddingCase> padding_cases() {
  std::vector<PaddingCase> cases;
  add_masks(cases);
  add_mixes(cases);
  add_heads(cases);
  add_token_losses(cases);
  add_losses(cases);
  add_inputs(cases);
  add_cross(cases);
  for (PaddingCase& c : cases) {
    std::string named;
    for (size_t at = 0; at < c.scales.size();) {
      const size_t end = c.scales.find('\n', at), space = c.scales.find(' ', at);
      const std::string name = c.scales.substr(at, space - at);
      if (c.text.find("param " + name + " ") != std::string::npos) named += c.scales.substr(at, end + 1 - at);
      at = end + 1;
    }
    c.scales = named;
  }
  return cases;
}

}  // namespace amp::test
