// Models in text form for padding_cases.cc: embeddings with learned or counted positions, forms of the attention mask,
// operations between tokens, heads. Each part states whether models with it must be packed.
#include "padding_models.h"

#include <algorithm>

namespace amp::test {

namespace {
constexpr auto kAll = PaddingCase::all, kNone = PaddingCase::none, kSome = PaddingCase::some;

// Returns learned embeddings of positions, which are 0, 1, ... or are counted by the mask, as in RoBERTa.
std::string embeddings(bool counted) {
  std::string s = R"(
    input ids int64
    param E 11 8
    param P 16 8
    param gamma 8 = 1
    param beta 8 = 0
    const zero int64 = 0
    const one int64 = 1
    const ones int64 1 = 1
    const zeros int64 1 = 0
    const onef = 1
    const zerof = 0
    const low = -10000
    const lowest = -3.4e38
    const minus_inf = -inf
    const half = 0.5
    const middle int64 2 = 1 2
    const last int64 1 = -1
    const heads int64 4 = 0 0 2 4
    const joined int64 3 = 0 0 8
    e0 = Gather(E, ids)
    shape = Shape(ids)
    length = Gather(shape, one)
    range = Range(zero, length, one)
)";
  s += counted ? "summed = CumSum(mask, one)\nposition = Mul(summed, mask)\n" : "position = Identity(range)\n";
  return s +
         "e1 = Gather(P, position)\ne = Add(e0, e1)\nn = LayerNormalization{axis=-1,epsilon=0.00001}(e, gamma, beta)\n";
}

}  // namespace

static const std::string kAdditive = "m4 = Unsqueeze(mask, middle)\nmf = Cast{to=1}(m4)\ninv = Sub(onef, mf)\n";
static const std::string kDistance =
    "column = Unsqueeze(range, ones)\nrow = Unsqueeze(range, zeros)\ndistance = Sub(column, row)\n";
const std::vector<ModelPart>& mask_kinds() {
  static const std::string int_mask = "input mask int64\n";
  const auto of = [](const char* name, std::string input, std::string text, decltype(PaddingCase::packed) packed) {
    return ModelPart{name, std::move(text), packed, std::move(input)};
  };
  static const std::vector<ModelPart> kinds = {
      of("plain", int_mask, kAdditive + "bias = Mul(inv, low)\ns2 = Add(s1, bias)\n", kAll),
      of("lowest", int_mask, kAdditive + "bias = Mul(inv, lowest)\ns2 = Add(s1, bias)\n", kAll),
      of("minus infinity", int_mask,
         "m4 = Unsqueeze(mask, middle)\nkeep = Cast{to=9}(m4)\nbias = Where(keep, zerof, minus_inf)\ns2 = Add(s1, "
         "bias)\n",
         kAll),
      of("where", int_mask, "m4 = Unsqueeze(mask, middle)\nhide = Equal(m4, zero)\ns2 = Where(hide, lowest, s1)\n",
         kAll),
      of("floating", "input mask float32\n",
         "m4 = Unsqueeze(mask, middle)\ninv = Sub(onef, m4)\nbias = Mul(inv, low)\n"
         "s2 = Add(s1, bias)\n",
         kAll),
      of("boolean", "input mask bool\n", "keep = Unsqueeze(mask, middle)\ns2 = Where(keep, s1, lowest)\n", kAll),
      of("expanded", int_mask,
         kAdditive + "bias4 = Mul(inv, low)\nwide = Shape(s1)\nq2n = Slice(wide, two_i, four_i)\nfront = Slice(wide, "
                     "zeros, ones)"
                     "\nto = Concat{axis=0}(front, ones, q2n)\nbias = Expand(bias4, to)\ns2 = Add(s1, bias)\n",
         kAll),
      of("by query and key", int_mask,
         "mi0 = Unsqueeze(mask, second)\nmj0 = Unsqueeze(mask, ones)\nmij = Mul(mi0, mj0)\nm4 = Unsqueeze(mij, ones)\n"
         "mf = Cast{to=1}(m4)\ninv = Sub(onef, mf)\nbias = Mul(inv, low)\ns2 = Add(s1, bias)\n",
         kAll),
      of("minus thousand", int_mask,
         "const thousand = -1000\n" + kAdditive + "bias = Mul(inv, thousand)\ns2 = Add(s1, bias)\n", kNone),
      of("weak", int_mask, "const weak = -3\n" + kAdditive + "bias = Mul(inv, weak)\ns2 = Add(s1, bias)\n", kNone),
      of("none", int_mask, "s2 = Identity(s1)\n", kNone),
      of("causal", int_mask,
         kAdditive + kDistance +
             "past = GreaterOrEqual(distance, zero)\ntriangle = Where(past, zerof, low)\n"
             "bias0 = Mul(inv, low)\nbias = Add(bias0, triangle)\ns2 = Add(s1, bias)\n",
         kNone),
      of("causal alone", int_mask,
         kDistance +
             "past = GreaterOrEqual(distance, zero)\ntriangle = Where(past, zerof, low)\ns2 = Add(s1, triangle)\n",
         kNone),
      // The attention window does not mask sequences that are shorter than the window. Half of the batches are kept
      // this short.
      of("window", int_mask,
         kAdditive + kDistance +
             "const reach int64 = 6\naway = Abs(distance)\nfar = Greater(away, reach)\n"
             "band = Where(far, low, zerof)\nbias0 = Mul(inv, low)\nbias = Add(bias0, band)\n"
             "s2 = Add(s1, bias)\n",
         kSome),
      of("narrow window", int_mask,
         kAdditive + kDistance +
             "away = Abs(distance)\nfar = Greater(away, one)\nband = Where(far, minus_inf, zerof)\n"
             "bias0 = Mul(inv, low)\nbias = Add(bias0, band)\ns2 = Add(s1, bias)\n",
         kNone),
      of("of another input", int_mask + "input other int64\n",
         "m4 = Unsqueeze(other, middle)\nmf = Cast{to=1}(m4)\ninv = Sub(onef, mf)\nbias = Mul(inv, low)\n"
         "s2 = Add(s1, bias)\n",
         kSome),
      of("by tokens", int_mask,
         "const three int64 = 3\nwords = Greater(ids, three)\nm4 = Unsqueeze(words, middle)\nmf = Cast{to=1}(m4)\n"
         "inv = Sub(onef, mf)\nbias = Mul(inv, low)\ns2 = Add(s1, bias)\n",
         kNone),
      of("over the batch", int_mask,
         "together = ReduceMax{axes=[0],keepdims=1}(mask)\nm4 = Unsqueeze(together, middle)\nmf = Cast{to=1}(m4)\n"
         "inv = Sub(onef, mf)\nbias = Mul(inv, low)\ns2 = Add(s1, bias)\n",
         kNone)};
  return kinds;
}

