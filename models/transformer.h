// Building blocks of transformers in the form that exporters write: attention as products and a Softmax, additive
// masks.
#pragma once

#include <functional>
#include <string>

#include "models/net.h"

namespace amp {

// Turns a mask (B, S) of 1 and 0 into an additive mask (B, 1, 1, S) in fp32: 0 where the mask is 1, the lowest float
// where it is 0.
NetValue padding_bias(Net& net, NetValue mask, const std::string& module);

// Returns an additive mask (S, S) in fp32: 0 for keys up to and including the query's position, the lowest float for
// later keys. S is the second dim of ids.
NetValue causal_bias(Net& net, NetValue ids, const std::string& module);

// Returns an additive mask (S, S) in fp32: 0 for positions at most `reach` apart, the lowest float for other positions.
NetValue window_bias(Net& net, NetValue ids, int64_t reach, const std::string& module);

// Returns (1, S) in int64: the numbers 0 to S - 1. S is the second dim of ids (B, S).
NetValue positions(Net& net, NetValue ids, const std::string& module);

// The cosine and sine of position times frequency, (S, head width), for rotary position embeddings (Su et al. 2021,
// arXiv 2104.09864). The last axis holds each frequency twice.
struct RotaryAngles {
  NetValue cos = -1, sin = -1;
};
std::vector<float> rotary_frequencies(double theta, int64_t width);  // returns theta^(-2 i / width) for i < width / 2
RotaryAngles rotary_angles(Net& net, NetValue ids, const std::vector<float>& frequencies, const std::string& module);
// Returns x cos + (-second half of x, first half of x) sin, for x (B, heads, S, width).
NetValue rotate(Net& net, NetValue x, const RotaryAngles& angles, int64_t width, const std::string& module);

// Returns x (B, S, width) times the transposed embedding table (vocabulary, width): (B, S, vocabulary).
NetValue tied_scores(Net& net, NetValue x, NetValue table, const std::string& module);

// Prepends a class token, (width) or (1, 1, width), to x (B, positions, width). Returns (B, 1 + positions, width). B is
// taken from `images`.
NetValue with_class_token(Net& net, NetValue x, NetValue token, NetValue images, int64_t width,
                          const std::string& module);

struct HeadGroups {
  int64_t number, width;         // number and width of the query heads
  int64_t key_value_number = 0;  // number of key and value heads; 0: the same as of query heads
};

struct QueryKeyValue {  // brace initialization fixes the order in which q, k, v are built
  NetValue q, k, v;
};
// Returns softmax(q k^T / sqrt(width) + bias) v. q and the result are (B, S, number width), k and v are (B, S,
// key_value_number width). bias: broadcasts to (B, number, S, S); -1: none. turn: if given, is applied to q (key =
// false) and k (key = true) as (B, heads, S, width), for rotary positions.
NetValue attention(Net& net, QueryKeyValue qkv, NetValue bias, const HeadGroups& heads, const std::string& module,
                   const std::function<NetValue(NetValue, bool key)>& turn = {});

// Splits logits (B, S, 2) into the outputs start_logits and end_logits (B, S).
void output_spans(Net& net, NetValue logits);

const std::vector<Dim> kTokens = {{-1, "batch_size"}, {-1, "sequence_length"}};
std::vector<Dim> tokens_by(int64_t width);  // returns (batch_size, sequence_length, width)
std::vector<Dim> rows_by(int64_t width);    // returns (batch_size, width)

}  // namespace amp
