// Tensor files. Files written by numpy and safetensors are read, safetensors output equals the reference byte for byte,
// and damaged files cause an error instead of a crash.
#include <catch2/catch_all.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/file.h"
#include "base/npz.h"
#include "base/safetensors.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

const std::string kData = test_data("base/");

std::string bytes_of(const std::string& path) { return std::string(read_file(path).text()); }

// Writes a file with these bytes.
struct Scratch {
  explicit Scratch(const std::string& bytes, const std::string& extension = "") : path(folder / ("file" + extension)) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  TempDir folder;
  std::string path;
};

void check_mixed(const std::vector<NamedTensor>& t, const std::string& b_name) {
  REQUIRE(t.size() == 10);
  const HostTensor& b = *find_tensor(t, b_name);
  CHECK(b.dims() == Dims{2, 3, 4});
  for (int i = 0; i < 24; ++i) CHECK(b.as<float>()[i] == static_cast<float>(i) * 0.5f - 3);
  CHECK(find_tensor(t, "a")->dtype() == DType::f16);
  CHECK(find_tensor(t, "a")->to_doubles() == std::vector<double>{-2, -1, 0, 1, 2, 3});
  CHECK(find_tensor(t, "ids")->to_ints()[7] == 7 * 1000003);
  CHECK(find_tensor(t, "mask")->dtype() == DType::boolean);
  CHECK(find_tensor(t, "mask")->to_ints() == std::vector<int64_t>{1, 0, 1});
  CHECK(find_tensor(t, "byte")->to_ints() == std::vector<int64_t>{0, 1, 2, 3, 4});
  CHECK(find_tensor(t, "short")->to_ints() == std::vector<int64_t>{0, -7, -14, -21});
  CHECK(find_tensor(t, "wide")->as<double>()[2] == 2.0 / 7);
  CHECK(find_tensor(t, "small")->as<int32_t>()[0] == -3);
  CHECK(find_tensor(t, "scalar")->rank() == 0);
  CHECK(find_tensor(t, "scalar")->as<float>()[0] == 1.25f);
  CHECK(find_tensor(t, "empty")->dims() == Dims{0, 3});
}

std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const uint64_t n = header.size();
  return std::string(reinterpret_cast<const char*>(&n), 8) + header + data;
}

void expect_bad_safetensors(const std::string& header, const std::string& data, const std::string& part) {
  INFO(header);
  const Scratch file(safetensors_bytes(header, data));
  expect_error("E_SAFETENSORS", part, [&] { read_safetensors(file.path); });
}

std::string npy_bytes(std::string header, const std::string& data) {
  header += '\n';
  const char size[2] = {static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  return std::string("\x93NUMPY\x01\x00", 8) + std::string(size, 2) + header + data;
}

void expect_bad_npy(const std::string& bytes, const std::string& part) {
  const Scratch file(bytes, ".npy");
  expect_error("E_DATA_NPY", part, [&] { read_npy(file.path); });
}

}  // namespace

TEST_CASE("files that the reference libraries wrote are read") {
  const SafeTensors s = read_safetensors(kData + "mixed.safetensors");
  check_mixed(s.tensors, "b/weight");
  CHECK(s.metadata == std::map<std::string, std::string>{{"step", "17"}});
  check_mixed(read_npz(kData + "stored.npz"), "b_weight");
  check_mixed(read_npz(kData + "deflated.npz"), "b_weight");
}

TEST_CASE("safetensors is written with the reference's bytes, whatever the order given") {
  SafeTensors s = read_safetensors(kData + "mixed.safetensors");
  std::reverse(s.tensors.begin(), s.tensors.end());
  const Scratch file("");
  write_safetensors(file.path, s.tensors, s.metadata);
  CHECK(bytes_of(file.path) == bytes_of(kData + "mixed.safetensors"));
}

