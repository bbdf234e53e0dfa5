// Follows each output backward to the nodes that compute it (EndingFinder). A convolution or linear map indicates
// predictions. A normalization, activation or residual sum indicates features. Rank, names and the number of
// concatenated branches then decide the kind of output.
#include "importer/discover/output_evidence.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "base/cat.h"
#include "base/text.h"

namespace amp {
namespace {

// Returns the words of a name in lower case: "pred_boxes.2" -> pred, boxes.
std::set<std::string> words_of(const std::string& name) {
  std::set<std::string> out;
  std::string word;
  for (const char c : name + " ") {
    if (std::isalpha(static_cast<unsigned char>(c))) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      out.insert(std::exchange(word, {}));
    }
  }
  return out;
}

std::string kind_by_name(const std::string& name) {
  static const std::map<std::string, const char*> kinds = {{"box", "boxes of a detector"},
                                                           {"boxes", "boxes of a detector"},
                                                           {"bbox", "boxes of a detector"},
                                                           {"bboxes", "boxes of a detector"},
                                                           {"det", "boxes of a detector"},
                                                           {"dets", "boxes of a detector"},
                                                           {"detection", "boxes of a detector"},
                                                           {"detections", "boxes of a detector"},
                                                           {"anchor", "anchors of a detector"},
                                                           {"anchors", "anchors of a detector"},
                                                           {"proposals", "boxes of a detector"},
                                                           {"rois", "boxes of a detector"},
                                                           {"heatmap", "heat maps"},
                                                           {"heatmaps", "heat maps"},
                                                           {"hm", "heat maps"},
                                                           {"keypoint", "key points"},
                                                           {"keypoints", "key points"},
                                                           {"kpt", "key points"},
                                                           {"kpts", "key points"},
                                                           {"landmark", "key points"},
                                                           {"landmarks", "key points"},
                                                           {"depth", "a depth map"},
                                                           {"disparity", "a depth map"},
                                                           {"flow", "optical flow"}};
  for (const std::string& word : words_of(name)) {
    if (const auto it = kinds.find(word); it != kinds.end()) return it->second;
  }
  return {};
}

bool named_features(const std::string& name) {
  const std::set<std::string> words = words_of(name);
  return std::any_of(words.begin(), words.end(), [](const std::string& w) {
    return one_of(w, {"hidden", "feature", "features", "feat", "feats", "embedding", "embeddings", "embeds", "encoder",
                      "backbone"});
  });
}

// The last operations that compute a value. They are found by following producers backward.
struct Ending {
  // the nodes at which the search stops: convolutions, linear maps, or the last nodes of features
  std::vector<int> roots;
  // a root is a node that computes features, not predictions, such as a normalization
  bool features = false;
  bool probability = false;  // a Sigmoid or Softmax follows a root
  bool arithmetic = false;   // several predictions are multiplied or added, as in box decoding
  size_t joined = 0;         // number of inputs of the widest Concat after the roots
};

class EndingFinder {
 public:
  // active: marks the values that depend on both an input and a weight. Dependence through a shape does not count.
  EndingFinder(const SourceGraph& g, const std::vector<char>& active) : g_(g), active_(active) {}

  Ending find(int v) {
    Ending e;
    std::set<int> seen;
    follow(v, e, seen);
    return e;
  }

 private:
  // True for operators that compute on one prediction or move its elements. The search continues through these.
  static bool passes(const SourceNode& n) {
    static const std::set<std::string> ops = {"Reshape",   "Transpose", "Flatten",      "Squeeze",
                                              "Unsqueeze", "Identity",  "Cast",         "Slice",
                                              "Gather",    "Split",     "Dropout",      "Concat",
                                              "Exp",       "Log",       "Softplus",     "Pow",
                                              "Sqrt",      "Neg",       "Clip",         "Resize",
                                              "Upsample",  "Tile",      "Expand",       "Pad",
                                              "TopK",      "ReduceMax", "DepthToSpace", "SpaceToDepth",
                                              "ArgMax",    "Max",       "Min",          "GatherElements",
                                              "Where",     "GatherND",  "ScatterND",    "NonMaxSuppression",
                                              "Tanh",      "ReduceSum"};
    return n.domain.empty() && ops.count(n.op) != 0;
  }

