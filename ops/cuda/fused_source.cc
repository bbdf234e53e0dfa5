// Generates the CUDA source of a Fused node's kernel, and the kernel's arguments. A thread keeps the values of all
// steps in registers. The text depends only on the steps, the types and the form of broadcasting, so that many shapes
// share one compiled kernel.
#include "ops/cuda/fused_source.h"

#include <algorithm>
#include <bit>

#include "backend/broadcast_loop.h"
#include "backend/functor_texts.h"
#include "backend/fused_program.h"
#include "base/error.h"
#include "base/hash.h"
#include "ops/dropout.h"
#include "ops/fused_layout.h"

namespace amp::cuda {

namespace {

const char* enumerator(DType t) {
  switch (t) {
    case DType::f32:
      return "DType::f32";
    case DType::f16:
      return "DType::f16";
    case DType::bf16:
      return "DType::bf16";
    case DType::boolean:
      return "DType::boolean";
    default:
      bug(cat("a fused kernel of ", name_of(t)));
  }
}

const FunctorName& name_of_functor(const std::string& op) {
  for (const FunctorName& n : functor_names()) {
    if (n.op == op) return n;
  }
  bug("no text of the functor of " + op);
}

class Writer {
 public:
  Writer(const KernelArgs& a, const std::optional<FusedSums>& sums, void* partial)
      : a_(a), program_(FusedProgram::parse(a.attrs(), a.in.size())), sums_(sums), partial_(partial) {
    std::vector<Dims> operands;
    for (const Tensor& t : a.in) operands.push_back(t.dims);
    loop_ = make_broadcast_loop(a.out[0].dims, operands);
    n_ = a.out[0].numel();
    std::vector<int64_t> dropout_rows;
    for (const FusedStep& s : program_.steps) {
      if (s.op == "Dropout") dropout_rows.push_back(DropoutShape(s.attrs, n_).per_row);
    }
    const bool fours = in_fours(loop_, dropout_rows);
    if (sums && !can_sum_along(sums->shape, fours)) bug("a fused sum along other columns");
    width_ = sums ? (sums->shape.inner % 4 == 0 ? 4 : 1) : fours ? 4 : 1;
  }

  FusedLaunch write() {
    word(static_cast<uint64_t>(loop_.inner));
    word(static_cast<uint64_t>(n_ / width_));
    word(reinterpret_cast<uint64_t>(a_.state));
    if (sums_)
      columns();
    else
      groups();
    return finish();
  }

 private:
  // Appends an argument of the kernel. Returns the source text that reads it.
  std::string word(uint64_t value) {
    words_.push_back(value);
    return cat("a.w[", words_.size() - 1, ']');
  }
  std::string index_word(int64_t value) { return cat("static_cast<Index>(", word(static_cast<uint64_t>(value)), ')'); }
  void line(const std::string& text) { body_ += "    " + text + '\n'; }
  DType type(int v) const {
    return v < program_.n_in ? a_.in[static_cast<size_t>(v)].dtype
                             : program_.steps[static_cast<size_t>(v - program_.n_in)].type;
  }
  std::string declare(int v) const { return cat(type(v) == DType::boolean ? "bool v" : "float v", v, "[W];"); }

  bool stays(size_t k) const {
    const Dims& s = loop_.stride[k];
    return loop_.inner_stride[k] == 0 && std::all_of(s.begin(), s.end(), [](int64_t x) { return x == 0; });
  }