TEST_CASE("a safetensors header that lies is refused") {
  const std::string data(8, 'x');
  expect_bad_safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", data, "takes 8 bytes");
  expect_bad_safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", data, "the file holds 8");
  expect_bad_safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", data, "begins at 4");
  expect_bad_safetensors(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
      data, "'b' begins at 4");
  expect_bad_safetensors(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}})",
      data, "two tensors are named 'a'");
  expect_bad_safetensors(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", data, "non-negative");
  expect_bad_safetensors(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", data, "non-negative");
  expect_bad_safetensors(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", data,
                         "overflows");
  expect_bad_safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", data, "takes 8 bytes");
  expect_bad_safetensors(R"({"a":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}})", data, "not supported");
  expect_bad_safetensors(R"({"a":7})", data, "in tensor 'a'");
  expect_bad_safetensors(R"([1])", data, "not a JSON object");
  expect_bad_safetensors(R"({"a":)", data, "not JSON");
  expect_bad_safetensors("{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}", data,
                         "nested too deeply");
  expect_error("E_DATA_FILE", "no/such/file", [] { read_safetensors("no/such/file"); });
}

TEST_CASE("every truncation and every changed header byte of a safetensors file is an error or a valid reading") {
  const std::string good = bytes_of(kData + "mixed.safetensors");
  for (size_t n = 0; n < good.size(); ++n) {
    const Scratch file(good.substr(0, n));
    CHECK_THROWS_AS(read_safetensors(file.path), Error);
  }
  uint64_t header;
  std::memcpy(&header, good.data(), 8);
  REQUIRE(header + 8 < good.size());
  size_t errors = 0;
  for (size_t i = 0; i < header + 8; ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x11);
    const Scratch file(bad);
    try {
      read_safetensors(file.path);
    } catch (const Error&) {
      ++errors;
    }
  }
  CHECK(errors * 3 > header * 2);  // not all: a changed name or metadata is still valid
}

TEST_CASE("numpy files that cannot be taken name the field") {
  expect_error("E_DATA_NPY", "fortran_order", [] { read_npy(kData + "fortran.npy"); });
  expect_error("E_DATA_NPY", "pickle", [] { read_npy(kData + "object.npy"); });
  expect_error("E_DATA_NPY", "big-endian", [] { read_npy(kData + "big_endian.npy"); });
  const std::string eight(8, 'x');
  expect_bad_npy("NUMPY", "wrong magic");
  expect_bad_npy(std::string("\x93NUMPY\x01\x00\xff\xff", 10) + "{}", "header length");
  expect_bad_npy(npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", eight),
                 "takes 12 bytes, 8 follow");
  expect_bad_npy(npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }", eight),
                 "overflows");
  expect_bad_npy(npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", eight),
                 "overflows");
  expect_bad_npy(npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", eight), "non-negative");
  expect_bad_npy(npy_bytes("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", eight), "not supported");
  expect_bad_npy(npy_bytes("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", eight), "structure");
  expect_bad_npy(npy_bytes("{'descr': '<f4', 'shape': (2,), }", eight), "lacks one of");
  expect_bad_npy(npy_bytes("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,), }", eight), "fortran_order");
  const Scratch good(
      npy_bytes("{'descr': '<i8', 'fortran_order': False, 'shape': (), }", std::string("\x05\0\0\0\0\0\0\0", 8)),
      ".npy");
  CHECK(read_npy(good.path).to_ints() == std::vector<int64_t>{5});
}

TEST_CASE("a damaged npz is an error") {
  const std::string good = bytes_of(kData + "deflated.npz");
  for (size_t n = 0; n < good.size(); ++n) {
    const Scratch file(good.substr(0, n));
    CHECK_THROWS_AS(read_npz(file.path), Error);
  }
  // A flipped bit is detected by the checksum, or it is in an unused field (times, attributes).
  int errors = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    const Scratch file(bad);
    try {
      read_npz(file.path);
    } catch (const Error&) {
      ++errors;
    }
  }
  CHECK(errors * 2 > static_cast<int>(good.size()));
}

TEST_CASE("a changed payload of an npz is found by its checksum") {
  // A stored member has no structure that a flipped bit could break, so only the CRC-32 of the archive shows it.
  const std::string good = bytes_of(kData + "stored.npz");
  const float value = 0.5f * 5 - 3;  // the element 5 of b_weight
  const size_t at = good.find(std::string(reinterpret_cast<const char*>(&value), sizeof value));
  REQUIRE(at != std::string::npos);
  for (const char bit : {'\x01', '\x40'}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ bit);
    const Scratch file(bad);
    expect_error("E_DATA_NPY", "b_weight.npy", [&] { read_npz(file.path); });
    expect_error("E_DATA_NPY", "damaged or cut off: CRC error", [&] { read_npz(file.path); });
  }
}