  const SourceNode* producer(int v) const {
    const int p = v < 0 ? -1 : g_.value(v).producer;
    return p < 0 ? nullptr : &g_.nodes[static_cast<size_t>(p)];
  }
  bool ends_in_gate(int v) const {
    const SourceNode* n = producer(v);
    return n && (n->op == "Sigmoid" || n->op == "HardSigmoid" || n->op == "Tanh" || n->op == "Erf");
  }

  void follow(int v, Ending& e, std::set<int>& seen) {
    const SourceNode* n = producer(v);
    if (!n || !seen.insert(v).second) return;
    std::vector<int> in;
    for (const int i : n->inputs) {
      if (i >= 0 && active_[static_cast<size_t>(i)]) in.push_back(i);
    }
    if (one_of(n->op, {"Sigmoid", "Softmax", "LogSoftmax"})) e.probability = true;
    if (n->op == "Concat") e.joined = std::max(e.joined, in.size());
    const bool arithmetic = one_of(n->op, {"Mul", "Add", "Sub", "Div"});
    if (arithmetic && in.size() == 2) {
      // The products x * sigmoid(x) and x * gate, and the residual sum x + f(x), compute features. Sums and products of
      // predicted values compute boxes.
      const bool gate = n->op == "Mul" && ends_in_gate(in[0]) != ends_in_gate(in[1]);
      if (gate || (n->op == "Add" && !is_decoded(in[0]) && !is_decoded(in[1]))) {
        e.features = true;
        e.roots.push_back(g_.value(v).producer);
        return;
      }
      e.arithmetic = true;
    } else if (!arithmetic && !one_of(n->op, {"Sigmoid", "Softmax", "LogSoftmax"}) && !bounds(*n) &&
               (!passes(*n) || activates(*n))) {
      e.roots.push_back(g_.value(v).producer);
      e.features |= !one_of(n->op, {"Conv", "ConvTranspose", "Gemm", "MatMul"}) || !n->domain.empty() ||
                    (n->op == "MatMul" && in.size() == 2);  // a product of two activations: attention
      return;
    }
    for (const int i : in) follow(i, e, seen);
  }

  // True for a Clip that is a layer's activation (ReLU6), not a bound of boxes.
  bool activates(const SourceNode& n) const {
    const SourceNode* before = n.op == "Clip" ? producer(n.inputs.at(0)) : nullptr;
    return before && one_of(before->op, {"Conv", "ConvTranspose", "BatchNormalization", "Gemm", "MatMul"});
  }

  // True for a ReLU or Clip that keeps a few predicted values positive, such as depths.
  bool bounds(const SourceNode& n) const {
    const SourceNode* conv = one_of(n.op, {"Relu", "Clip"}) ? producer(n.inputs.at(0)) : nullptr;
    if (!conv || conv->op != "Conv" || conv->inputs.size() < 2 || conv->inputs[1] < 0) return false;
    const HostTensor& w = g_.value(conv->inputs[1]).data;
    return w && w.rank() > 1 && w.dims()[0] < 8 && w.dims()[1] > 1;
  }

  // True for a part of a prediction, or for a difference or product with values that are not predicted (grid points,
  // strides).
  bool is_decoded(int v) const {
    const SourceNode* n = producer(v);
    return n && one_of(n->op, {"Slice", "Split", "Gather", "Sub", "Exp", "Sigmoid", "Softmax"});
  }

