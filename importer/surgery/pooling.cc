// Builds the ONNX nodes of each pooling mode. Without a mask input, mean, max, cls and last use all positions. Formulas
// and constants follow sentence-transformers, including the clamp of the token count.
#include "importer/surgery/pooling.h"

#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace amp {

namespace {

constexpr float kBelowAll = -6e4f;  // finite in fp16 too; replaces padded positions before the maximum

class Pooler {
 public:
  Pooler(GraphEditor& e, int hidden) : e_(e), x_(hidden) {
    for (const int v : e.graph.inputs) {
      const std::string& n = e.graph.values[static_cast<size_t>(v)].name;
      if (n == "attention_mask" || n == "input_mask") mask_input_ = v;
    }
  }

  int pool(const std::string& mode) {
    if (mode == "cls") return first();
    if (mode == "last") return mask_input_ < 0 ? at("head/last", -1) : last();
    if (mode == "max") return largest();
    if (mode == "mean" && mask_input_ < 0) return e_.reduce_mean("head/mean", x_, {1});
    if (mode == "mean") return divided("head/mean", mask(), "head/one", 1.0f);
    if (mode == "weighted_mean") return divided("head/weighted_mean", weights(), "head/least", 1e-9f);
    if (mode == "mean_sqrt_len") return by_root_of_length();
    bug(cat("pooling ", mode));
  }

 private:
  int scalar(const std::string& name, float v) { return e_.constant(name, HostTensor::scalar<float>(v)); }
  int at(const std::string& name, int64_t place) {
    return e_.node("Gather", name, {x_, e_.constant(name + "_index", HostTensor::scalar<int64_t>(place))},
                   {{"axis", int64_t{1}}});
  }
  int first() { return at("head/cls", 0); }

  int mask2() {  // returns the mask as floats [B, S]
    if (mask_input_ < 0)
      fail(Exit::unsupported, "E_HEAD", "this pooling counts tokens, and the model has no input attention_mask",
           "choose `pooling` mean, max, cls or last");
    if (mask2_ < 0) mask2_ = e_.node("Cast", "head/mask_float", {mask_input_}, {{"to", int64_t{1}}});
    return mask2_;
  }
  int mask() {  // returns the mask [B, S, 1]
    if (mask_ < 0) mask_ = e_.unsqueeze("head/mask", mask2(), 2);
    return mask_;
  }
  int numbers() {  // returns [B, S]: the tokens' numbers 1, 2, ...; 0 for padding
    const int axis = e_.constant("head/axis", HostTensor::scalar<int64_t>(1));
    return e_.node("Mul", "head/numbers", {e_.node("CumSum", "head/places", {mask2(), axis}), mask2()});
  }
  int weights() { return e_.unsqueeze("head/weights", numbers(), 2); }

  int sum(int weights) { return e_.reduce_sum("head/sum", e_.node("Mul", "head/masked", {x_, weights}), 1); }
  // Returns the weighted sum divided by the sum of the weights. `least` avoids a division by zero in a sequence without
  // tokens.
  int divided(const std::string& name, int weights, const std::string& least_name, float least) {
    const int count = e_.reduce_sum("head/count", weights, 1);
    return e_.node("Div", name, {sum(weights), e_.node("Max", "head/tokens", {count, scalar(least_name, least)})});
  }
  int by_root_of_length() {
    const int count = e_.reduce_sum("head/count", mask(), 1);
    const int most = e_.node("Max", "head/tokens", {count, scalar("head/one", 1.0f)});
    return e_.node("Div", "head/mean_sqrt_len", {sum(mask()), e_.node("Sqrt", "head/root", {most})});
  }

  int reduce_max(const std::string& name, int x, bool keep) {
    const int64_t axis = 1;
    const Attrs kept{{"keepdims", int64_t{keep}}};
    if (e_.version() >= 18)
      return e_.node("ReduceMax", name, {x, e_.constant(name + "_axes", HostTensor::of<int64_t>({1}, {axis}))}, kept);
    Attrs attrs = kept;
    attrs.set("axes", std::vector<int64_t>{axis});
    return e_.node("ReduceMax", name, {x}, attrs);
  }
  int largest() {
    if (mask_input_ < 0) return reduce_max("head/max", x_, false);
    const int seen = e_.node("Cast", "head/seen", {mask()}, {{"to", int64_t{9}}}, DType::boolean);
    return reduce_max("head/max", e_.node("Where", "head/unpadded", {seen, x_, scalar("head/below", kBelowAll)}),
                      false);
  }
  int last() {  // selects the token with the largest number
    const int n = numbers();
    const int is_last =
        e_.node("Equal", "head/is_last", {n, reduce_max("head/last_number", n, true)}, {}, DType::boolean);
    // In a sequence without tokens, all numbers are equal to the maximum 0. The mask then removes all positions.
    const int chosen =
        e_.node("Mul", "head/chosen", {e_.node("Cast", "head/last_float", {is_last}, {{"to", int64_t{1}}}), mask2()});
    return sum(e_.unsqueeze("head/last_mask", chosen, 2));
  }

  GraphEditor& e_;
  int x_, mask_input_ = -1, mask2_ = -1, mask_ = -1;
};

}  // namespace

int pool_hidden_states(GraphEditor& e, int hidden, const std::string& modes) {
  std::vector<int> parts;
  for (const std::string& mode : split(modes, '+')) parts.push_back(Pooler(e, hidden).pool(mode));
  return parts.size() == 1 ? parts[0] : e.node("Concat", "head/pooled", parts, {{"axis", int64_t{1}}});
}

int normalize_rows(GraphEditor& e, int x) {
  const int squares = e.node("Mul", "head/squares", {x, x});
  const int sum = e.unsqueeze("head/square_sum", e.reduce_sum("head/squares_sum", squares, 1), 1);
  const int least = e.constant("head/least_length", HostTensor::scalar<float>(1e-12f));  // as in torch's normalize()
  const int length = e.node("Max", "head/length", {e.node("Sqrt", "head/root_of_squares", {sum}), least});
  return e.node("Div", "head/normalized", {x, length});
}

}  // namespace amp