TEST_CASE("an npz that claims more than its file holds is refused before memory is taken") {
  const auto claiming = [](std::string bytes, size_t field, size_t size) {
    const size_t record = bytes.find("PK\x01\x02");  // the first record of the central directory
    REQUIRE(record != std::string::npos);
    return bytes.replace(record + field, size, std::string(size, '\x7f'));
  };
  const auto refused = [](const std::string& bytes, const std::string& part) {
    const Scratch file(bytes);
    expect_error("E_DATA_NPY", part, [&] { read_npz(file.path); });
  };
  const std::string stored = bytes_of(kData + "stored.npz"), deflated = bytes_of(kData + "deflated.npz");
  refused(claiming(stored, 20, 8), "beyond the end");  // wrong numbers of packed and unpacked bytes
  refused(claiming(stored, 24, 4), "cannot hold");     // wrong number of unpacked bytes
  refused(claiming(deflated, 24, 4), "cannot hold");
  refused(claiming(deflated, 10, 2), "zip method 32639");
  const std::string end = deflated.substr(deflated.rfind("PK\x05\x06"));
  refused(end, "not a zip archive, or damaged");  // the end record claims ten members, but there are none
  refused(claiming(deflated, 42, 4), "damaged");  // the member begins beyond the file
  refused("", "too short");
}

TEST_CASE("a writer that is not committed leaves nothing behind") {
  const Scratch file("old");
  {
    FileWriter w(file.path);
    w.write("new");
  }
  CHECK(bytes_of(file.path) == "old");
  FileWriter w(file.path);
  w.write("new");
  w.commit();
  CHECK(bytes_of(file.path) == "new");
  expect_error(
      "E_WRITE", "no/such/folder", [] { FileWriter("no/such/folder/x"); }, Exit::storage);
}

TEST_CASE("what is written as .npz and .npy is read back, bfloat16 as float32") {
  const Scratch npz("", ".npz"), npy("", ".npy");
  const std::vector<NamedTensor> mixed = read_npz(kData + "stored.npz");
  write_tensor_file(npz.path, mixed);
  const std::vector<NamedTensor> back = read_npz(npz.path);
  REQUIRE(back.size() == mixed.size());
  for (size_t i = 0; i < mixed.size(); ++i) {
    INFO(mixed[i].name);
    CHECK(back[i].name == mixed[i].name);
    CHECK(back[i].tensor.dtype() == mixed[i].tensor.dtype());
    CHECK(back[i].tensor.dims() == mixed[i].tensor.dims());
    CHECK(back[i].tensor.to_doubles() == mixed[i].tensor.to_doubles());
  }
  const std::string once = bytes_of(npz.path);
  write_npz(npz.path, mixed);
  CHECK(bytes_of(npz.path) == once);  // the bytes are the same, because files contain no date
  write_tensor_file(npy.path, {{"b", find_tensor(mixed, "b_weight")->cast(DType::bf16)}});
  CHECK(read_npy(npy.path).dtype() == DType::f32);
  // In bf16 these multiples of 1/2 are exact.
  CHECK(read_npy(npy.path).to_doubles() == find_tensor(mixed, "b_weight")->to_doubles());
  // As in numpy's files, the array begins at a multiple of 64 bytes.
  CHECK((bytes_of(npy.path).size() - 24 * 4) % 64 == 0);
  expect_error(
      "E_FILE_TYPE", "holds one tensor", [&] { write_tensor_file(npy.path, mixed); }, Exit::usage);
  expect_error(
      "E_FILE_TYPE", "no extension", [&] { write_tensor_file("x.zip", mixed); }, Exit::usage);
}

TEST_CASE("names of safetensors are UTF-8") {
  const Scratch file("", ".safetensors");
  expect_error(
      "E_NAME_UTF8", "not UTF-8",
      [&] {
        write_safetensors(file.path, {{"a\xff", HostTensor::of<float>({1}, {1})}});
      },
      Exit::unsupported);
}