// Returns a layer of attention and a feed-forward part, from `n` to `h`.
static std::string layer(const std::string& mask) {
  return R"(
    param Wq 8 8
    param Wk 8 8
    param Wv 8 8
    param Wo 8 8
    param U 8 12
    param D 12 8
    const two_i int64 1 = 2
    const four_i int64 1 = 4
    const second int64 1 = 2
    q0 = MatMul(n, Wq)
    q1 = Reshape(q0, heads)
    q = Transpose{perm=[0 2 1 3]}(q1)
    k0 = MatMul(n, Wk)
    k1 = Reshape(k0, heads)
    k = Transpose{perm=[0 2 3 1]}(k1)
    v0 = MatMul(n, Wv)
    v1 = Reshape(v0, heads)
    v = Transpose{perm=[0 2 1 3]}(v1)
    s0 = MatMul(q, k)
    s1 = Mul(s0, half)
)" + mask +
         R"(
    p = Softmax{axis=-1}(s2)
    o0 = MatMul(p, v)
    o1 = Transpose{perm=[0 2 1 3]}(o0)
    o2 = Reshape(o1, joined)
    o3 = MatMul(o2, Wo)
    h0 = Add(n, o3)
    u0 = MatMul(h0, U)
    u1 = Tanh(u0)
    u2 = MatMul(u1, D)
    h = Add(h0, u2)
)";
}