  // Writes the loop over a thread's groups of W elements.
  void groups() {
    addresses();
    body_ +=
        "DEV void run(const Args& a) {\n  const Index groups = static_cast<Index>(a.w[1]);\n"
        "  for (Index g = static_cast<Index>(global_index()); g < groups; g += static_cast<Index>(global_threads())) "
        "{\n"
        "    const Index at = g * W;\n";
    loads("");
    steps();
    body_ += "  }\n}\n";
  }
  // Writes a Body for columns.cuh. The Body's fetch() loads the operands. Its add() computes the steps, stores their
  // results and adds to the sums.
  void columns() {
    addresses();
    const ColumnTiles& t = sums_->tiles;
    const std::string partial = word(reinterpret_cast<uint64_t>(partial_));
    const auto number = [&](const char* type, int64_t v) {
      return cat("static_cast<", type, ">(", word(static_cast<uint64_t>(v)), ')');
    };
    std::string tiles;
    for (const int64_t v : {t.outer, t.rows, t.columns}) tiles += number("int64_t", v) + ", ";
    for (const int v : {t.lanes, t.threads}) tiles += number("int", v) + ", ";
    for (const int64_t v : {t.across, t.splits, t.split_rows}) tiles += number("int64_t", v) + ", ";
    body_ += cat("struct Body {\n  using Value = float;\n  static constexpr int kSums = ", sums_->outputs.size(),
                 ", kWidth = W;\n  struct Context {};\n  struct Loaded {\n    Index at;\n");
    for (size_t k = 0; k < a_.in.size(); ++k) line(declare(static_cast<int>(k)));
    const std::string rows = index_word(t.rows), across = index_word(t.columns);
    body_ +=
        cat("  };\n  const Args& a;\n  DEV float identity() const { return 0; }\n  DEV float combine(float x, float y) "
            "const { return x + y; }\n"
            "  DEV Context begin(int64_t) const { return {}; }\n"
            "  DEV Loaded fetch(int64_t outer, int64_t line, int64_t place) const {\n    Loaded l;\n"
            "    const Index at = l.at = (static_cast<Index>(outer) * ",
            rows, " + static_cast<Index>(line)) * ", across, " + static_cast<Index>(place);\n");
    loads("l.");
    body_ +=
        "    return l;\n  }\n  DEV void add(float (&acc)[kSums][W], const Loaded& l, const Context&) const {\n    "
        "const Index at = l.at;\n";
    for (size_t k = 0; k < a_.in.size(); ++k) line(cat("const auto& v", k, " = l.v", k, ';'));
    steps();
    size_t sum = 0;
    for (const FusedStep& s : program_.steps) {
      if (s.op != kFusedSum) continue;
      line("#pragma unroll");
      line(cat("for (int j = 0; j < W; ++j) acc[", sum, "][j] = combine(acc[", sum, "][j], v", s.in.at(0), "[j]);"));
      ++sum;
    }
    body_ += "  }\n  DEV void store(int sum, int64_t cell, float v) const {\n";
    for (size_t k = 0; k < sums_->outputs.size(); ++k)
      line(cat("if (sum == ", k, ") amp::cuda::store(", out_refs_.at(sums_->outputs[k]), ", cell, v);"));
    body_ += cat("  }\n};\nDEV void run(const Args& a) {\n  const ColumnKernel<Body> kernel{Body{a}, ColumnTiles{",
                 tiles, "}, reinterpret_cast<float*>(", partial, ")};\n  kernel();\n}\n");
  }

