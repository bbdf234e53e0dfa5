// Tests the .onnx_adapter format: files that onnxruntime wrote, files that onnxruntime has read (their bytes are
// golden), and damaged files.
#include "importer/adapter/onnx_adapter.h"

#include <catch2/catch_all.hpp>
#include <cstring>
#include <map>

#include "base/fs.h"
#include "base/safetensors.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

const std::string kAdapters = test_data("importer/adapters/");

void require_equal(const std::vector<NamedTensor>& have, const std::vector<NamedTensor>& want) {
  REQUIRE(have.size() == want.size());
  for (const NamedTensor& w : want) {
    INFO(w.name);
    const HostTensor* const h = find_tensor(have, w.name);
    REQUIRE(h);
    REQUIRE(h->dtype() == w.tensor.dtype());
    REQUIRE(h->dims() == w.tensor.dims());
    REQUIRE(std::memcmp(h->data(), w.tensor.data(), static_cast<size_t>(w.tensor.bytes())) == 0);
  }
}

FileBytes copy_of(const FileBytes& file, int64_t size) {
  FileBytes out{std::shared_ptr<uint8_t>(new uint8_t[static_cast<size_t>(size) + 1], std::default_delete<uint8_t[]>()),
                size};
  std::memcpy(out.bytes.get(), file.bytes.get(), static_cast<size_t>(size));
  return out;
}

void set32(FileBytes& file, int64_t at, uint32_t value) { std::memcpy(file.bytes.get() + at, &value, 4); }

}  // namespace

TEST_CASE("an adapter that onnxruntime wrote is read, and ours equals the bytes that onnxruntime read") {
  const std::vector<NamedTensor> want = read_safetensors(kAdapters + "parameters.safetensors").tensors;
  const OnnxAdapter theirs = read_onnx_adapter(kAdapters + "by_onnxruntime.onnx_adapter");
  require_equal(theirs.parameters, want);
  CHECK(theirs.adapter_version == 3);
  CHECK(theirs.model_version == 7);

  const TempDir folder;
  write_onnx_adapter(folder / "ours.onnx_adapter", theirs);
  CHECK(read_file(folder / "ours.onnx_adapter").text() == read_file(kAdapters + "ours.onnx_adapter").text());
  const OnnxAdapter again = read_onnx_adapter(folder / "ours.onnx_adapter");
  require_equal(again.parameters, want);
  CHECK(again.adapter_version == 3);
  CHECK(again.model_version == 7);
}

TEST_CASE("adapters without parameters or without elements are written and read") {
  const TempDir folder;
  write_onnx_adapter(folder / "none", {});
  CHECK(read_onnx_adapter(folder / "none").parameters.empty());
  const std::vector<NamedTensor> empty = {{"a", HostTensor::zeros(DType::f32, {5, 0})},
                                          {"b", HostTensor::zeros(DType::bf16, {0, 3})}};
  write_onnx_adapter(folder / "empty", {1, 1, empty});
  require_equal(read_onnx_adapter(folder / "empty").parameters, empty);
}

TEST_CASE("E_ADAPTER: damaged adapters are refused") {
  const FileBytes good = read_file(kAdapters + "ours.onnx_adapter");
  const auto refused = [](const FileBytes& file) {
    expect_error("E_ADAPTER", "not a valid .onnx_adapter file", [&] { parse_onnx_adapter(file); });
  };
  for (int64_t size = 0; size < good.size; ++size) {
    INFO("the first " << size << " bytes");
    refused(copy_of(good, size));
  }
  // A wrong number at any place is refused or read as another adapter; it never reads beyond the file.
  for (const uint32_t value : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu, static_cast<uint32_t>(good.size)}) {
    for (int64_t at = 0; at + 4 <= good.size; ++at) {
      FileBytes damaged = copy_of(good, good.size);
      set32(damaged, at, value);
      try {
        for (const NamedTensor& p : parse_onnx_adapter(damaged).parameters) CHECK(p.tensor.bytes() <= good.size);
      } catch (const Error& e) {
        CHECK(e.id() == "E_ADAPTER");
      }
    }
  }
  FileBytes version = copy_of(good, good.size);
  set32(version, 24, 2);
  refused(version);
  expect_error("E_ADAPTER", "bytes 4 to 7", [&] { read_onnx_adapter(kAdapters + "parameters.safetensors"); });
}

TEST_CASE("E_ADAPTER_SIZE: an adapter of 2 GiB is refused before its values are read") {
  const TempDir folder;
  const auto nothing = std::make_shared<int>();  // an owner of no data: the tensor's values are not read
  const HostTensor large(DType::f32, {1 << 15, 1 << 14}, nothing, nothing.get());
  expect_error(
      "E_ADAPTER_SIZE", "2 GiB",
      [&] {
        write_onnx_adapter(folder / "large", {1, 1, {{"a", large}}});
      },
      Exit::unsupported);
  CHECK(!path_exists(folder / "large"));
}
