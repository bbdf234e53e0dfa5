// Archives that unpack to far more than their size.
#include <zip.h>

#include <catch2/catch_all.hpp>

#include "base/npz.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

// Returns the bytes of a .npy file with `count` zeros.
std::string zeros(int64_t count) {
  std::string header = cat("{'descr': '|u1', 'fortran_order': False, 'shape': (", count, ",), }");
  header.append(117 - header.size(), ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + std::string(static_cast<size_t>(count), '\0');
}

// Writes a deflated archive of these members.
void write_archive(const std::string& path, const std::vector<std::pair<std::string, std::string>>& members) {
  zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  REQUIRE(archive);
  for (const auto& [name, bytes] : members) {
    zip_source_t* const source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    REQUIRE(zip_file_add(archive, name.c_str(), source, 0) >= 0);
  }
  REQUIRE(zip_close(archive) == 0);
}

}  // namespace

TEST_CASE("an npz that unpacks to more than a hundred times its size is refused", "[bomb]") {
  const TempDir f;
  const std::string array = zeros(int64_t{80} << 20), half = zeros(int64_t{40} << 20);
  write_archive(f / "bomb.npz", {{"x.npy", array}});
  expect_error("E_DATA_NPY", "decompression bomb", [&] { read_npz(f / "bomb.npz"); });
  write_archive(f / "halves.npz", {{"x.npy", half}, {"y.npy", half}});
  expect_error("E_DATA_NPY", "decompression bomb", [&] { read_npz(f / "halves.npz"); });
  // A small file may contain a single value: a mask of ones is compressed to a thousandth of its size.
  write_archive(f / "small.npz", {{"x.npy", half}});
  CHECK(read_npz(f / "small.npz").at(0).tensor.numel() == int64_t{40} << 20);
}

TEST_CASE("the header of a tensor is checked before its elements are read") {
  const TempDir f;
  const auto check = [](const std::string& name, DType dtype, const Dims& dims) {
    fail(Exit::data, "E_DATA_SHAPE", cat(name, " ", name_of(dtype), " ", to_string(dims)));
  };
  write_archive(f / "a.npz", {{"x.npy", zeros(1000)}});
  write_npy(f / "y.npy", HostTensor::zeros(DType::i64, {2, 3}));
  write_safetensors(f / "z.safetensors", {{"z", HostTensor::zeros(DType::f32, {4})}});
  expect_error("E_DATA_SHAPE", "x uint8 [1000]", [&] { read_tensor_file(f / "a.npz", Exit::data, check); });
  expect_error("E_DATA_SHAPE", "y int64 [2,3]", [&] { read_tensor_file(f / "y.npy", Exit::data, check); });
  expect_error("E_DATA_SHAPE", "z float32 [4]", [&] { read_tensor_file(f / "z.safetensors", Exit::data, check); });
}
