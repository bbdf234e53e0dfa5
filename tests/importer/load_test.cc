// Tests that each bad file causes the right exit code and error id and a message that states the fault.
#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "importer/read/tensor_file.h"
#include "importer/read/wire.h"
#include "importer/write/export.h"
#include "models.h"
#include "run.h"
#include "tests/errors.h"
#include "tests/faults.h"
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
    // Only fields after graph and opset may be missing without an error.
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
  CHECK(scan_wire("\x0f").kind == WireFault::malformed);  // wire type 7 does not exist
  const WireFault cut =
      scan_wire(std::string("\x3a\x05\x12\x0a"
                            "ab",
                            6));  // a graph of 5 bytes that contains a name of 10 bytes
  CHECK(cut.kind != WireFault::none);
  CHECK(cut.path == "graph[0].name");
  std::string deep;  // nested messages: graph{node{attribute{g{node{...
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
  CHECK_NOTHROW(import_model(save(f, m)));  // onnxruntime uses the last entry if an operator set is imported twice
  m.mutable_opset_import(1)->set_version(99);
  expect(import_error(save(f, m)), Exit::unsupported, "E_OPSET", "opset 99");
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

TEST_CASE("a file of one tensor is read", "[load]") {
  const TempDir f;
  onnx::TensorProto t;
  t.set_data_type(onnx::TensorProto::FLOAT);
  t.add_dims(2);
  for (const float x : {1.f, 2.f}) t.add_float_data(x);
  const auto written = [&](const std::string& bytes) {
    std::ofstream(f / "t.pb", std::ios::binary) << bytes;
    return f / "t.pb";
  };
  CHECK(read_tensor_proto(written(t.SerializeAsString())).as<float>()[1] == 2);
  expect_error(
      "E_FILE_MISSING", "none.pb", [&] { read_tensor_proto(f / "none.pb"); }, Exit::usage);
  expect_error(
      "E_TENSOR_FILE", "no TensorProto", [&] { read_tensor_proto(written("\x0f")); }, Exit::model);
  t.set_data_type(onnx::TensorProto::COMPLEX64);
  expect_error(
      "E_TYPE", "COMPLEX64", [&] { read_tensor_proto(written(t.SerializeAsString())); }, Exit::unsupported);
}

TEST_CASE("external data that changes while it is read is refused", "[load]") {
  if (!Faults::available()) SKIP("sanitizers replace the functions that fail");
  const Faults faults(
      [](const FileCall& call) { return call.name == "pread" && call.path.ends_with("weights.bin") ? EIO : kPass; });
  expect_error(
      "E_EXT_CHANGED", "cannot be read: Input/output error",
      [] { import_model(kData + "store_external_hand17/model.onnx"); }, Exit::model);
}

