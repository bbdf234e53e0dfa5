// Implements BERT's masking as a wrapper of a dataset. The choice is a Philox draw per (seed, epoch, sample, position),
// so it does not depend on batches or threads.
#include "data/language/masking.h"

#include "base/error.h"
#include "base/philox.h"
#include "data/dataset_wrapper.h"
#include "data/text_dataset.h"

namespace amp {

namespace {

constexpr uint64_t kStream = 0x6d6c6d;  // differs from other Philox streams
constexpr double kMasked = 0.8, kRandom = 0.1;

std::vector<bool> special_ids(const Tokenizer& tokenizer) {
  std::vector<bool> out(static_cast<size_t>(tokenizer.size()), false);
  const auto mark = [&](int32_t id) {
    if (id >= 0 && id < tokenizer.size()) out[static_cast<size_t>(id)] = true;
  };
  const SpecialIds& s = tokenizer.special();
  for (const int32_t id : {s.unk, s.pad, s.cls, s.sep, s.mask, s.bos, s.eos}) mark(id);
  for (const TokenTemplate& frame : {tokenizer.single(), tokenizer.pair()}) {
    for (const TemplatePart& part : frame) mark(part.id);
  }
  return out;
}

class MaskedDataset final : public DatasetWrapper {
 public:
  MaskedDataset(std::shared_ptr<const Dataset> data, const Tokenizer& tokenizer, const std::vector<InputSpec>& inputs,
                const MaskingOptions& options)
      : DatasetWrapper(std::move(data)),
        options_(options),
        special_(special_ids(tokenizer)),
        within_(options.whole_words ? tokens_within_words(tokenizer) : std::vector<bool>(special_.size(), false)),
        mask_(tokenizer.special().mask) {
    if (mask_ < 0)
      fail(Exit::data, "E_MASK_TOKEN", "the tokenizer has no mask token, which a masked language model learns from",
           "a causal language model is trained with `loss` causal_lm");
    for (const InputSpec& i : inputs) {
      if (text_role(i.name) == TextRole::ids) ids_.push_back(i.name);
      if (text_role(i.name) == TextRole::label) label_inputs_.push_back(i.name);
    }
  }

  Batch batch(std::span<const int64_t> samples) const override { return masked(data_->batch(samples), 0); }
  HostTensor labels_of(std::span<const int64_t> samples) const override { return batch(samples).labels; }
  Batch training_batch(std::span<const int64_t> samples, int64_t epoch) const override {
    return masked(data_->training_batch(samples, epoch), static_cast<uint64_t>(epoch) + 1);
  }

 private:
  Batch masked(Batch b, uint64_t round) const {
    std::vector<int64_t> labels = b.labels.to_ints(), ids = labels;
    const int64_t length = b.labels.dims().at(1);
    for (int64_t r = 0; r < b.rows; ++r)
      hide({labels.data() + r * length, static_cast<size_t>(length)}, ids.data() + r * length, round,
           static_cast<uint64_t>(b.samples[static_cast<size_t>(r)]));
    for (const std::string& name : ids_) {
      HostTensor& t = b.inputs.at(name);
      std::vector<int64_t> fed = t.to_ints();
      for (size_t i = 0; i < fed.size(); ++i) {
        if (labels[i] != kIgnoreIndex) fed[i] = ids[i];
      }
      t = HostTensor::of<int64_t>(t.dims(), fed).cast(t.dtype());
    }
    b.labels = HostTensor::of<int64_t>(b.labels.dims(), labels);
    for (const std::string& name : label_inputs_) b.inputs[name] = b.labels.cast(b.inputs.at(name).dtype());
    b.valid_items = count_valid(b.labels);
    return b;
  }

  bool maskable(int64_t id) const {
    return id >= 0 && id < static_cast<int64_t>(special_.size()) && !special_[static_cast<size_t>(id)];
  }

  // Masks one row. labels: the ids of the row, kIgnoreIndex for padding. Chosen tokens keep their label and get a new
  // id in `ids`; the labels of all other tokens become kIgnoreIndex.
  void hide(std::span<int64_t> labels, int64_t* ids, uint64_t round, uint64_t sample) const {
    bool chosen = false, word = false;  // properties of the previous token: it was chosen; it was not special
    for (size_t i = 0; i < labels.size(); ++i) {
      const int64_t id = labels[i];
      if (!maskable(id)) {
        word = false;
        labels[i] = kIgnoreIndex;
        continue;
      }
      const PhiloxBlock draw =
          philox(options_.seed, kStream << 40 | round, sample << 20 | static_cast<uint64_t>(i));  // position < 2^20
      if (!word || !within_[static_cast<size_t>(id)]) chosen = philox_uniform(draw.v[0]) < options_.probability;
      word = true;
      if (!chosen) {
        labels[i] = kIgnoreIndex;
        continue;
      }
      const double kind = philox_uniform(draw.v[1]);
      if (kind < kMasked) {
        ids[i] = mask_;
      } else if (kind < kMasked + kRandom) {
        ids[i] = static_cast<int64_t>(philox_below(draw.v[2], draw.v[3], special_.size()));
      }
    }
  }

  MaskingOptions options_;
  std::vector<bool> special_, within_;  // for each token id: whether it is special; whether it continues a word
  int32_t mask_;
  std::vector<std::string> ids_, label_inputs_;
};

}  // namespace

std::vector<bool> tokens_within_words(const Tokenizer& tokenizer) {
  std::vector<bool> pieces(static_cast<size_t>(tokenizer.size()), false), rest = pieces;
  bool any_start = false;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const std::string_view t = tokenizer.token(id);
    const bool piece = t.size() > 2 && t.starts_with("##"), start = t.starts_with("\u0120") || t.starts_with("\u2581");
    any_start = any_start || start;
    pieces[static_cast<size_t>(id)] = piece;
    rest[static_cast<size_t>(id)] = !start;
  }
  return any_start ? rest : pieces;
}

std::unique_ptr<Dataset> make_masked_dataset(std::shared_ptr<const Dataset> data, const Tokenizer& tokenizer,
                                             const std::vector<InputSpec>& inputs, const MaskingOptions& options) {
  return std::make_unique<MaskedDataset>(std::move(data), tokenizer, inputs, options);
}

}  // namespace amp