static const std::string kWeight = "w3 = Unsqueeze(mask, last)\nw = Cast{to=1}(w3)\n";
const std::vector<ModelPart>& mixes() {
  static const std::string conv = "param F 8 8 3\nc1 = Conv{pads=[1 1],kernel_shape=[3]}(c0, F)\n";
  static const std::string norm =
      "param scale 8 = 1\nparam shift 8 = 0\nparam mean 8 = 0.1\nparam var 8 = 0.9\n"
      "c0 = Transpose{perm=[0 2 1]}(h)\n"
      "c1 = BatchNormalization{epsilon=0.00001}(c0, scale, shift, mean, var)\nt = Transpose{perm=[0 2 1]}(c1)\n";
  static const std::vector<ModelPart> kinds = {
      {"gate", kWeight + "t = Mul(h, w)\n", kAll},
      {"convolution", "c0 = Transpose{perm=[0 2 1]}(h)\n" + conv + "t = Transpose{perm=[0 2 1]}(c1)\n", kNone},
      {"masked convolution",
       kWeight + "g = Mul(h, w)\nc0 = Transpose{perm=[0 2 1]}(g)\n" + conv + "t = Transpose{perm=[0 2 1]}(c1)\n", kAll},
      {"batch norm", norm, kAll},
      {"batch norm in training", norm, kNone},
      {"running sum", "t = CumSum(h, one)\n", kNone},
      {"reversed",
       "const from int64 1 = -1\nconst until int64 1 = -9999\nconst back int64 1 = -1\n"
       "t = Slice(h, from, until, ones, back)\n",
       kNone},
      {"neighbours",
       "const end int64 1 = 9999\na = Slice(h, ones, end, ones)\nb = Slice(h, zeros, ones, ones)\n"
       "rolled = Concat{axis=1}(a, b)\nt = Add(h, rolled)\n",
       kNone},
      {"mean taken off", "m = ReduceMean{axes=[1],keepdims=1}(h)\nt = Sub(h, m)\n", kNone},
      {"masked mean taken off",
       kWeight + "g = Mul(h, w)\nm0 = ReduceSum(g, ones)\nm1 = ReduceSum(w, ones)\nm = Div(m0, m1)\nt = Sub(h, m)\n",
       kAll},
      {"norm over tokens", "t0 = ReduceMax{axes=[1],keepdims=1}(h)\nt = Div(h, t0)\n", kNone},
      {"softmax over tokens", "t0 = Softmax{axis=1}(h)\nt = Add(h, t0)\n", kNone},
      {"flattened",
       "param B1 72 8\nconst row int64 2 = 0 -1\nf0 = Reshape(h, row)\nf1 = MatMul(f0, B1)\nf2 = Unsqueeze(f1, ones)\n"
       "t = Add(h, f2)\n",
       kNone},
      {"tokens mixed",
       "param B2 9 9\nc0 = Transpose{perm=[0 2 1]}(h)\nc1 = MatMul(c0, B2)\nc2 = Transpose{perm=[0 2 1]}(c1)\n"
       "t = Add(h, c2)\n",
       kNone},
      {"largest of the batch", "m = ReduceMax{axes=[0],keepdims=1}(h)\nt = Sub(h, m)\n", kNone},
      {"heads of their own",
       "own0 = Reshape(h, heads)\nown1 = ReduceSum{keepdims=0}(own0, last)\nown2 = Concat{axis=2}(own1, own1, own1, "
       "own1)\n"
       "t = Add(h, own2)\n",
       kAll}};
  return kinds;
}

// Returns statements that compute r, the mean of x over unmasked positions. `x` is a statement that computes x from t.
static std::string masked_mean(const std::string& x) {
  return x +
         "r0 = Mul(x, w)\nr1 = ReduceSum{keepdims=0}(r0, ones)\nr2 = ReduceSum{keepdims=0}(w, ones)\nr = Div(r1, r2)\n";
}

