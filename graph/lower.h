// Lowering: what an ONNX operator's rule uses to convert a node of the SourceGraph to core nodes for concrete shapes.
// The rule reads inputs and attributes and adds core nodes. All floating-point tensors have the working type (fp32, or
// fp64 for checks). Casts between floating-point types are dropped, because the precision plan decides types later.
#pragma once

#include "graph/builder.h"
#include "graph/source.h"

namespace amp {

struct BindOptions;

class Lowering {
 public:
  Lowering(Builder& builder, const SourceNode& node, std::vector<ValueId> in, std::vector<bool> wanted,
           const BindOptions& options)
      : b(builder),
        node(node),
        attrs(node.attrs),
        options(options),
        in_(std::move(in)),
        wanted_(std::move(wanted)),
        out_(node.outputs.size()) {}

  Builder& b;
  const SourceNode& node;
  const Attrs& attrs;
  const BindOptions& options;

  int64_t version() const { return node.version; }
  size_t n_in() const { return in_.size(); }
  size_t n_out() const { return out_.size(); }
  bool has(size_t i) const { return i < in_.size() && static_cast<bool>(in_[i]); }
  ValueId in(size_t i) const;  // returns a required input; throws a model error if it is absent
  ValueId in_or(size_t i, ValueId fallback) const { return has(i) ? in_[i] : fallback; }
  bool wanted(size_t i) const { return i < wanted_.size() && wanted_[i]; }  // whether output i is used

  const Dims& dims(size_t i) const { return b.dims(in(i)); }
  int64_t rank(size_t i) const { return static_cast<int64_t>(dims(i).size()); }
  DType float_type() const;  // the working type (see the file's top)

  // Returns the content of an input that must be constant when shapes are known. Fails with E_DYNAMIC
  // (unsupported) if the input depends on data.
  const HostTensor& constant(size_t i) const;
  std::vector<int64_t> ints(size_t i) const { return constant(i).to_ints(); }
  // Returns axes or similar integers, which old opsets store in an attribute and newer ones in input i.
  // Returns `fallback` if the node has neither.
  std::vector<int64_t> ints_or_attr(size_t i, const std::string& attr, std::vector<int64_t> fallback = {}) const;
  bool has_ints(size_t i, const std::string& attr) const { return has(i) || attrs.has(attr); }

  void out(size_t i, ValueId v);
  const std::vector<ValueId>& outputs() const { return out_; }

  // Throws E_OP_CASE (Exit::unsupported) with `fact`, for a case that the rule cannot handle.
  [[noreturn]] void unsupported(const std::string& fact) const;

 private:
  std::vector<ValueId> in_;
  std::vector<bool> wanted_;
  std::vector<ValueId> out_;
};

}  // namespace amp
