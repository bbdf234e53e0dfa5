// Chooses the offsets first, then writes the file once from its start to its end. Old offsets are kept because people
// store data files of many GB once, and several .onnx files (a base with and without slots) can then use the same one.
#include "importer/write/external.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

#include "base/file.h"
#include "base/number_text.h"

namespace amp {
namespace {

std::string entry_of(const onnx::TensorProto& t, const std::string& key) {
  for (const auto& e : t.external_data()) {
    if (e.key() == key) return e.value();
  }
  return "";
}

// Returns the offsets that the imported file states: -1 for a tensor that it does not store outside. Returns nullopt if
// they cannot be kept.
std::optional<std::vector<int64_t>> old_offsets(const ExternalTensors& tensors) {
  std::vector<int64_t> out(tensors.size(), -1);
  std::vector<size_t> stored;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const onnx::TensorProto& t = *tensors[i].first;
    if (t.external_data().empty()) continue;
    const std::string offset = entry_of(t, "offset");
    out[i] = offset.empty() ? 0 : parse_integer(offset).value_or(-1);
    if (out[i] < 0) return {};
    if (!stored.empty() && entry_of(t, "location") != entry_of(*tensors[stored[0]].first, "location")) return {};
    stored.push_back(i);
  }
  std::sort(stored.begin(), stored.end(), [&](size_t a, size_t b) { return out[a] < out[b]; });
  int64_t end = 0, gaps = 0, bytes = 0;
  for (const size_t i : stored) {
    if (out[i] < end) return {};  // the file shares bytes between these tensors, whose values may differ now
    gaps += out[i] - end;
    bytes += tensors[i].second.bytes();
    end = out[i] + tensors[i].second.bytes();
  }
  constexpr int64_t kPadding = 1 << 20;  // a larger gap held tensors that the model no longer has
  return gaps <= bytes / 8 + kPadding ? std::optional(out) : std::nullopt;
}

int64_t aligned(int64_t at, int64_t bytes) {
  constexpr int64_t kPage = 4096, kLine = 64, kLarge = 1 << 20;
  const int64_t unit = bytes >= kLarge ? kPage : kLine;
  return (at + unit - 1) / unit * unit;
}

void refer(onnx::TensorProto& t, const std::string& name, int64_t offset, int64_t bytes) {
  t.clear_external_data();
  t.clear_raw_data();
  t.set_data_location(onnx::TensorProto::EXTERNAL);
  const auto entry = [&](const char* key, const std::string& text) {
    auto& e = *t.add_external_data();
    e.set_key(key);
    e.set_value(text);
  };
  entry("location", name);
  entry("offset", std::to_string(offset));
  entry("length", std::to_string(bytes));
}

}  // namespace

void write_external(ExternalTensors& tensors, const std::string& path) {
  std::vector<int64_t> offsets = old_offsets(tensors).value_or(std::vector<int64_t>(tensors.size(), -1));
  int64_t end = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (offsets[i] >= 0) end = std::max(end, offsets[i] + tensors[i].second.bytes());
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (offsets[i] >= 0) continue;
    offsets[i] = aligned(end, tensors[i].second.bytes());
    end = offsets[i] + tensors[i].second.bytes();
  }
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
  const std::string name = std::filesystem::path(path).filename().string() + ".data";
  FileWriter file(path + ".data", end);
  const std::string zeros(4096, '\0');
  int64_t at = 0;
  for (const size_t i : order) {
    for (; at < offsets[i]; at += std::min<int64_t>(offsets[i] - at, 4096))
      file.write(zeros.data(), std::min<int64_t>(offsets[i] - at, 4096));
    const HostTensor& value = tensors[i].second;
    file.write(value.data(), value.bytes());
    at = offsets[i] + value.bytes();
    refer(*tensors[i].first, name, offsets[i], value.bytes());
  }
  file.commit();
}

}  // namespace amp