TEST_CASE("external data stays inside the model's folder", "[load]") {
  const TempDir f;
  const std::string bytes(48, '\x3f');
  write_bytes(f / "w.bin", "pad!" + bytes);
  const std::string outside_name = f.path.filename().string() + ".bin";  // another run of this test may be active
  write_bytes(f.path.parent_path() / outside_name, bytes);
  std::filesystem::create_symlink("w.bin", f / "link");
  std::filesystem::create_symlink("../" + outside_name, f / "outward");
  std::filesystem::create_symlink("..", f / "up");
  ::mkdir((f / "real").c_str(), 0700);
  write_bytes(f / "real/w.bin", bytes);
  std::filesystem::create_symlink("real", f / "linked_folder");
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
  // allowed: a link to a file in the same folder.
  CHECK(value(import_model(with("link", "4", "48")).graph, "w0").data.numel() == 12);
  CHECK(value(import_model(with("linked_folder/w.bin", "-", "-")).graph, "w0").data.numel() == 12);
  refused("outward", "E_EXT_KIND");
  refused("up/" + outside_name, "E_EXT_KIND");
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

// The layout of huggingface_hub: files are links into blobs/, where names are hashes.
TEST_CASE("external data is found beside a link, then beside what it links to", "[load]") {
  namespace fs = std::filesystem;
  const TempDir f;
  onnx::ModelProto m = parse(kMlp);
  auto& t = *m.mutable_graph()->mutable_initializer(0);
  t.clear_float_data();
  t.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& e = *t.add_external_data();
  e.set_key("location"), e.set_value("m.onnx_data");
  fs::create_directories(f / "blobs");
  fs::create_directories(f / "snapshots/abc/onnx");
  fs::create_directories(f / "elsewhere");
  save(f, m, "blobs/aaa");
  write_bytes(f / "blobs/bbb", std::string(48, '\x3f'));
  fs::create_symlink("../../../blobs/aaa", f / "snapshots/abc/onnx/m.onnx");
  const auto loads = [](const std::string& path) {
    return value(import_model(path).graph, "w0").data.to_doubles()[0] > 0.7;  // bytes 0x3f3f3f3f: 0.747
  };
  expect(import_error(f / "snapshots/abc/onnx/m.onnx"), Exit::model, "E_EXT_MISSING", "blobs/m.onnx_data");
  fs::create_symlink("../../../blobs/bbb", f / "snapshots/abc/onnx/m.onnx_data");
  CHECK(loads(f / "snapshots/abc/onnx/m.onnx"));
  fs::create_symlink("../snapshots/abc/onnx/m.onnx", f / "elsewhere/chain.onnx");  // a link to the first link
  CHECK(loads(f / "elsewhere/chain.onnx"));
  fs::create_symlink(fs::absolute(f / "blobs/bbb"), f / "elsewhere/m.onnx_data");  // next to the link that is imported
  CHECK(loads(f / "elsewhere/chain.onnx"));
  // A model that is not a link must not read a file of another folder through a link next to it.
  save(f, m, "elsewhere/plain.onnx");
  expect(import_error(f / "elsewhere/plain.onnx"), Exit::model, "E_EXT_KIND", "symbolic link");
  // A model that is a link to another folder reads its data from there.
  fs::create_directories(f / "real");
  save(f, m, "real/m.onnx");
  fs::copy_file(f / "blobs/bbb", f / "real/m.onnx_data");
  fs::create_symlink("../real/m.onnx", f / "elsewhere/alone.onnx");
  fs::remove(f / "elsewhere/m.onnx_data");
  CHECK(loads(f / "elsewhere/alone.onnx"));
}

TEST_CASE("models of other frameworks are told by their content, with the way to ONNX", "[load]") {
  using namespace std::string_literals;
  const TempDir f;
  const auto kind = [&](const std::string& bytes, const std::string& what, const std::string& advice) {
    INFO(what);
    write_bytes(f / "x.onnx", bytes);
    const Error e = import_error(f / "x.onnx");
    expect(e, Exit::model, "E_ONNX_NOT_PROTO", what);
    INFO(e.hint());
    CHECK(e.hint().find(advice) != std::string::npos);
  };
  // Returns a zip archive of empty files: local headers, the central directory and its end record.
  const auto zip = [](const std::vector<std::string>& names) {
    const auto two = [](size_t n) { return std::string{static_cast<char>(n & 255), static_cast<char>(n >> 8)}; };
    std::string local, central;
    for (const std::string& n : names) {
      const std::string at = two(local.size()) + two(0);
      local += "PK\x03\x04" + std::string(22, '\0') + two(n.size()) + two(0) + n;
      central += "PK\x01\x02" + std::string(24, '\0') + two(n.size()) + std::string(12, '\0') + at + n;
    }
    const size_t count = names.size();
    return local + central + "PK\x05\x06" + std::string(4, '\0') + two(count) + two(count) + two(central.size()) +
           two(0) + two(local.size()) + two(0) + two(0);
  };
  kind(zip({"m/data.pkl", "m/data/0", "m/version"}), "PyTorch checkpoint", "torch.onnx.export");
  kind(zip({"m/data.pkl", "m/code/__torch__.py", "m/constants.pkl"}), "TorchScript", "torch.jit.load");
  kind(zip({"m/archive_format", "m/models/model.json"}), "torch.export", "torch.export.load");
  kind(zip({"metadata.json", "config.json", "model.weights.h5"}), "Keras", "export");
  kind(zip({"x.npy", "label.npy"}), ".npz", "`train`");
  kind(zip({"a/model.onnx"}), "zip archive with an .onnx", "unzip");
  kind("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M"s, "PyTorch checkpoint", "torch.onnx.export");
  kind("\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x1fsklearn.neural_network"s, "scikit-learn", "skl2onnx");
  kind("\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x1fsklearn.ensemble._forest"s, "scikit-learn", "trees");
  kind("\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x0fxgboost.sklearn"s, "XGBoost", "trees");
  kind("\x89HDF\r\n\x1a\n"s + std::string(64, '\0'), "HDF5", "--keras");
  kind("GGUF\x03\0\0\0"s, "GGUF", "convert");
  kind("\x1c\0\0\0TFL3\x14\0"s, "TensorFlow Lite", "--tflite");
  kind("\x1c\0\0\0ORTM\x14\0"s, ".ort", ".onnx");
  kind("ftrt\x01\0\0\0"s, "TensorRT", "built from");
  kind("<?xml version=\"1.0\"?>\n<net name=\"m\" version=\"11\">", "OpenVINO", "made from");
  kind("tree\nversion=v3\n", "LightGBM", "trees");
  kind("{\"learner\":{}}", "XGBoost", "trees");
  kind("{\"model_type\": \"bert\"}", "config.json", "convert");
  // Messages that protobuf reads as an ONNX model without a graph. Field 500: Core ML's neuralNetwork.
  kind("\x08\x04\x12\x03\x0a\x01y\xa2\x1f\x02\x08\x01"s, "Core ML", "made from");
  kind("\x08\x01\x12\x19\x0a\x17"s + "..serving_default......", "saved_model.pb", "--saved-model");
  // The fields that identify the kind of file may be after the part that is read, if large weights precede them.
  // long_weights: after the length of the field.
  const std::string weights(80'000, '\0'), long_weights = "\x80\xf1\x04" + weights;
  kind("\x08\x01\x12\x90\xf1\x04\x0a\x0f\x22\x05serve\x2a\x06" + "2.15.0\x12"s + long_weights, "saved_model.pb",
       "--saved-model");
  kind("\x08\x07\x12\x90\xf1\x04\x0a\x07\x0a\x01x\x1a\x02\x2a\x00\xa2\x06"s + long_weights, "Core ML", "made from");
  kind("\x0a\x8e\xf1\x04\x0a\x01w\x12\x05" + "Const*"s + long_weights, "TensorFlow graph", "--graphdef");
  kind("\x0a\x05" + "LeNet\xa2\x06"s + long_weights, "Caffe", "ONNX");
  kind("\x0a\x90\xf1\x04\x08\0\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1a"s + long_weights, "PaddlePaddle",
       "paddle2onnx");
  kind("\x12\x01\0\0\0\0\0\0\0\0\0\0"s, "MXNet", "export_model");
  kind("{\"nodes\": [], \"arg_nodes\": [0]}", "MXNet", "export_model");
  kind("\0\0\0\0\x02\0\0\0\x05\0\0\0"s + weights, "Darknet", "weights");
  kind("\x04\0\0\0\x01\0\0\0\x03\0\0\0V 1\x0d"s, "Lua Torch", "made from");
  kind("RKNN\0\0\0\0"s, "Rockchip", "made from");
  kind(
      "\x81\xa6params\x81\xa5"
      "Dense\x81\xa6kernel\xc7\x10\x01"s +
          weights,
      "Flax", "made from");
  kind(weights + "\x57\xfb\x80\x8b\x24\x75\x47\xdb"s, "TensorFlow checkpoint", "--checkpoint");
  kind("{\"format\": \"layers-model\", \"modelTopology\": {}}", "TensorFlow.js", "--tfjs");
  kind("{\"class_name\": \"Sequential\", \"config\": {}}", "Keras", "model.export");
  kind("{\"metadata\": {}, \"weight_map\": {}}", "safetensors", "convert FOLDER");
  kind(std::string("\x10\0\0\0\0\0\0\0{\"a\":{}}        ", 24), "safetensors", "convert FOLDER");
}

TEST_CASE("an operator set that is imported again counts as its last entry says", "[load]") {
  const TempDir f;
  // With axis 1, Softmax runs over the last two axes before opset 13, and only over axis 1 since opset 13. The
  // expected numbers are those of onnxruntime 1.32.
  const auto first = [&](const std::vector<std::pair<std::string, int64_t>>& sets) {
    onnx::ModelProto m = parse(R"(<ir_version: 8, opset_import: ["" : 13]>
      g (float[2,2,2] x) => (float[2,2,2] y) { y = Softmax <axis = 1> (x) })");
    m.clear_opset_import();
    for (const auto& [domain, version] : sets) {
      auto& o = *m.add_opset_import();
      o.set_domain(domain), o.set_version(version);
    }
    const Imported i = import_model(save(f, m));
    const HostTensor y = run(i.graph, {{"x", floats({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7})}}).out.at("y");
    export_model(*i.doc, i.graph, {}, {}, f / "out.onnx");
    CHECK(bytes_of(f / "out.onnx") == m.SerializeAsString());
    return y.to_doubles()[0];
  };
  const double flat = 0.0320586, by_axis = 0.1192029;
  CHECK(std::abs(first({{"", 13}, {"", 13}}) - by_axis) < 1e-6);
  CHECK(std::abs(first({{"", 11}, {"", 13}}) - by_axis) < 1e-6);
  CHECK(std::abs(first({{"", 13}, {"", 11}}) - flat) < 1e-6);
  CHECK(std::abs(first({{"", 13}, {"ai.onnx", 11}}) - flat) < 1e-6);
}