  void addresses() {
    for (const Tensor& t : a_.in)
      refs_.push_back(cat("make_ref(", word(reinterpret_cast<uint64_t>(t.data)), ", ", enumerator(t.dtype), ')'));
    for (const Tensor& t : a_.out)
      out_refs_.push_back(cat("make_ref(", word(reinterpret_cast<uint64_t>(t.data)), ", ", enumerator(t.dtype), ')'));
  }
  // Writes the loads of the operands' W elements from index `at` on. in: the prefix of the variables' names, such as
  // "l.".
  void loads(const std::string& in) {
    rows();
    for (size_t k = 0; k < a_.in.size(); ++k) {
      if (in.empty()) line(declare(static_cast<int>(k)));
      const bool steps = loop_.inner_stride[k] != 0;
      std::string place = steps ? "column" : "";
      if (loop_.full(k))
        place = "at";
      else {
        for (size_t d = 0; d < loop_.extent.size(); ++d) {
          if (loop_.stride[k][d] != 0)
            place += cat(place.empty() ? "" : " + ", "digit", d, " * ", index_word(loop_.stride[k][d]));
        }
      }
      if (place.empty()) place = "0";
      line(cat(steps || loop_.full(k) ? "read(" : "read_one(", refs_[k], ", ", place, ", ", in, "v", k, ");"));
    }
  }
  void steps() {
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      if (program_.steps[i].op != kFusedSum) step(i);
    }
    store();
  }
  // Writes code that computes the row and the column of a group of elements, and the row's index along each outer axis
  // (digit0, digit1 ...). The addresses of broadcast operands depend on these. Writes nothing if no operand needs them.
  void rows() {
    size_t first = loop_.extent.size();  // outermost digit that an operand's address depends on
    bool column = false;
    for (size_t k = 0; k < a_.in.size(); ++k) {
      if (loop_.full(k) || stays(k)) continue;
      column = true;
      for (size_t d = 0; d < first; ++d) {
        if (loop_.stride[k][d] != 0) first = d;
      }
    }
    if (!column) return;
    line("const Index per_row = static_cast<Index>(a.w[0]), row = at / per_row, column = at - row * per_row;");
    std::string rest = "row";
    for (size_t d = loop_.extent.size(); d-- > first;) {
      if (d == 0) {
        line(cat("const Index digit0 = ", rest, ';'));
        break;
      }
      const std::string extent = index_word(loop_.extent[d]);
      line(cat("const Index rest", d, " = ", rest, " / ", extent, ", digit", d, " = ", rest, " - rest", d, " * ",
               extent, ';'));
      rest = cat("rest", d);
    }
  }

  void step(size_t i) {
    const FusedStep& s = program_.steps[i];
    const int v = program_.value_of(i);
    const auto operand = [&](size_t k) { return cat('v', s.in.at(k), "[j]"); };
    std::string value;
    line(declare(v));
    if (s.op == "Where") {
      value = cat(operand(0), " ? ", operand(1), " : ", operand(2));
    } else if (s.op == "Cast") {
      const bool from = type(s.in[0]) == DType::boolean, to = s.type == DType::boolean;
      value = from == to ? operand(0) : to ? cat(operand(0), " != 0.0f") : cat(operand(0), " ? 1.0f : 0.0f");
    } else if (s.op == "Dropout") {
      value = dropout(s, i, operand(0));
    } else {
      value = functor(s, i) + '(';
      for (size_t k = 0; k < s.in.size(); ++k) value += (k ? ", " : "") + operand(k);
      value += ')';
    }
    line("#pragma unroll");
    line(cat("for (int j = 0; j < W; ++j) v", v, "[j] = rounded(", value, ", ", enumerator(s.type), ");"));
  }
  std::string dropout(const FusedStep& s, size_t i, const std::string& x) {
    const DropoutShape d(s.attrs, n_);
    const std::string rows = index_word(d.per_row), site = word(d.bits.site), threshold = word(d.bits.threshold),
                      scale = word(std::bit_cast<uint32_t>(static_cast<float>(d.bits.scale)));
    line(cat("const Index row", i, " = at / ", rows, ", place", i, " = at - row", i, " * ", rows, ';'));
    line(cat("const PhiloxBlock words", i, " = dropout_words(*reinterpret_cast<const RunState*>(a.w[2]), row", i,
             ", place", i, " / 4, static_cast<uint32_t>(", site, "));"));
    std::string lane = cat("words", i, ".v[j]");
    if (width_ == 1) {
      const auto at = [&](int k) { return cat("words", i, ".v[", k, ']'); };
      lane = cat("(place", i, " % 4 == 0 ? ", at(0), " : place", i, " % 4 == 1 ? ", at(1), " : place", i,
                 " % 4 == 2 ? ", at(2), " : ", at(3), ')');
    }
    return cat("drop(", x, ", ", lane, ", static_cast<uint32_t>(", threshold,
               "), std::bit_cast<float>(static_cast<uint32_t>(", scale, ")))");
  }
  std::string functor(const FusedStep& s, size_t i) {
    const FunctorInfo* info = find_functor(s.op);
    if (!info) bug("no functor " + s.op);
    const FunctorName& name = name_of_functor(s.op);
    if (std::find(files_.begin(), files_.end(), name.file) == files_.end()) files_.emplace_back(name.file);
    const std::string type = cat("fused::", name.file, "::", name.functor);
    if (info->bytes == 0) {
      line(cat("const ", type, " f", i, "{};"));
      return cat('f', i);
    }
    std::vector<unsigned char> bytes(info->bytes);
    info->pack(s.attrs, bytes.data());
    std::string list;
    for (const unsigned char b : bytes) list += cat(list.empty() ? "" : ", ", static_cast<int>(b));
    line(cat("const ", type, " f", i, " = __builtin_bit_cast(", type, ", Bytes<", bytes.size(), ">{{", list, "}});"));
    return cat('f', i);
  }

