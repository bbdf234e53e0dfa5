// Bad files: each gets its exit code, its id and a message that says what is wrong.
#include <sys/stat.h>

#include "base/error.h"
#include "importer/wire.h"
#include "models.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("files that cannot be opened", "[load]") {
  const TempDir f;
  expect(import_error(f / "none.onnx"), Exit::usage, "E_MODEL_OPEN", "No such file");
  expect(import_error(f.path.string()), Exit::usage, "E_MODEL_OPEN", "directory");
}

TEST_CASE("files that are something else", "[load]") {
  const TempDir f;
  const auto kind = [&](const std::string& bytes, const std::string& id, const std::string& text) {
    write_bytes(f / "x.onnx", bytes);
    expect(import_error(f / "x.onnx"), Exit::model, id, text);
  };
  kind("", "E_ONNX_EMPTY", "empty");
  kind("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n", "E_ONNX_LFS", "git lfs pull");
  kind("<!DOCTYPE html><html><body>404</body></html>", "E_ONNX_NOT_PROTO", "HTML");
  kind("\n <html>", "E_ONNX_NOT_PROTO", "HTML");
  kind(std::string("PK\x03\x04\x14\0\0\0", 8), "E_ONNX_NOT_PROTO", "zip");
  kind(std::string("\x10\0\0\0\0\0\0\0{\"a\":{}}        ", 24), "E_ONNX_NOT_PROTO", "safetensors");
  kind("\x80\x04\x95 pickle", "E_ONNX_NOT_PROTO", "pickle");
  kind("{\"model\": 1}", "E_ONNX_NOT_PROTO", "JSON");
  kind(std::string("\x08\x08", 2), "E_ONNX_NOT_PROTO", "no ONNX graph");
}

TEST_CASE("a file cut at any offset is refused with the place", "[load]") {
  const TempDir f;
  const std::string whole = parse(kMlp).SerializeAsString();
  int truncated = 0;
  for (size_t n = 1; n < whole.size(); ++n) {
    write_bytes(f / "cut.onnx", whole.substr(0, n));
    try {
      import_model(f / "cut.onnx");
    } catch (const Error& e) {
      INFO(n << ": " << e.what());
      CHECK((e.exit() == Exit::model || e.exit() == Exit::unsupported));
      truncated += e.id() == "E_ONNX_TRUNCATED";
      continue;
    }
    // Only what comes behind graph and opset may be missing unnoticed.
    CHECK(n + 30 > whole.size());
  }
  CHECK(truncated > static_cast<int>(whole.size() / 2));
  write_bytes(f / "cut.onnx", whole.substr(0, 200));
  expect(import_error(f / "cut.onnx"), Exit::model, "E_ONNX_TRUNCATED", "graph[0].");
}

TEST_CASE("damaged bytes never crash", "[load]") {
  const TempDir f;
  const std::string whole = parse(kMlp).SerializeAsString();
  for (size_t n = 0; n < whole.size(); ++n) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string bad = whole;
      bad[n] = static_cast<char>(bad[n] ^ flip);
      write_bytes(f / "bad.onnx", bad);
      try {
        import_model(f / "bad.onnx");
      } catch (const Error& e) {
        CHECK(e.exit() != Exit::internal);
      }
    }
  }
}

TEST_CASE("wire faults are located", "[load]") {
  CHECK(scan_wire(std::string(11, '\xff')).kind == WireFault::malformed);
  CHECK(scan_wire("\x0f").kind == WireFault::malformed);  // wire type 7
  const WireFault cut =
      scan_wire(std::string("\x3a\x05\x12\x0a"
                            "ab",
                            6));  // graph of 5 bytes, name of 10
  CHECK(cut.kind != WireFault::none);
  CHECK(cut.path == "graph[0].name");
  std::string deep;  // graph{node{attribute{g{node{...
  const auto wrap = [&](char tag) {
    std::string field(1, tag);
    size_t n = deep.size();
    for (; n > 127; n >>= 7) field += static_cast<char>((n & 127) | 128);
    deep = field + static_cast<char>(n) + deep;
  };
  for (int i = 0; i < 40; ++i) wrap('\x32'), wrap('\x2a'), wrap('\x0a');
  wrap('\x3a');
  CHECK(scan_wire(deep).kind == WireFault::too_deep);
}

TEST_CASE("versions", "[load]") {
  const TempDir f;
  onnx::ModelProto m = parse(kMlp);
  m.mutable_opset_import(0)->set_version(99);
  expect(import_error(save(f, m)), Exit::unsupported, "E_OPSET", "7 to");
  m.mutable_opset_import(0)->set_version(6);
  expect(import_error(save(f, m)), Exit::unsupported, "E_OPSET", "opset 6");
  m.clear_opset_import();
  expect(import_error(save(f, m)), Exit::unsupported, "E_OPSET", "imports no version");
  m = parse(kMlp);
  *m.add_opset_import() = m.opset_import(0);
  expect(import_error(save(f, m)), Exit::unsupported, "E_OPSET", "twice");
  m = parse(kMlp);
  m.set_ir_version(1000);
  expect(import_error(save(f, m)), Exit::unsupported, "E_IR_VERSION", "1000");
}

