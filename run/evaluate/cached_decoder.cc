// A cache has more positions than are used, so that one Program serves many tokens. Attention must not see the unused
// positions. GroupQueryAttention counts the 1s in the attention mask and reads that many positions from the front. All
// other graphs append the new positions to the past. There the unused positions are the first ones, and the mask hides
// them, so that the new position directly follows the used ones, as causal masks and windows require. Whether a graph
// computes positions and masks in a way that permits this is tested, not analyzed: results with and without the cache
// are compared once.
#include "run/evaluate/cached_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "data/text_dataset.h"

namespace amp {

namespace {

constexpr int64_t kCapacityStep = 64;

// The dims of a cache before and after its dimension of positions.
struct Around {
  int64_t outer = 1, inner = 1;
  Around(const Dims& dims, int axis) {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (static_cast<int>(i) != axis) (static_cast<int>(i) < axis ? outer : inner) *= dims[i];
    }
  }
};

// Copies n positions, from position `first` of `from` to position `at` of `to`. The shapes of both tensors differ only
// in the number of positions, the size of `axis`.
void copy_positions(const HostTensor& from, int64_t first, HostTensor& to, int64_t at, int64_t n, int axis) {
  const Around a(from.dims(), axis);
  const int64_t have = from.dims()[static_cast<size_t>(axis)], all = to.dims()[static_cast<size_t>(axis)];
  const int64_t position = a.inner * size_of(from.dtype());
  for (int64_t o = 0; o < a.outer; ++o) {
    std::memcpy(static_cast<char*>(to.mutable_data()) + (o * all + at) * position,
                static_cast<const char*>(from.data()) + (o * have + first) * position,
                static_cast<size_t>(n * position));
  }
}

HostTensor ones_at_end(int64_t length, int64_t ones, DType type) {
  std::vector<int64_t> out(static_cast<size_t>(length), 0);
  std::fill(out.end() - ones, out.end(), 1);
  return HostTensor::of<int64_t>({1, length}, out).cast(type);
}

}  // namespace

Tensors empty_caches(const SourceGraph& g, const DecoderCaches& caches) {
  Tensors out;
  for (const DecoderCaches::Part& p : caches.parts) out[g.value(p.past).name] = g.value(p.past).data;
  for (const std::vector<int>* lengths : {&caches.lasts, &caches.totals}) {
    for (const int v : *lengths) out[g.value(v).name] = g.value(v).data;
  }
  return out;
}

CachedDecoder::CachedDecoder(Session& session, NextToken& whole, DecoderCaches caches, bool low, const Log& log)
    : session_(session),
      whole_(whole),
      caches_(std::move(caches)),
      low_(low),
      log_(log),
      type_(session.float_type()),
      outputs_{whole.output()} {
  for (const DecoderCaches::Part& p : caches_.parts) outputs_.push_back(p.present);
  if (const std::string why = obstacle(); !caches_.parts.empty() && !why.empty()) give_up(why);
}

std::string CachedDecoder::obstacle() const {
  bool masked = false;
  for (const InputSpec& i : whole_.inputs()) {
    masked |= text_role(i.name) == TextRole::mask;
    if (i.dims && i.dims->size() != 2) return cat("the input '", printable(i.name), "' is no matrix");
  }
  const bool from_end =
      std::any_of(caches_.parts.begin(), caches_.parts.end(), [](const auto& p) { return !p.at_front; });
  if (from_end && !masked) return "the model has no attention mask";
  return whole_.fixed() > 0 ? "the model takes only one length" : "";
}

std::vector<float> CachedDecoder::logits(const std::vector<int32_t>& ids, int64_t most) {
  if (caches_.parts.empty()) return whole_.logits(ids, most);
  const bool next =
      !seen_.empty() && ids.size() == seen_.size() + 1 && std::equal(seen_.begin(), seen_.end(), ids.begin());
  if (!next) return start(ids, most);
  if (compared_) return step(ids.back(), most);
  compared_ = true;
  try {
    std::vector<float> out = step(ids.back(), most);
    if (agrees(out, ids, most)) {
      log_.note(cat("each token computes only its position: ", caches_.parts.size(),
                    " key/value caches hold the earlier ones (`use_cache` false: it computes the whole text)"));
      return out;
    }
    give_up("with the cache the model computes other logits");
  } catch (const Error& e) {
    if (e.exit() != Exit::unsupported && e.exit() != Exit::model) throw;
    give_up(e.fact());
  }
  return whole_.logits(ids, most);
}

void CachedDecoder::give_up(const std::string& why) {
  log_.note(cat("no key/value cache is used, each token computes the whole text: ", why));
  caches_.parts.clear();
  stored_.clear();
}

bool CachedDecoder::agrees(const std::vector<float>& with, const std::vector<int32_t>& ids, int64_t most) {
  // Programs of different shapes add in different orders, and 16-bit types round each partial result.
  const double tolerance = low_ ? 5e-2 : 1e-3;
  const std::vector<float> without = whole_.logits(ids, most);
  double largest = 0, worst = 0;
  for (size_t i = 0; i < with.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(without[i])));
    worst = std::max(worst, std::abs(static_cast<double>(with[i]) - without[i]));
  }
  return worst <= tolerance * largest;  // false for NaN; decoding without the cache then reports it
}

