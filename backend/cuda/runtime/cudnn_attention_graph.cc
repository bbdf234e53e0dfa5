// Describes attention by cudnn-frontend's operations sdpa and sdpa_backward. Tensors have 16 bits, arithmetic is fp32,
// `stats` is the log-sum-exp of every row, and the gradient is deterministic.
#ifdef ONNX_AMP_CUDNN_FRONTEND

#include "backend/cuda/runtime/cudnn_attention_graph.h"

namespace amp::cuda {

namespace {

namespace fe = cudnn_frontend;
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

class Describer {
 public:
  Describer(fe::graph::Graph& graph, const Attention& a) : graph_(graph), a_(a) {}

  void describe() {
    graph_.set_io_data_type(cudnn_type(a_.type))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const TensorPtr q = tensor(kQ, a_.queries, a_.width, a_.q), k = tensor(kK, a_.keys, a_.width, a_.k),
                    v = tensor(kV, a_.keys, a_.value_width, a_.v), bias = mask();
    a_.backward ? gradient(q, k, v, bias) : forward(q, k, v, bias);
  }

 private:
  void forward(const TensorPtr& q, const TensorPtr& k, const TensorPtr& v, const TensorPtr& bias) {
    auto options = fe::graph::SDPA_attributes().set_name("forward").set_generate_stats(true).set_attn_scale(
        static_cast<float>(a_.scale));
    if (bias) options.set_bias(bias);
    set_form(options);
    if (a_.kept_scale != 0) options.set_dropout(kept(), scalar(a_.kept_scale));
    const auto [y, stats] = graph_.sdpa(q, k, v, options);
    set_output(y, kY, a_.queries, a_.value_width, a_.y);
    stats->set_output(true)
        .set_uid(kStats)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(stats_dims())
        .set_stride(stats_strides());
  }

  void gradient(const TensorPtr& q, const TensorPtr& k, const TensorPtr& v, const TensorPtr& bias) {
    const TensorPtr y = tensor(kY, a_.queries, a_.value_width, a_.y),
                    dy = tensor(kDy, a_.queries, a_.value_width, a_.y),
                    stats = graph_.tensor(fe::graph::Tensor_attributes()
                                              .set_uid(kStats)
                                              .set_dim(stats_dims())
                                              .set_stride(stats_strides())
                                              .set_data_type(fe::DataType_t::FLOAT));
    auto options = fe::graph::SDPA_backward_attributes()
                       .set_name("gradient")
                       .set_attn_scale(static_cast<float>(a_.scale))
                       .set_deterministic_algorithm(true);
    if (bias) options.set_bias(bias);
    set_form(options);
    if (a_.kept_scale != 0) options.set_dropout(kept(), scalar(a_.kept_scale), scalar(1 / a_.kept_scale));
    const auto [dq, dk, dv] = graph_.sdpa_backward(q, k, v, y, dy, stats, options);
    set_output(dq, kDq, a_.queries, a_.width, a_.q);
    set_output(dk, kDk, a_.keys, a_.width, a_.k);
    set_output(dv, kDv, a_.keys, a_.value_width, a_.v);
  }

  // Sets the causal mask and the lengths, which restrict the keys of each query.
  template <class Options>
  void set_form(Options& options) {
    if (a_.causal) options.set_causal_mask(true);
    if (a_.lengths)
      options.set_padding_mask(true).set_seq_len_q(lengths(kQueryLengths)).set_seq_len_kv(lengths(kKeyLengths));
  }

  TensorPtr lengths(AttentionTensor id) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(id)
                             .set_dim({a_.batch, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(fe::DataType_t::INT32));
  }
  TensorPtr kept() {
    const int64_t cells = a_.queries * a_.keys;
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(kKept)
                             .set_dim({a_.batch, a_.heads, a_.queries, a_.keys})
                             .set_stride({a_.heads * cells, cells, a_.keys, 1}));
  }
  TensorPtr scalar(double value) { return graph_.tensor(static_cast<float>(value)); }
  TensorPtr tensor(AttentionTensor id, int64_t tokens, int64_t width, const HeadStrides& s) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(id)
                             .set_dim({a_.batch, a_.heads, tokens, width})
                             .set_stride({s.batch, s.head, s.token, 1}));
  }
  TensorPtr mask() {
    if (a_.bias.empty()) return nullptr;
    const Dims& d = a_.bias;
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(kBias)
                             .set_dim({d[0], d[1], d[2], d[3]})
                             .set_stride({d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}));
  }
  void set_output(const TensorPtr& t, AttentionTensor id, int64_t tokens, int64_t width, const HeadStrides& s) {
    t->set_output(true)
        .set_uid(id)
        .set_dim({a_.batch, a_.heads, tokens, width})
        .set_stride({s.batch, s.head, s.token, 1});
  }
  std::vector<int64_t> stats_dims() const { return {a_.batch, a_.heads, a_.queries, 1}; }
  std::vector<int64_t> stats_strides() const { return {a_.heads * a_.queries, a_.queries, 1, 1}; }

  fe::graph::Graph& graph_;
  const Attention& a_;
};

}  // namespace

void describe_attention(fe::graph::Graph& graph, const Attention& a) { Describer(graph, a).describe(); }

}  // namespace amp::cuda

#endif
