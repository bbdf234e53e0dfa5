#include "ops/cuda/fused_source.h"

#include <algorithm>
#include <bit>

#include "backend/functor_texts.h"
#include "backend/fused_program.h"
#include "backend/walk.h"
#include "base/error.h"
#include "base/hash.h"
#include "ops/dropout.h"

namespace amp::cuda {

namespace {

const char* enumerator(DType t) {
  switch (t) {
    case DType::f32: return "DType::f32";
    case DType::f16: return "DType::f16";
    case DType::bf16: return "DType::bf16";
    case DType::boolean: return "DType::boolean";
    default: bug(cat("a fused kernel of ", name_of(t)));
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
  explicit Writer(const KernelArgs& a) : a_(a), program_(FusedProgram::parse(a.attrs(), a.in.size())) {
    std::vector<Dims> operands;
    for (const Tensor& t : a.in) operands.push_back(t.dims);
    walk_ = make_walk(a.out[0].dims, operands);
    n_ = a.out[0].numel();
    width_ = choose_width();
  }

  FusedLaunch write() {
    word(static_cast<uint64_t>(walk_.inner / width_));
    word(static_cast<uint64_t>(n_ / width_));
    word(reinterpret_cast<uint64_t>(a_.state));
    begin();
    for (size_t i = 0; i < program_.steps.size(); ++i) step(i);
    store();
    body_ += "  }\n}\n";
    return finish();
  }

 private:
  int choose_width() const {
    if (walk_.inner % 4 != 0) return 1;
    for (size_t k = 0; k < a_.in.size(); ++k) {
      if (walk_.inner_stride[k] == 0) continue;
      for (const int64_t s : walk_.stride[k]) {
        if (s % 4 != 0) return 1;
      }
    }
    for (const FusedStep& s : program_.steps) {
      if (s.op == "Dropout" && DropoutShape(s.attrs, n_).per_row % 4 != 0) return 1;
    }
    return 4;
  }

  // An argument, as text.
  std::string word(uint64_t value) {
    words_.push_back(value);
    return cat("a.w[", words_.size() - 1, ']');
  }
  std::string index_word(int64_t value) { return cat("static_cast<Index>(", word(static_cast<uint64_t>(value)), ')'); }
  void line(const std::string& text) { body_ += "    " + text + '\n'; }
  DType type(int v) const { return v < program_.n_in ? a_.in[static_cast<size_t>(v)].dtype : program_.steps[static_cast<size_t>(v - program_.n_in)].type; }
  std::string declare(int v) const { return cat(type(v) == DType::boolean ? "bool v" : "float v", v, "[W];"); }

  bool stays(size_t k) const {
    const Dims& s = walk_.stride[k];
    return walk_.inner_stride[k] == 0 && std::all_of(s.begin(), s.end(), [](int64_t x) { return x == 0; });
  }

  // The loop's head, the operands' places and loads.
  void begin() {
    std::vector<std::string> refs;
    for (const Tensor& t : a_.in) refs.push_back(cat("make_ref(", word(reinterpret_cast<uint64_t>(t.data)), ", ", enumerator(t.dtype), ')'));
    for (const Tensor& t : a_.out) out_refs_.push_back(cat("make_ref(", word(reinterpret_cast<uint64_t>(t.data)), ", ", enumerator(t.dtype), ')'));
    body_ += "DEV void run(const Args& a) {\n  const Index groups = static_cast<Index>(a.w[1]);\n"
             "  for (Index g = static_cast<Index>(global_index()); g < groups; g += static_cast<Index>(global_threads())) {\n"
             "    const Index at = g * W;\n";
    rows();
    for (size_t k = 0; k < a_.in.size(); ++k) {
      line(declare(static_cast<int>(k)));
      const bool steps = walk_.inner_stride[k] != 0;
      std::string place = steps ? "column" : "";
      if (walk_.full(k)) place = "at";
      else {
        for (size_t d = 0; d < walk_.extent.size(); ++d) {
          if (walk_.stride[k][d] != 0) place += cat(place.empty() ? "" : " + ", "digit", d, " * ", index_word(walk_.stride[k][d]));
        }
      }
      if (place.empty()) place = "0";
      line(cat(steps || walk_.full(k) ? "read(" : "read_one(", refs[k], ", ", place, ", v", k, ");"));
    }
  }
  // Where in the rows a group lies, for operands that do not advance with the result.
  void rows() {
    size_t first = walk_.extent.size();  // the outermost digit that is read
    bool column = false;
    for (size_t k = 0; k < a_.in.size(); ++k) {
      if (walk_.full(k) || stays(k)) continue;
      column = true;
      for (size_t d = 0; d < first; ++d) {
        if (walk_.stride[k][d] != 0) first = d;
      }
    }
    if (!column) return;
    line("const Index per_row = static_cast<Index>(a.w[0]), row = g / per_row, column = (g - row * per_row) * W;");
    std::string rest = "row";
    for (size_t d = walk_.extent.size(); d-- > first;) {
      if (d == 0) {
        line(cat("const Index digit0 = ", rest, ';'));
        break;
      }
      const std::string extent = index_word(walk_.extent[d]);
      line(cat("const Index rest", d, " = ", rest, " / ", extent, ", digit", d, " = ", rest, " - rest", d, " * ", extent, ';'));
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
    line(cat("const PhiloxBlock words", i, " = dropout_words(*reinterpret_cast<const RunState*>(a.w[2]), row", i, ", place", i,
             " / 4, static_cast<uint32_t>(", site, "));"));
    std::string lane = cat("words", i, ".v[j]");
    if (width_ == 1) {
      const auto at = [&](int k) { return cat("words", i, ".v[", k, ']'); };
      lane = cat("(place", i, " % 4 == 0 ? ", at(0), " : place", i, " % 4 == 1 ? ", at(1), " : place", i, " % 4 == 2 ? ", at(2), " : ", at(3), ')');
    }
    return cat("drop(", x, ", ", lane, ", static_cast<uint32_t>(", threshold, "), std::bit_cast<float>(static_cast<uint32_t>(", scale, ")))");
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
      if (program_.steps[i].out) line(cat("write(", out_refs_.at(out++), ", at, v", program_.value_of(i), ");"));
    }
  }

  FusedLaunch finish() {
    FusedLaunch l;
    const bool small = n_ < int64_t{1} << 31;
    l.source.words = words_.size();
    l.source.files = files_;
    l.source.body = cat("using Index = ", small ? "uint32_t" : "int64_t", ";\nconstexpr int W = ", width_, ";\nstruct Args { uint64_t w[", words_.size(), "]; };\n", body_);
    const std::string whole = whole_text({l.source});
    const std::string name = l.source.name = "fused_" + sha256(whole.data(), whole.size()).substr(0, 24), space = "amp::cuda::in_" + name;
    l.source.body = cat("namespace ", space, " {\n", l.source.body, "}\n#ifdef __CUDACC_RTC__\nextern \"C\" __global__ void __launch_bounds__(256) ", name,
                        "(const __grid_constant__ ", space, "::Args a) { ", space, "::run(a); }\n#else\nextern \"C\" void ", name, "(const void* a) { ", space,
                        "::run(*static_cast<const ", space, "::Args*>(a)); }\n#endif\n");
    l.words = std::move(words_);
    l.groups = n_ / width_;
    return l;
  }

  const KernelArgs& a_;
  FusedProgram program_;
  Walk walk_;
  int64_t n_ = 0;
  int width_ = 1;
  std::vector<uint64_t> words_;
  std::vector<std::string> out_refs_, files_;
  std::string body_;
};

}  // namespace

std::string whole_text(const std::vector<GeneratedSource>& sources) {
  std::string text(common_device_text());
  for (const FunctorText& t : functor_texts()) {
    const auto calls = [&](const GeneratedSource& s) { return std::find(s.files.begin(), s.files.end(), t.file) != s.files.end(); };
    if (std::any_of(sources.begin(), sources.end(), calls)) text += cat("namespace amp::fused::", t.file, " {\n", t.text, "}\n");
  }
  for (const GeneratedSource& s : sources) text += s.body;
  return text;
}

FusedLaunch fused_launch(const KernelArgs& a) { return Writer(a).write(); }

}  // namespace amp::cuda
