// Attention, masks and rotary positions as ONNX operators with dynamic batch and length. Sizes that depend on the batch
// are computed by Shape nodes, so the model accepts all sizes.
#include "models/transformer.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace amp {

std::vector<Dim> tokens_by(int64_t width) { return {{-1, "batch_size"}, {-1, "sequence_length"}, {width, ""}}; }
std::vector<Dim> rows_by(int64_t width) { return {{-1, "batch_size"}, {width, ""}}; }

NetValue padding_bias(Net& net, NetValue mask, const std::string& module) {
  const NetValue wide = net.cast(net.unsqueeze(mask, module, {1, 2}, DType::i64), module, DType::f32);
  const NetValue missing = net.op("Sub", module, {net.number(module, 1), wide});
  return net.op("Mul", module, {missing, net.number(module, std::numeric_limits<float>::lowest())});
}

// Returns the lowest float where a > b, and 0 elsewhere.
static NetValue lowest_where_greater(Net& net, NetValue a, NetValue b, const std::string& module) {
  const NetValue wide = net.cast(net.op("Greater", module, {a, b}, {}, DType::boolean), module, DType::f32);
  return net.op("Mul", module, {wide, net.number(module, std::numeric_limits<float>::lowest())});
}

NetValue causal_bias(Net& net, NetValue ids, const std::string& module) {
  const NetValue places = positions(net, ids, module);
  return lowest_where_greater(net, places, net.transpose(places, module, {1, 0}), module);
}

NetValue window_bias(Net& net, NetValue ids, int64_t reach, const std::string& module) {
  const NetValue places = positions(net, ids, module);
  const NetValue apart =
      net.op("Abs", module, {net.op("Sub", module, {places, net.transpose(places, module, {1, 0})}, {}, DType::i64)},
             {}, DType::i64);
  return lowest_where_greater(net, apart, net.integer(module, reach), module);
}

std::vector<float> rotary_frequencies(double theta, int64_t width) {
  std::vector<float> out;
  for (int64_t i = 0; i < width / 2; ++i)
    out.push_back(static_cast<float>(std::pow(theta, -2 * static_cast<double>(i) / static_cast<double>(width))));
  return out;
}

RotaryAngles rotary_angles(Net& net, NetValue ids, const std::vector<float>& frequencies, const std::string& m) {
  const NetValue places = net.transpose(net.cast(positions(net, ids, m), m, DType::f32), m, {1, 0});
  const NetValue half = net.op("Mul", m, {places, net.numbers(m, frequencies)});
  const NetValue all = net.op("Concat", m, {half, half}, {{"axis", int64_t{-1}}});
  return {net.op("Cos", m, {all}), net.op("Sin", m, {all})};
}

NetValue rotate(Net& net, NetValue x, const RotaryAngles& angles, int64_t width, const std::string& m) {
  const auto part = [&](int64_t from, int64_t to) {
    return net.op("Slice", m, {x, net.ints(m, {from}), net.ints(m, {to}), net.ints(m, {3})});
  };
  const NetValue second = net.op("Neg", m, {part(width / 2, width)});
  const NetValue turned = net.op("Concat", m, {second, part(0, width / 2)}, {{"axis", int64_t{-1}}});
  const NetValue straight = net.op("Mul", m, {x, angles.cos});
  return net.add(straight, net.op("Mul", m, {turned, angles.sin}), m);
}

NetValue tied_scores(Net& net, NetValue x, NetValue table, const std::string& module) {
  return net.op("MatMul", module, {x, net.transpose(table, module, {1, 0})});
}

NetValue with_class_token(Net& net, NetValue x, NetValue token, NetValue images, int64_t width, const std::string& m) {
  const NetValue shape = net.op("Shape", m, {images}, {}, DType::i64);
  const NetValue batch = net.op("Slice", m, {shape, net.ints(m, {0}), net.ints(m, {1})}, {}, DType::i64);
  const NetValue to = net.op("Concat", m, {batch, net.ints(m, {1, width})}, {{"axis", int64_t{0}}}, DType::i64);
  return net.op("Concat", m, {net.op("Expand", m, {token, to}), x}, {{"axis", int64_t{1}}});
}

NetValue positions(Net& net, NetValue ids, const std::string& module) {
  const NetValue shape = net.op("Shape", module, {ids}, {}, DType::i64);
  const NetValue length = net.gather(shape, module, 1, 0, DType::i64);
  const NetValue row =
      net.op("Range", module, {net.integer(module, 0), length, net.integer(module, 1)}, {}, DType::i64);
  return net.unsqueeze(row, module, {0}, DType::i64);
}

NetValue attention(Net& net, QueryKeyValue qkv, NetValue bias, const HeadGroups& h, const std::string& module,
                   const std::function<NetValue(NetValue, bool key)>& turn) {
  const int64_t shared = h.key_value_number ? h.key_value_number : h.number;
  const auto split = [&](NetValue x, int64_t number) {
    return net.transpose(net.reshape(x, module, {0, 0, number, h.width}), module, {0, 2, 1, 3});
  };
  NetValue q = split(qkv.q, h.number), k = split(qkv.k, shared), v = split(qkv.v, shared);
  if (turn) {
    q = turn(q, false);
    k = turn(k, true);
  }
  if (shared != h.number) {  // each key and value head serves number / shared adjacent query heads
    const auto repeat = [&](NetValue x) {
      const NetValue five = net.unsqueeze(x, module, {2});  // (B, shared, 1, S, width)
      const NetValue wide = net.op("Expand", module, {five, net.ints(module, {1, 1, h.number / shared, 1, 1})});
      // Merges the two dims of heads to (B, number, S, width).
      const NetValue shape = net.op("Shape", module, {x}, {}, DType::i64);
      const NetValue batch =
          net.op("Slice", module, {shape, net.ints(module, {0}), net.ints(module, {1})}, {}, DType::i64);
      const NetValue rest =
          net.op("Slice", module, {shape, net.ints(module, {2}), net.ints(module, {4})}, {}, DType::i64);
      const NetValue to =
          net.op("Concat", module, {batch, net.ints(module, {h.number}), rest}, {{"axis", int64_t{0}}}, DType::i64);
      return net.op("Reshape", module, {wide, to});
    };
    k = repeat(k);
    v = repeat(v);
  }
  const NetValue products = net.op("MatMul", module, {q, net.transpose(k, module, {0, 1, 3, 2})});
  const NetValue scaled =
      net.op("Div", module, {products, net.number(module, std::sqrt(static_cast<double>(h.width)))});
  const NetValue weights =
      net.op("Softmax", module, {bias < 0 ? scaled : net.add(scaled, bias, module)}, {{"axis", int64_t{-1}}});
  const NetValue context = net.transpose(net.op("MatMul", module, {weights, v}), module, {0, 2, 1, 3});
  return net.reshape(context, module, {0, 0, h.number * h.width});
}

void output_spans(Net& net, NetValue logits) {
  net.output(net.gather(logits, "", 0, 2), "start_logits", kTokens);
  net.output(net.gather(logits, "", 1, 2), "end_logits", kTokens);
}

}  // namespace amp
