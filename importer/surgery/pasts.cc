// empty_pasts(): decides by structure, not by names, which inputs are caches. Exporters name them differently, but a
// cache is always read by attention as its past, or precedes the new keys in a Concat whose result the graph returns.
// The names of the folder's configuration only add a note if a cache was not recognized.
#include "importer/surgery/pasts.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/cat.h"
#include "base/text.h"
#include "importer/surgery/inference_inputs.h"

namespace amp {

namespace {

using Emptied = std::pair<std::vector<std::string>, DecoderCaches>;

// Returns the dimension of positions of input i if it is an attention operator's past; -1 if it is not.
int past_axis(const SourceNode& n, size_t i) {
  if (n.domain.empty()) return n.op == "Attention" && (i == 4 || i == 5) ? 2 : -1;
  if (n.domain != "com.microsoft") return -1;
  if (one_of(n.op, {"GroupQueryAttention", "SparseAttention"})) return i == 3 || i == 4 ? 2 : -1;
  if (n.op == "MultiHeadAttention") return i == 6 || i == 7 ? 2 : -1;
  return n.op == "Attention" && i == 4 ? 3 : -1;
}

// Returns the output that contains input i followed by the new positions; -1 if the node has no such output.
int present_of(const SourceNode& n, size_t i) {
  const bool one = n.domain == "com.microsoft" && n.op == "Attention";  // keys and values in one tensor
  const bool value = n.op == "MultiHeadAttention" ? i == 7 : n.domain.empty() ? i == 5 : i == 4;
  const size_t out = value && !one ? 2 : 1;
  return out < n.outputs.size() ? n.outputs[out] : -1;
}

bool is_rearrangement(const SourceNode& n, size_t input) {
  return n.domain.empty() && input == 0 &&
         one_of(n.op, {"Identity", "Cast", "Reshape", "Transpose", "Squeeze", "Unsqueeze"});
}

// True if the node reads only the lengths of the sequence and of its parts. Causal attention without a past does not
// need them.
bool ignores(const SourceNode& n, size_t input) {
  return n.domain == "com.microsoft" && n.op == "GroupQueryAttention" && (input == 5 || input == 6) &&
         n.attrs.i("causal", 1) != 0;
}

bool keeps_logits(const std::string& name) {
  return name.starts_with("num_logits_to_keep") || name.starts_with("logits_to_keep");
}

// Returns the value that an integer or boolean input with this name has if whole sequences are computed.
std::optional<double> fixed_number(const std::string& name) {
  if (one_of(plain_name(name), {"past_sequence_length", "past_seq_len", "past_length", "past_key_values_length",
                                "num_logits_to_keep", "logits_to_keep", "use_cache_branch"}))
    return 0;
  return std::nullopt;
}

// Formats names as `A, B, ... (N)`, where N is their number.
std::string some(const std::vector<std::string>& names) {
  constexpr size_t kShown = 2;
  std::vector<std::string> shown;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) shown.push_back(cat("'", printable(names[i]), "'"));
  return cat(join(shown, ", "), names.size() > kShown ? ", ..." : "");
}

class EmptyPasts {
 public:
  EmptyPasts(Built& built, const PastOptions& options)
      : g_(built.graph), options_(options), consumers_(g_.consumers()), notes_(built.notes) {}

  Emptied run(bool usable) {
    usable_ = usable;
    const std::vector<int> inputs = g_.inputs;
    for (const int v : inputs) {
      if (is_float(g_.value(v).dtype))
        empty(v);
      else
        fix(v);
    }
    std::erase_if(g_.inputs, [&](int v) { return gone_.count(v) > 0; });
    leave_out_presents();
    report();
    return {caches_, usable_ ? found_ : DecoderCaches()};
  }

 private:
  // How the graph uses an input: the nodes that read it as a past, and its dimension of positions.
  struct Past {
    int axis = -1;
    bool only_attention = true;  // no Concat reads it
    bool buffered = true;        // only GroupQueryAttention reads it, whose past may be a buffer of a fixed length
    std::vector<int> presents;   // values that contain the past and the new positions
    std::vector<int> continued;  // each of these values continues the past with the new positions
    bool whole = false;          // the values in `continued` contain the past, too
    std::vector<int> alike;      // values that have the past's shape except for the positions
  };