std::vector<float> CachedDecoder::start(const std::vector<int32_t>& ids, int64_t most) {
  const auto n = static_cast<int64_t>(ids.size());
  const Tensors out = session_.forward(outputs_, whole_.inputs_of(ids, most));
  stored_.clear();
  capacity_ = 0;
  seen_.clear();
  for (size_t i = 0; i < caches_.parts.size(); ++i) {
    Dims dims = out.at(session_.source().value(outputs_[i + 1]).name).dims();
    dims.at(static_cast<size_t>(caches_.parts[i].axis)) = 0;
    stored_.push_back(HostTensor::empty(type_, dims));
  }
  reserve(n, most);
  append(out, 0, n);
  seen_ = ids;
  return whole_.row(out.at(session_.source().value(outputs_[0]).name), n - 1);
}

std::vector<float> CachedDecoder::step(int32_t id, int64_t most) {
  const auto used = static_cast<int64_t>(seen_.size());
  const Tensors out = session_.forward(outputs_, inputs_of(id));
  reserve(used + 1, most);
  append(out, 0, 1);
  seen_.push_back(id);
  return whole_.row(out.at(session_.source().value(outputs_[0]).name), 0);
}

Tensors CachedDecoder::inputs_of(int32_t id) const {
  const SourceGraph& g = session_.source();
  const auto used = static_cast<int64_t>(seen_.size());
  Tensors out;
  const auto number = [&](int64_t v, DType type) { return HostTensor::of<int64_t>({1, 1}, {v}).cast(type); };
  for (const InputSpec& i : whole_.inputs()) {
    switch (text_role(i.name).value_or(TextRole::types)) {
      case TextRole::ids:
        out[i.name] = number(id, i.dtype);
        break;
      case TextRole::mask:
        out[i.name] = ones_at_end(capacity_ + 1, used + 1, i.dtype);
        break;
      case TextRole::positions:
        out[i.name] = number(used, i.dtype);
        break;
      case TextRole::types:
      case TextRole::label:
        out[i.name] = number(0, i.dtype);
        break;
    }
  }
  for (size_t i = 0; i < stored_.size(); ++i) out[g.value(caches_.parts[i].past).name] = stored_[i];
  const auto feed = [&](int v, int64_t n) {
    const SourceValue& x = g.value(v);
    out[x.name] = HostTensor::of<int64_t>(Dims(x.dims.size(), 1), {n}).cast(x.dtype);
  };
  for (const int v : caches_.lasts) feed(v, used);
  for (const int v : caches_.totals) feed(v, capacity_ + 1);
  return out;
}

// Enlarges the caches to at least `positions`. Capacities grow by half, in steps, so that few Programs are compiled.
void CachedDecoder::reserve(int64_t positions, int64_t most) {
  if (positions <= capacity_) return;
  const auto rounded = [](int64_t n) { return (n + kCapacityStep - 1) / kCapacityStep * kCapacityStep; };
  const int64_t size = std::max(rounded(positions), std::min(rounded(most), rounded(positions + positions / 2)));
  const auto used = static_cast<int64_t>(seen_.size());
  for (size_t i = 0; i < stored_.size(); ++i) {
    const DecoderCaches::Part& p = caches_.parts[i];
    Dims dims = stored_[i].dims();
    dims[static_cast<size_t>(p.axis)] = size;
    HostTensor larger = HostTensor::zeros(type_, dims);
    copy_positions(stored_[i], p.at_front ? 0 : capacity_ - used, larger, p.at_front ? 0 : size - used, used, p.axis);
    stored_[i] = std::move(larger);
  }
  capacity_ = size;
}

void CachedDecoder::append(const Tensors& out, int64_t from, int64_t n) {
  const auto used = static_cast<int64_t>(seen_.size());
  for (size_t i = 0; i < stored_.size(); ++i) {
    const DecoderCaches::Part& p = caches_.parts[i];
    const HostTensor present = out.at(session_.source().value(p.present).name).cast(type_);
    // A present that holds the whole sequence has the past before the new positions.
    const int64_t first = p.whole && used > 0 ? present.dims()[static_cast<size_t>(p.axis)] - n : from;
    if (!p.at_front && used > 0) {
      const Around a(stored_[i].dims(), p.axis);
      const int64_t position = a.inner * size_of(type_);
      for (int64_t o = 0; o < a.outer; ++o) {
        char* const row = static_cast<char*>(stored_[i].mutable_data()) + o * capacity_ * position;
        std::memmove(row, row + n * position, static_cast<size_t>((capacity_ - n) * position));
      }
    }
    copy_positions(present, first, stored_[i], p.at_front ? used : capacity_ - n, n, p.axis);
  }
}

}  // namespace amp
