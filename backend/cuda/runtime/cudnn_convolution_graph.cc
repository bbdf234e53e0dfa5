// Describes convolutions and their gradients by cudnn-frontend's operations conv_fprop, conv_dgrad and conv_wgrad.
// Operands have the same type, with channels first or last. Sums are fp32. A bias is added in the same kernel.
#ifdef ONNX_AMP_CUDNN_FRONTEND

#include "backend/cuda/runtime/cudnn_convolution_graph.h"

#include <algorithm>

namespace amp::cuda {

namespace {

namespace fe = cudnn_frontend;
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

class Describer {
 public:
  Describer(fe::graph::Graph& graph, const Convolution& what) : graph_(graph), what_(what) {
    const ConvShape& s = what.shape;
    x_ = {s.n, s.groups * s.c};
    y_ = {s.n, s.groups * s.m};
    w_ = {s.groups * s.m, s.c};
    const WindowAxis& depth = s.window[0];
    const bool flat = depth.in == 1 && depth.out == 1 && depth.kernel == 1 && depth.pad == 0;
    for (size_t i = flat ? 1 : 0; i < s.window.size(); ++i) {
      const WindowAxis& a = s.window[i];
      x_.push_back(a.in);
      y_.push_back(a.out);
      w_.push_back(a.kernel);
      before_.push_back(a.pad);
      // The padding at the end must give exactly a.out outputs. It is 0 if inputs at the end are unused. The padding of
      // the beginning is preferred if it gives the same number.
      after_.push_back(std::max<int64_t>((a.out - 1) * a.stride + a.reach() - a.in - a.pad, 0));
      const int64_t symmetric = (a.in + 2 * a.pad - a.reach()) / a.stride + 1;
      if (symmetric == a.out) after_.back() = a.pad;
      strides_.push_back(a.stride);
      dilations_.push_back(a.dilation);
    }
  }

  bool describe() {
    constexpr int64_t kLimit = (int64_t{1} << 31) - 1;
    if (std::max({volume(x_), volume(y_), volume(w_)}) > kLimit) return false;
    graph_.set_io_data_type(cudnn_type(what_.type))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    switch (what_.kind) {
      case ConvolutionKind::forward:
        forward();
        break;
      case ConvolutionKind::grad_x:
        set_output(graph_.conv_dgrad(tensor(kA, y_), tensor(kB, w_), window<fe::graph::Conv_dgrad_attributes>()), x_);
        break;
      case ConvolutionKind::grad_w:
        set_output(graph_.conv_wgrad(tensor(kB, y_), tensor(kA, x_), window<fe::graph::Conv_wgrad_attributes>()), w_);
        break;
    }
    return true;
  }

 private:
  using Extents = std::vector<int64_t>;

  static int64_t volume(const Extents& dims) {
    int64_t n = 1;
    for (const int64_t d : dims) n *= d;
    return n;
  }
  Extents strides(const Extents& dims) const {
    Extents s(dims.size(), 1);
    int64_t step = what_.channels_last ? dims[1] : 1;
    for (size_t i = dims.size(); i-- > 2; step *= dims[i]) s[i] = step;
    if (!what_.channels_last) {
      s[1] = step;
      step *= dims[1];
    }
    s[0] = step;
    return s;
  }
  template <class Attributes>
  Attributes window() const {
    return Attributes().set_pre_padding(before_).set_post_padding(after_).set_stride(strides_).set_dilation(dilations_);
  }

  void forward() {
    TensorPtr y = graph_.conv_fprop(tensor(kA, x_), tensor(kB, w_), window<fe::graph::Conv_fprop_attributes>());
    if (what_.bias) {
      y->set_dim(y_).set_stride(strides(y_));
      Extents dims(y_.size(), 1);
      dims[1] = y_[1];
      const TensorPtr bias = graph_.tensor(fe::graph::Tensor_attributes()
                                               .set_uid(kConvolutionBias)
                                               .set_dim(dims)
                                               .set_stride(strides(dims))
                                               .set_data_type(cudnn_type(*what_.bias)));
      y = graph_.pointwise(y, bias, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
    }
    set_output(y, y_);
  }
  TensorPtr tensor(ConvolutionTensor id, const Extents& dims) {
    return graph_.tensor(fe::graph::Tensor_attributes().set_uid(id).set_dim(dims).set_stride(strides(dims)));
  }
  void set_output(const TensorPtr& t, const Extents& dims) {
    t->set_output(true).set_uid(kC).set_dim(dims).set_stride(strides(dims)).set_data_type(cudnn_type(what_.type));
  }

  fe::graph::Graph& graph_;
  const Convolution& what_;
  Extents x_, y_, w_, before_, after_, strides_, dilations_;
};

}  // namespace

bool describe_convolution(fe::graph::Graph& graph, const Convolution& what) {
  return Describer(graph, what).describe();
}

}  // namespace amp::cuda

#endif