TEST_CASE("tensors whose dims and bytes disagree are refused before anything is allocated", "[load]") {
  const TempDir f;
  const auto broken = [&](auto change, const std::string& id, Exit exit = Exit::model) {
    onnx::ModelProto m = parse(kMlp);
    change(*m.mutable_graph()->mutable_initializer(0));
    expect(import_error(save(f, m)), exit, id, "w0");
  };
  using T = onnx::TensorProto;
  broken([](T& t) { t.set_dims(0, int64_t{1} << 38); }, "E_TENSOR_SIZE");
  broken([](T& t) { t.set_dims(0, int64_t{1} << 62); }, "E_DIM_OVERFLOW");
  broken([](T& t) { t.set_dims(0, -1); }, "E_DIM_NEG");
  broken(
      [](T& t) {
        for (int i = 0; i < 100; ++i) t.add_dims(1);
      },
      "E_RANK");
  broken([](T& t) { t.set_raw_data("abcd"); }, "E_TENSOR_FIELDS");
  broken([](T& t) { t.add_int32_data(1); }, "E_TENSOR_FIELDS");
  broken([](T& t) { t.add_float_data(1); }, "E_TENSOR_SIZE");
  broken([](T& t) { t.clear_float_data(), t.set_raw_data(std::string(47, 'x')); }, "E_TENSOR_SIZE");
  broken([](T& t) { t.clear_float_data(), t.set_raw_data(std::string(52, 'x')); }, "E_TENSOR_SIZE");
  broken([](T& t) { t.set_data_type(9999); }, "E_TENSOR_TYPE");
  broken([](T& t) { t.set_data_type(T::FLOAT8E4M3FN); }, "E_TYPE", Exit::unsupported);
  broken([](T& t) { t.set_data_type(T::COMPLEX64); }, "E_TYPE", Exit::unsupported);
}

TEST_CASE("all typed fields are decoded", "[load]") {
  const TempDir f;
  const Imported m = import_text(f, R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N] x) => (float[N] y)
    <double[2] a = {1.5, -2}, int64[2] b = {-3, 4}, uint64[1] c = {5}, uint32[1] d = {6}, int32[1] e = {-7},
     int8[2] i8 = {-8, 9}, uint8[1] u8 = {255}, bool[2] t = {1, 0}, int16[1] i16 = {-300}, uint16[1] u16 = {65535}>
    { y = Relu (x) })");
  CHECK(value(m.graph, "a").data.to_doubles() == std::vector<double>{1.5, -2});
  CHECK(value(m.graph, "b").data.to_ints() == std::vector<int64_t>{-3, 4});
  CHECK(value(m.graph, "c").data.to_ints() == std::vector<int64_t>{5});
  CHECK(value(m.graph, "d").data.to_ints() == std::vector<int64_t>{6});
  CHECK(value(m.graph, "e").data.to_ints() == std::vector<int64_t>{-7});
  CHECK(value(m.graph, "i8").data.to_ints() == std::vector<int64_t>{-8, 9});
  CHECK(value(m.graph, "u8").data.to_ints() == std::vector<int64_t>{255});
  CHECK(value(m.graph, "t").data.to_ints() == std::vector<int64_t>{1, 0});
  CHECK(value(m.graph, "i16").data.to_ints() == std::vector<int64_t>{-300});
  CHECK(value(m.graph, "u16").data.to_ints() == std::vector<int64_t>{65535});
}

TEST_CASE("external data stays inside the model's folder", "[load]") {
  const TempDir f;
  const std::string bytes(48, '\x3f');
  write_bytes(f / "w.bin", "pad!" + bytes);
  const std::string outside_name = f.path.filename().string() + ".bin";  // other runs of this test may be under way
  write_bytes(f.path.parent_path() / outside_name, bytes);
  ::symlink("w.bin", (f / "link").c_str());
  ::mkdir((f / "real").c_str(), 0700);
  write_bytes(f / "real/w.bin", bytes);
  ::symlink("real", (f / "linked_folder").c_str());
  ::mkfifo((f / "pipe").c_str(), 0600);
  const auto with = [&](const std::string& location, const std::string& offset, const std::string& length) {
    onnx::ModelProto m = parse(kMlp);
    auto& t = *m.mutable_graph()->mutable_initializer(0);
    t.clear_float_data();
    t.set_data_location(onnx::TensorProto::EXTERNAL);
    const auto add = [&](const char* key, const std::string& v) {
      if (v == "-") return;
      auto& e = *t.add_external_data();
      e.set_key(key), e.set_value(v);
    };
    add("location", location), add("offset", offset), add("length", length);
    return save(f, m);
  };
  const auto refused = [&](const std::string& location, const std::string& id, const std::string& offset = "0",
                           const std::string& length = "48") {
    INFO(location << " " << offset << " " << length);
    expect(import_error(with(location, offset, length)), Exit::model, id, "w0");
  };
  CHECK(value(import_model(with("w.bin", "4", "48")).graph, "w0").data.numel() == 12);
  CHECK(value(import_model(with("./real/w.bin", "-", "-")).graph, "w0").data.numel() == 12);
  for (const std::string& path : std::vector<std::string>{"../" + outside_name, "real/../../" + outside_name,
                                                          "/etc/passwd", "C:\\x", "//host/x", "", "..", "real/"}) {
    refused(path, "E_EXT_PATH");
  }
  refused(std::string("w.bin\0x", 7), "E_EXT_PATH");
  refused("link", "E_EXT_KIND");
  refused("linked_folder/w.bin", "E_EXT_KIND");
  refused("pipe", "E_EXT_KIND");
  refused("real", "E_EXT_KIND");
  refused("none.bin", "E_EXT_MISSING");
  refused("w.bin", "E_EXT_RANGE", "-4");
  refused("w.bin", "E_EXT_RANGE", "four");
  refused("w.bin", "E_EXT_RANGE", "8");
  refused("w.bin", "E_EXT_RANGE", "18446744073709551615");
  refused("w.bin", "E_EXT_RANGE", "9223372036854775807");
  refused("w.bin", "E_EXT_RANGE", "0", "47");
  std::filesystem::remove(f.path.parent_path() / outside_name);
}