const std::vector<ModelPart>& heads() {
  static const std::vector<ModelPart> kinds = {
      {"first token", "r = Gather{axis=1}(t, zero)\n", kAll},
      {"first token sliced", "r0 = Slice(t, zeros, ones, ones)\nr = Squeeze(r0, ones)\n", kAll},
      {"second token", "r = Gather{axis=1}(t, one)\n", kNone},
      {"last place", "const behind int64 = -1\nr = Gather{axis=1}(t, behind)\n", kNone},
      {"masked mean",
       kWeight + "r0 = Mul(t, w)\nr1 = ReduceSum{keepdims=0}(r0, ones)\n"
                 "r2 = ReduceSum{keepdims=0}(w, ones)\nr = Div(r1, r2)\n",
       kAll},
      {"weighted mean",
       kWeight + "w1 = ReduceSum{keepdims=1}(w, ones)\nw2 = Div(w, w1)\nr0 = Mul(w2, t)\n"
                 "r = ReduceSum{keepdims=0}(r0, ones)\n",
       kAll},
      {"mean by a product",
       "w0 = Cast{to=1}(mask)\nw = Unsqueeze(w0, ones)\nr0 = MatMul(w, t)\nr = Squeeze(r0, ones)\n", kAll},
      {"mean", "r = ReduceMean{axes=[1],keepdims=0}(t)\n", kNone},
      {"largest", "r = ReduceMax{axes=[1],keepdims=0}(t)\n", kNone},
      {"masked largest",
       "k3 = Unsqueeze(mask, last)\nk4 = Cast{to=9}(k3)\nr0 = Where(k4, t, low)\nr = "
       "ReduceMax{axes=[1],keepdims=0}(r0)\n",
       kAll},
      {"largest, masked by a sum",
       kWeight + "w1 = Sub(onef, w)\nw2 = Mul(w1, low)\nr0 = Add(t, w2)\nr = ReduceMax{axes=[1],keepdims=0}(r0)\n",
       kSome},
      {"last token",
       "n0 = ReduceSum{keepdims=1}(mask, ones)\nn1 = Sub(n0, one)\nat = Equal(range, n1)\nat3 = Unsqueeze(at, last)\n"
       "w = Cast{to=1}(at3)\nr0 = Mul(t, w)\nr = ReduceSum{keepdims=0}(r0, ones)\n",
       kSome},
      {"attention pooling",
       "param G 8 1\ng0 = MatMul(t, G)\nk3 = Unsqueeze(mask, last)\nk4 = Cast{to=9}(k3)\n"
       "g1 = Where(k4, g0, low)\ng2 = Softmax{axis=1}(g1)\nr0 = Mul(t, g2)\nr = ReduceSum{keepdims=0}(r0, ones)\n",
       kAll},
      {"attention pooling, minus thousand",
       "const thousand = -1000\nparam G 8 1\ng0 = MatMul(t, G)\nk3 = Unsqueeze(mask, last)\nk4 = Cast{to=9}(k3)\n"
       "g1 = Where(k4, g0, thousand)\ng2 = Softmax{axis=1}(g1)\nr0 = Mul(t, g2)\nr = ReduceSum{keepdims=0}(r0, ones)\n",
       kNone},
      // The value may be infinite at padded positions, and 0 times infinity is NaN. With an epsilon the product is 0.
      {"masked mean of a logarithm", kWeight + masked_mean("x0 = Abs(t)\nx = Log(x0)\n"), kNone},
      {"masked mean of a guarded logarithm",
       kWeight + masked_mean("const eps = 1e-6\nx0 = Abs(t)\nx1 = Add(x0, eps)\nx = Log(x1)\n"), kAll},
      {"masked mean of a logarithm in a token",
       kWeight + masked_mean("x0 = ReduceSum{keepdims=1}(t, last)\nx1 = Abs(x0)\nx2 = Log(x1)\nx = Add(t, x2)\n"),
       kNone},
      {"masked mean of unit vectors", kWeight + masked_mean("x0 = ReduceL2{keepdims=1}(t, last)\nx = Div(t, x0)\n"),
       kNone},
      {"masked mean of inverse norms",
       kWeight + masked_mean("x0 = ReduceL2{keepdims=1}(t, last)\nx1 = Reciprocal(x0)\nx = Mul(t, x1)\n"), kNone},
      {"masked mean of guarded unit vectors",
       kWeight +
           masked_mean("const eps = 1e-12\nx0 = ReduceL2{keepdims=1}(t, last)\nx1 = Max(x0, eps)\nx = Div(t, x1)\n"),
       kSome},
      {"masked mean of roots", kWeight + masked_mean("x0 = Tanh(t)\nx1 = Add(x0, onef)\nx = Sqrt(x1)\n"), kSome},
      {"masked mean of powers", kWeight + masked_mean("const minus = -0.5\nx0 = Mul(t, t)\nx = Pow(x0, minus)\n"),
       kNone},
      {"masked mean of exponentials", kWeight + masked_mean("x = Exp(t)\n"), kNone},
      {"masked mean of bounded exponentials", kWeight + masked_mean("x0 = Tanh(t)\nx = Exp(x0)\n"), kAll},
      {"chosen mean of a logarithm",
       "k3 = Unsqueeze(mask, last)\nk4 = Cast{to=9}(k3)\nx0 = ReduceSum{keepdims=1}(t, last)\nx1 = Abs(x0)\n"
       "x2 = Log(x1)\nx3 = Add(t, x2)\nx4 = Where(k4, x3, zerof)\nr = ReduceSum{keepdims=0}(x4, ones)\n",
       kAll},
      {"attention pooling without a mask",
       "param G 8 1\ng0 = MatMul(t, G)\ng2 = Softmax{axis=1}(g0)\nr0 = Mul(t, g2)\nr = ReduceSum{keepdims=0}(r0, "
       "ones)\n",
       kNone}};
  return kinds;
}

const ModelPart& head(const std::string& name) {
  return *std::find_if(heads().begin(), heads().end(), [&](const ModelPart& h) { return h.name == name; });
}

std::string encoder(const ModelPart& mask, const std::string& mix, bool counted) {
  return mask.input + embeddings(counted) + layer(mask.text) + mix;
}

}  // namespace amp::test