  const SourceGraph& g_;
  const std::vector<char>& active_;
};

// Marks the values that depend on both a graph input and a parameter. Dependence through a shape does not count.
std::vector<char> active_values(const SourceGraph& g) {
  constexpr char kFed = 1, kWeighted = 2;
  std::vector<char> reached(g.values.size());
  for (size_t v = 0; v < g.values.size(); ++v) {
    if (g.values[v].kind == SourceKind::input) reached[v] = kFed;
    if (g.values[v].kind == SourceKind::parameter) reached[v] = kWeighted;
  }
  for (const SourceNode& n : g.nodes) {
    if (n.op == "Shape" || n.op == "Size") continue;
    char by = 0;
    for (const int v : n.inputs) by = static_cast<char>(by | (v >= 0 ? reached[static_cast<size_t>(v)] : 0));
    for (const int v : n.outputs) {
      if (v >= 0) reached[static_cast<size_t>(v)] = by;
    }
  }
  for (char& r : reached) r = r == (kFed | kWeighted);
  return reached;
}

class Looker {
 public:
  Looker(const SourceGraph& g, const std::vector<Dims>& dims, bool pooled)
      : g_(g), dims_(dims), pooled_(pooled), active_(active_values(g)) {}

  OutputEvidence look() const {
    if (!reads_images()) return {};
    std::vector<int> outputs;
    bool own_answer = false;  // true if an output holds one value per class and image
    for (const int v : g_.outputs) {
      const SourceValue& x = g_.value(v);
      if (x.kind != SourceKind::temp || (x.dtype_known && !is_float(x.dtype)) || !active_[static_cast<size_t>(v)])
        continue;
      outputs.push_back(v);
      own_answer |= rank(v) == 2 && x.name.find("logits") != std::string::npos;
    }
    if (own_answer) return {};
    for (const int v : outputs) {
      if (const std::string kind = kind_by_name(g_.value(v).name); !kind.empty() && (pooled_ || rank(v) != 2))
        return {g_.value(v).name, kind, "its name says so"};
    }
    size_t maps = 0;
    std::set<int64_t> heights;
    for (const int v : outputs) {
      if (rank(v) != 4 || !predicts(v)) continue;
      ++maps;
      heights.insert(dim(v, 2));
    }
    if (!pooled_ && heights.size() < 2) maps = 0;  // several output maps of one size belong to separate tasks
    for (const int v : outputs) {
      OutputEvidence found = rank(v) == 3   ? sequence(v)
                             : rank(v) == 4 ? map(v, maps)
                             : rank(v) == 5 ? cells(v)
                                            : OutputEvidence{};
      if (found) return found;
    }
    return {};
  }

 private:
  bool reads_images() const {
    return std::any_of(g_.inputs.begin(), g_.inputs.end(), [&](int v) {
      const SourceValue& x = g_.value(v);
      return x.rank_known && x.dims.size() == 4;
    });
  }

  size_t rank(int v) const {
    const Dims& d = dims_of(v);
    const SourceValue& x = g_.value(v);
    return !d.empty() ? d.size() : x.rank_known ? x.dims.size() : 0;
  }
  const Dims& dims_of(int v) const {
    static const Dims none;
    return static_cast<size_t>(v) < dims_.size() ? dims_[static_cast<size_t>(v)] : none;
  }
  int64_t dim(int v, size_t i) const {
    const Dims& d = dims_of(v);
    const SourceValue& x = g_.value(v);
    return i < d.size() ? d[i] : x.rank_known && i < x.dims.size() ? x.dims[i].value : -1;
  }