  void store() {
    size_t out = 0;
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      if (program_.steps[i].out && program_.steps[i].op != kFusedSum)
        line(cat("write(", out_refs_.at(out++), ", at, v", program_.value_of(i), ");"));
    }
  }

  FusedLaunch finish() {
    FusedLaunch l;
    const bool small = n_ < int64_t{1} << 31;
    l.source.words = words_.size();
    l.source.cooperative = sums_.has_value();
    l.source.files = files_;
    l.source.body = cat("using Index = ", small ? "uint32_t" : "int64_t", ";\nconstexpr int W = ", width_,
                        ";\nstruct Args { uint64_t w[", words_.size(), "]; };\n", body_);
    const std::string whole = whole_text({l.source});
    const std::string name = l.source.name = "fused_" + sha256(whole.data(), whole.size()).substr(0, 24),
                      space = "amp::cuda::in_" + name;
    l.source.body =
        cat("namespace ", space, " {\n", l.source.body,
            "}\n#ifdef __CUDACC_RTC__\nextern \"C\" __global__ void __launch_bounds__(256) ", name,
            "(const __grid_constant__ ", space, "::Args a) { ", space, "::run(a); }\n#else\nextern \"C\" void ", name,
            "(const void* a) { ", space, "::run(*static_cast<const ", space, "::Args*>(a)); }\n#endif\n");
    l.words = std::move(words_);
    l.groups = n_ / width_;
    return l;
  }

  const KernelArgs& a_;
  FusedProgram program_;
  BroadcastLoop loop_;
  int64_t n_ = 0;
  int width_ = 1;
  std::vector<uint64_t> words_;
  std::optional<FusedSums> sums_;
  void* partial_;
  std::vector<std::string> refs_, out_refs_, files_;
  std::string body_;
};

}  // namespace

std::string whole_text(const std::vector<GeneratedSource>& sources) {
  std::string text(common_device_text());
  for (const FunctorText& t : functor_texts()) {
    const auto calls = [&](const GeneratedSource& s) {
      return std::find(s.files.begin(), s.files.end(), t.file) != s.files.end();
    };
    if (std::any_of(sources.begin(), sources.end(), calls))
      text += cat("namespace amp::fused::", t.file, " {\n", t.text, "}\n");
  }
  for (const GeneratedSource& s : sources) text += s.body;
  return text;
}

std::optional<FusedSums> fused_sums(const KernelArgs& a) {
  const FusedProgram p = FusedProgram::parse(a.attrs(), a.in.size());
  std::optional<FusedSums> sums;
  std::vector<size_t> output(p.steps.size());
  size_t out = 0;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const FusedStep& s = p.steps[i];
    if (s.out) output[i] = out++;
    if (s.op != kFusedSum) continue;
    if (!sums) sums = FusedSums{{}, {}, ReduceShape(a.out[0].dims, sum_attrs(s.attrs).ints("axes")), {}};
    sums->outputs.push_back(output[i]);
    sums->of.push_back(output.at(static_cast<size_t>(s.in.at(0) - p.n_in)));
  }
  if (sums)
    sums->tiles =
        column_tiles(sums->shape.outer, sums->shape.n, sums->shape.inner, sums->shape.inner % 4 == 0 ? 4 : 1, 32);
  return sums;
}

FusedLaunch fused_launch(const KernelArgs& a, const std::optional<FusedSums>& sums, void* partial) {
  return Writer(a, sums, partial).write();
}

}  // namespace amp::cuda