  SourceValue& value(int v) { return g_.values[static_cast<size_t>(v)]; }
  const std::vector<int>& users(int v) const { return consumers_[static_cast<size_t>(v)]; }
  bool is_output(int v) const { return std::find(g_.outputs.begin(), g_.outputs.end(), v) != g_.outputs.end(); }

  // True if v or a rearrangement of it is a graph output.
  bool is_returned(int v) const {
    if (is_output(v)) return true;
    for (const int user : users(v)) {
      const SourceNode& n = g_.nodes[static_cast<size_t>(user)];
      if (n.inputs[0] == v && is_rearrangement(n, 0) && is_returned(n.outputs[0])) return true;
    }
    return false;
  }

  // Adds the use of `v`, which is the input itself. Returns false if the node uses v as something other than a past.
  bool add_use(int v, const SourceNode& n, Past& p) const {
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] != v) continue;
      int axis = past_axis(n, i);
      p.buffered &= n.op == "GroupQueryAttention";
      if (axis >= 0) {
        for (size_t o = 1; o < n.outputs.size(); ++o) p.presents.push_back(n.outputs[o]);
        p.continued.push_back(present_of(n, i));
        p.whole = n.op != "GroupQueryAttention";
      } else if (n.domain.empty() && n.op == "Concat" && i == 0 && n.inputs.size() == 2) {
        axis = static_cast<int>(n.attrs.i("axis", 0));
        if (axis < 0) axis += static_cast<int>(g_.value(v).dims.size());
        p.only_attention = false;
        if (!is_returned(n.outputs[0])) return false;
        p.presents.push_back(n.outputs[0]);
        p.alike.insert(p.alike.end(), {n.inputs[1], n.outputs[0]});
        p.continued.push_back(n.inputs[1]);
      } else {
        return n.domain.empty() && n.op == "Shape";
      }
      if (p.axis >= 0 && p.axis != axis) return false;
      p.axis = axis;
    }
    return true;
  }

  std::optional<Past> past_of(int v) const {
    const SourceValue& x = g_.value(v);
    Past p;
    if (!x.rank_known || is_output(v) || x.data) return std::nullopt;
    for (const int user : users(v)) {
      if (!add_use(v, g_.nodes[static_cast<size_t>(user)], p)) return std::nullopt;
    }
    if (p.axis < 0 || static_cast<size_t>(p.axis) >= x.dims.size()) return std::nullopt;
    const int64_t length = x.dims[static_cast<size_t>(p.axis)].value;
    if (length == 0 || (length > 0 && !p.buffered)) return std::nullopt;  // the file fixes the number of positions
    return p;
  }

  // Returns the size that values with the same shape declare for this dimension; -1 if they declare no size.
  int64_t size_in(const std::vector<int>& alike, size_t dim) const {
    for (const int v : alike) {
      if (v < 0 || !g_.value(v).rank_known || dim >= g_.value(v).dims.size()) continue;
      if (const int64_t size = g_.value(v).dims[dim].value; size >= 0) return size;
    }
    return -1;
  }

  // Returns the dims of an empty past: 0 positions, and 1 if the first dimension is open. Returns nothing if another
  // size is unknown.
  std::optional<Dims> dims_of(const SourceValue& x, const Past& p) const {
    Dims out;
    for (size_t i = 0; i < x.dims.size(); ++i) {
      int64_t size = x.dims[i].value;
      if (static_cast<int>(i) == p.axis) size = 0;
      if (size < 0 && i > 0) size = size_in(p.alike, i);
      if (size < 0 && i + 1 == x.dims.size()) size = options_.head_size;
      // Attention does not read a past without positions, so the size of its heads does not matter.
      if (size < 0 && (i == 0 || p.only_attention)) size = 1;
      if (size < 0) return std::nullopt;
      out.push_back(size);
    }
    return out;
  }

  void empty(int v) {
    const std::optional<Past> p = past_of(v);
    if (!p) return;
    const std::optional<Dims> dims = dims_of(g_.value(v), *p);
    if (!dims) return;
    SourceValue& x = value(v);
    x.kind = SourceKind::constant;
    x.data = HostTensor::zeros(x.dtype, *dims);
    x.reason = "a cache without positions";
    gone_.insert(v);
    pasts_.push_back(x.name);
    presents_.insert(p->presents.begin(), p->presents.end());
    usable_ &= p->continued.size() == 1 && p->continued[0] >= 0;
    found_.parts.push_back({v, p->continued.at(0), p->whole, p->axis, p->buffered});
  }

  // Replaces an integer input that whole sequences do not need.
  void fix(int v) {
    SourceValue& x = value(v);
    if (users(v).empty() || is_output(v) || x.data || !x.rank_known) return;
    const bool unread = std::all_of(users(v).begin(), users(v).end(), [&](int user) {
      const SourceNode& n = g_.nodes[static_cast<size_t>(user)];
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        if (n.inputs[i] == v && !ignores(n, i)) return false;
      }
      return true;
    });
    const bool number = x.dims.empty() || (x.dims.size() == 1 && x.dims[0].value == 1);
    if (!unread && (!number || !fixed_number(x.name) || chooses_graph(g_, consumers_, v))) return;
    x.kind = SourceKind::constant;
    x.data = HostTensor::zeros(x.dtype, Dims(x.dims.size(), 1));
    gone_.insert(v);
    (unread ? unread_ : numbers_).push_back(x.name);
    if (unread)
      add_length(v);
    else
      usable_ &= keeps_logits(x.name);  // a cache needs other numbers for all inputs but that of num_logits_to_keep
  }

  // Records a length that attention reads only if there is a past.
  void add_length(int v) {
    bool last = false, total = false;
    for (const int user : users(v)) {
      const SourceNode& n = g_.nodes[static_cast<size_t>(user)];
      last |= n.inputs[5] == v;
      total |= n.inputs.size() > 6 && n.inputs[6] == v;
    }
    usable_ &= last != total;
    (last ? found_.lasts : found_.totals).push_back(v);
  }

  // Removes the caches, also rearranged ones, from the outputs.
  void leave_out_presents() {
    std::vector<int> open(presents_.begin(), presents_.end());
    while (!open.empty()) {
      const int v = open.back();
      open.pop_back();
      if (v < 0) continue;
      presents_.insert(v);
      for (const int user : users(v)) {
        const SourceNode& n = g_.nodes[static_cast<size_t>(user)];
        if (n.inputs[0] == v && is_rearrangement(n, 0)) open.push_back(n.outputs[0]);
      }
    }
    std::vector<int> kept;
    std::vector<std::string> caches;
    for (const int v : g_.outputs) {
      if (presents_.count(v))
        caches.push_back(g_.value(v).name);
      else
        kept.push_back(v);
    }
    if (kept.empty()) return;
    caches_ = std::move(caches);
    g_.outputs = kept;
  }

  void report_pasts() {
    if (pasts_.empty()) return;
    const std::string empty = cat("the caches of a past (", pasts_.size(), " inputs: ", some(pasts_), ") are empty");
    if (!options_.generates) {
      notes_.push_back(cat(empty, ", as in training on whole sequences; ", caches_.size(),
                           " caches that the model returns are left out (`past` data: the data feed them)"));
    } else if (!usable_) {
      notes_.push_back(
          cat(empty, ", because the graph cannot be computed with them: each token computes the whole text"));
    }
  }

  void report() {
    report_pasts();
    // In generation with the caches, the inputs unread_ are fed, so the note would be wrong.
    if (!unread_.empty() && !(options_.generates && usable_))
      notes_.push_back(cat("causal attention without a past does not read ", some(unread_), ": not fed"));
    if (!numbers_.empty()) notes_.push_back(cat(some(numbers_), numbers_.size() > 1 ? " are 0" : " is 0"));
    std::vector<std::string> missed;
    for (const int v : g_.inputs) {
      if (has_configured_name(g_.value(v).name, options_)) missed.push_back(g_.value(v).name);
    }
    if (!missed.empty())
      notes_.push_back(cat("the folder's configuration names ", missed.size(), " inputs as caches (", some(missed),
                           "), but the graph does not use them as the past of attention: they must be fed"));
  }

  SourceGraph& g_;
  const PastOptions& options_;
  const std::vector<std::vector<int>> consumers_;
  std::vector<std::string>& notes_;
  std::set<int> gone_, presents_;
  std::vector<std::string> pasts_, unread_, numbers_, caches_;
  DecoderCaches found_;
  bool usable_ = true;
};

}  // namespace

std::pair<std::vector<std::string>, DecoderCaches> empty_pasts(Built& built, const PastOptions& options, bool usable) {
  return options.empty ? EmptyPasts(built, options).run(usable) : Emptied();
}

}  // namespace amp