  Ending ending(int v) const { return EndingFinder(g_, active_).find(v); }
  bool predicts(int v) const {
    const Ending e = ending(v);
    return !e.features && !e.roots.empty();
  }
  const SourceNode& node(int n) const { return g_.nodes[static_cast<size_t>(n)]; }
  bool convolves(const Ending& e) const {
    return std::all_of(e.roots.begin(), e.roots.end(),
                       [&](int n) { return node(n).op == "Conv" || node(n).op == "ConvTranspose"; });
  }
  // Returns the output channels of the ending's only convolution; -1 if unknown.
  int64_t channels(const Ending& e) const {
    if (e.roots.size() != 1 || node(e.roots[0]).op != "Conv" || node(e.roots[0]).inputs.size() < 2) return -1;
    const int w = node(e.roots[0]).inputs[1];
    return w >= 0 && g_.value(w).data ? g_.value(w).data.dims().at(0) : -1;
  }
  // True if c may be the width of a layer, which is a multiple of 8. The number of classes or coordinates seldom is.
  static bool width_of_layer(int64_t c) { return c >= 16 && c % 8 == 0; }

  // Returns the evidence for an output of shape [B, N, C] or [B, C, N].
  OutputEvidence sequence(int v) const {
    const std::string& name = g_.value(v).name;
    const Ending e = ending(v);
    if (e.features && e.joined < 2) return {};
    if (e.features && !e.probability && !e.arithmetic) return {};
    if (e.roots.empty() || (named_features(name) && !e.probability)) return {};
    const bool steps = !e.features && !convolves(e) && e.roots.size() == 1;
    // The file may be meant to have a label at every position.
    if (!pooled_ && e.joined < 2 && !e.arithmetic) return {};
    if (steps)
      return {name, "scores at every step of a sequence (OCR, CTC) or for every query of a detector",
              "a linear map without a normalization makes them"};
    if (e.joined > 1)
      return {name, "boxes or anchors of a detector", cat("predictions of ", e.joined, " parts are joined in it")};
    const int64_t c = channels(e);
    const bool flattened = c > 0 && dim(v, 2) == c && width_of_layer(c) && !e.probability && !e.arithmetic;
    if (flattened) return {};
    if (c > 0 && c < 4 && !e.arithmetic)
      return {name, "a map of predictions (depth, optical flow)", cat("a convolution predicts ", c, " a place")};
    return {name, "boxes or anchors of a detector", "it is the reshaped map of a convolution that predicts"};
  }

  // Returns the evidence for an output of shape [B, anchors, H, W, values], as in YOLO's heads.
  OutputEvidence cells(int v) const {
    const Ending e = ending(v);
    if (e.features || e.roots.empty() || !convolves(e)) return {};
    return {g_.value(v).name, "boxes or anchors of a detector", "a convolution predicts several values at every place"};
  }

  // Returns the evidence for an output of shape [B, C, H, W]. maps: the number of outputs that are predicted maps.
  OutputEvidence map(int v, size_t maps) const {
    const std::string& name = g_.value(v).name;
    const Ending e = ending(v);
    if (e.features || e.roots.empty() || !convolves(e)) return {};
    if (maps > 1 && !named_features(name))
      return {name, "maps of predictions (a detector's heads, heat maps)",
              cat(maps, " outputs are maps that convolutions predict")};
    if (!pooled_ || (named_features(name) && !e.probability)) return {};
    const int64_t c = dim(v, 1);
    if (width_of_layer(c) && !e.probability && !dense(v)) return {};
    return {name, "a map of predictions (segmentation, heat maps, depth, a detector's head)",
            cat("a convolution predicts ", c > 0 ? cat(c, c == 1 ? " value" : " values") : std::string("values"),
                " at every place")};
  }

  // True if the map has at least a quarter of the image's height.
  bool dense(int v) const {
    for (const int i : g_.inputs) {
      if (g_.value(i).rank_known && g_.value(i).dims.size() == 4 && dim(i, 2) > 8) return dim(v, 2) * 4 >= dim(i, 2);
    }
    return false;
  }

  const SourceGraph& g_;
  const std::vector<Dims>& dims_;
  const bool pooled_;
  const std::vector<char> active_;
};

}  // namespace

OutputEvidence inspect_outputs(const SourceGraph& g, const std::vector<Dims>& dims, bool pooled) {
  return Looker(g, dims, pooled).look();
}

}  // namespace amp
