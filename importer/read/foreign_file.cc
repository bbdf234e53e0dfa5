// Recognizes files of other frameworks by their signatures. Sources: PyTorch's serialization notes (zip archives with
// data.pkl, code/ for TorchScript, the pickled magic number of files before 1.6), the flatbuffers identifiers of
// TensorFlow Lite, ONNX Runtime and ExecuTorch, the specifications of GGUF and HDF5, TensorRT's plan header, and the
// magic numbers in the sources of MXNet, Darknet, Lua Torch and TensorFlow's tables. Protobuf: foreign_protobuf.h.
#include "importer/read/foreign_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/cat.h"
#include "base/io.h"
#include "base/text.h"
#include "importer/read/foreign_protobuf.h"

namespace amp {
namespace {

constexpr int64_t kHead = 64 << 10;

const char* const kGiveOnnx = "give the .onnx file itself; other formats must be exported to ONNX first";

std::string read_at(int fd, int64_t offset, int64_t size) {
  std::string out(static_cast<size_t>(std::max<int64_t>(size, 0)), '\0');
  out.resize(static_cast<size_t>(std::max<int64_t>(0, read_fully_at(fd, out.data(), size, offset))));
  return out;
}

uint64_t little(std::string_view bytes, size_t at, size_t size) {
  uint64_t v = 0;
  for (size_t i = size; i-- > 0;) v = v << 8 | (at + i < bytes.size() ? static_cast<uint8_t>(bytes[at + i]) : 0);
  return v;
}

// Returns the path as a quoted argument of a command.
std::string word(const std::string& path) { return cat("'", printable(path), "'"); }

ForeignFile trees(const std::string& library) {
  return {cat("a model of ", library), "decision trees have no gradients and cannot be trained by gradient descent",
          true};
}

ForeignFile of_zip(const std::string& path, const std::vector<std::string>& entries) {
  const auto any = [&](const auto& test) { return std::any_of(entries.begin(), entries.end(), test); };
  const auto ends = [&](std::string_view end) { return any([&](const std::string& e) { return e.ends_with(end); }); };
  const auto holds = [&](std::string_view part) {
    return any([&](const std::string& e) { return e.find(part) != std::string::npos; });
  };
  if (ends("model.weights.h5"))
    return {"a Keras model",
            cat("load it in Python and export it: keras.saving.load_model(", word(path),
                ").export('model.onnx', format='onnx')"),
            true};
  if (holds("/code/") || ends("constants.pkl"))
    return {"a TorchScript archive",
            cat("export it: torch.onnx.export(torch.jit.load(", word(path), "), inputs, 'model.onnx', dynamo=False)"),
            true};
  if (holds("archive_format") || ends("serialized_exported_program.json"))
    return {"a program of torch.export",
            cat("export it: torch.onnx.export(torch.export.load(", word(path), "), f='model.onnx', dynamo=True)"),
            true};
  if (ends("data.pkl"))
    return {"a PyTorch checkpoint (a zip archive)",
            "build its module in Python, load these weights and call torch.onnx.export; of a Hugging Face folder with "
            ".safetensors, `onnx-amp-finetune convert FOLDER --out model.onnx` makes a model",
            true};
  if (ends(".npy")) return {"an .npz file of arrays (a zip archive)", "data belong to `train`, `val` or `inputs`"};
  if (ends("Manifest.json") || ends("model.mlmodel"))
    return {"a Core ML package (a zip archive)", "export the model that it was made from to ONNX", true};
  if (ends("saved_model.pb"))
    return {"a TensorFlow SavedModel (a zip archive)",
            "unpack it; `python -m tf2onnx.convert --saved-model FOLDER --output model.onnx` converts it", true};
  if (ends(".onnx")) return {"a zip archive with an .onnx file in it", cat("unpack it: unzip ", word(path)), true};
  return {"a zip archive", kGiveOnnx};
}

std::optional<ForeignFile> of_text(std::string_view head) {
  std::string text(head.substr(0, 4096));
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return c < 128 ? std::tolower(c) : c; });
  const size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string::npos) return std::nullopt;
  const std::string_view body = std::string_view(text).substr(first);
  const auto starts = [&](std::string_view s) { return body.substr(0, s.size()) == s; };
  const auto holds = [&](std::string_view s) { return body.find(s) != std::string_view::npos; };
  if (starts("<!doctype html") || starts("<html"))
    return ForeignFile{"an HTML page", "a download that needs a login or ended at an error page looks so"};
  if (holds("<net ") && (starts("<?xml") || starts("<net")))
    return ForeignFile{"an OpenVINO model",
                       "export the model that it was made from to ONNX: the way back does not exist", true};
  if (holds("<pmml")) return ForeignFile{"a PMML file", "export the model that it was made from to ONNX", true};
  if (starts("<?xml") || starts("<!doctype")) return ForeignFile{"an XML file", kGiveOnnx};
  const std::string_view line = std::string_view(text).substr(0, 512);
  if (!std::all_of(line.begin(), line.end(),
                   [](unsigned char c) { return c >= 0x20 || (c != 0 && std::strchr("\n\r\t", c)); }))
    return std::nullopt;
  if (starts("tree\n") || starts("tree\r")) return trees("LightGBM");
  if (starts("{\"learner\"")) return trees("XGBoost");
  if (starts("{") && holds("\"weight_map\""))
    return ForeignFile{"the index of a checkpoint in several .safetensors files",
                       "name its folder: `onnx-amp-finetune convert FOLDER --out model.onnx` makes a model of it",
                       true};
  if (starts("{") && (holds("\"modeltopology\"") || holds("\"weightsmanifest\"")))
    return ForeignFile{"a TensorFlow.js model",
                       "`python -m tf2onnx.convert --tfjs FILE --output model.onnx` converts it", true};
  if (starts("{") && holds("\"arg_nodes\""))
    return ForeignFile{"a graph of MXNet", "export it with its weights: mxnet.onnx.export_model()", true};
  if (starts("{") && (holds("\"keras_version\"") || (holds("\"class_name\"") && holds("\"config\""))))
    return ForeignFile{"the architecture of a Keras model, without weights",
                       "load it with its weights in Python, then model.export('model.onnx', format='onnx')", true};
  if (starts("{\"base_code\"") || (starts("{") && holds("\"pir\"")))
    return ForeignFile{"a PaddlePaddle model",
                       "`paddle2onnx --model_dir FOLDER --model_filename inference.json --params_filename "
                       "inference.pdiparams --save_file model.onnx` converts it",
                       true};
  if (starts("7767517")) return ForeignFile{"an ncnn model", "export the model that it was made from to ONNX", true};
  if (starts("[net]") || starts("[convolutional]"))
    return ForeignFile{"a Darknet configuration", "export the model with its weights to ONNX", true};
  if (starts("name:") && holds("layer"))
    return ForeignFile{"a Caffe model", "export the model with its weights to ONNX", true};
  if (starts("{") && holds("\"model_type\""))
    return ForeignFile{"the config.json of a checkpoint",
                       "name its folder: `onnx-amp-finetune convert FOLDER --out model.onnx` makes a model of it",
                       true};
  return ForeignFile{body[0] == '{' ? "a JSON text" : "a text file", kGiveOnnx};
}

std::optional<ForeignFile> of_pickle(const std::string& path, std::string_view head) {
  if (head.size() < 2 || head[0] != '\x80' || head[1] < 2 || head[1] > 5) return std::nullopt;
  const auto holds = [&](std::string_view part) { return head.find(part) != std::string_view::npos; };
  const std::string_view magic("\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", 13);
  if (head.substr(2, magic.size()) == magic || holds("torch._utils"))
    return ForeignFile{"a PyTorch checkpoint (a Python pickle)",
                       "build its module in Python, load these weights and call torch.onnx.export", true};
  if (holds("lightgbm")) return trees("LightGBM (a Python pickle)");
  if (holds("xgboost")) return trees("XGBoost (a Python pickle)");
  if (holds("catboost")) return trees("CatBoost (a Python pickle)");
  if (holds("sklearn.ensemble") || holds("sklearn.tree")) return trees("scikit-learn (a Python pickle)");
  if (holds("sklearn"))
    return ForeignFile{
        "a model of scikit-learn (a Python pickle)",
        cat("convert it: skl2onnx.to_onnx(joblib.load(", word(path), "), X[:1], options={'zipmap': False})"), true};
  return ForeignFile{"a Python pickle", "load it in Python and export the model to ONNX", true};
}

struct MagicBytes {
  size_t at;
  std::string_view bytes;
  const char* kind;
  const char* advice;
  bool is_model;
};

const char* const kMadeFrom = "export the model that it was made from to ONNX";
const char* const kWithGraph = "export the model with its weights to ONNX";
const char* const kUnpack = "unpack it";
const char* const kTable = "tables belong to `train`, `val` or `inputs`";

const std::vector<MagicBytes>& signatures() {
  using namespace std::string_view_literals;
  static const std::vector<MagicBytes> all = {
      {0, "\x1f\x8b"sv, "a gzip file", "unpack it with gunzip", false},
      {0,
       "\xfd"
       "7zXZ"sv,
       "an xz file", kUnpack, false},
      {0, "\x28\xb5\x2f\xfd"sv, "a zstd file", kUnpack, false},
      {0, "BZh"sv, "a bzip2 file", kUnpack, false},
      {0, "7z\xbc\xaf"sv, "a 7z archive", kUnpack, false},
      {257, "ustar"sv, "a tar archive", "unpack it with tar -xf", false},
      {0, "\x93NUMPY"sv, "a NumPy array", "data belong to `train`, `val` or `inputs`", false},
      {0, "PAR1"sv, "a Parquet file", kTable, false},
      {0, "ARROW1"sv, "an Arrow file", kTable, false},
      {0, "SQLite format 3"sv, "an SQLite database", kTable, false},
      {0, "GGUF"sv, "a GGUF file (llama.cpp)",
       "its weights are quantized for inference: train the checkpoint that it was made from, `onnx-amp-finetune "
       "convert "
       "FOLDER --out model.onnx`",
       true},
      {0, "\x12\x01\0\0\0\0\0\0"sv, "weights of MXNet", "export them with their graph: mxnet.onnx.export_model()",
       true},
      {0, "\0\0\0\0\x01\0\0\0"sv, "weights of Darknet", kWithGraph, true},
      {0, "\0\0\0\0\x02\0\0\0"sv, "weights of Darknet", kWithGraph, true},
      {0, "\x04\0\0\0\x01\0\0\0\x03\0\0\0V 1"sv, "a model of Lua Torch", kMadeFrom, true},
      {0, "RKNN"sv, "a model for Rockchip's NPUs", kMadeFrom, true},
      {0, "lmgg"sv, "a ggml file", kMadeFrom, true},
      {0, "tjgg"sv, "a ggml file", kMadeFrom, true},
      {4, "TFL3"sv, "a TensorFlow Lite model",
       "`python -m tf2onnx.convert --tflite FILE --output model.onnx` converts it; the Keras model that it was made "
       "from "
       "trains better",
       true},
      {4, "ORTM"sv, "a model in onnxruntime's own format (.ort)", "give the .onnx file that it was made from", true},
      {4, "ET12"sv, "an ExecuTorch program", kMadeFrom, true},
      {4, "ET13"sv, "an ExecuTorch program", kMadeFrom, true},
      {0, "ftrt"sv, "a TensorRT engine", "give the .onnx file that it was built from", true},
      {0, "ptrt"sv, "a TensorRT engine", "give the .onnx file that it was built from", true},
      {0, "CBM1"sv, "a model of CatBoost", "decision trees have no gradients and cannot be trained by gradient descent",
       true},
      {0, "binf"sv, "a model of XGBoost", "decision trees have no gradients and cannot be trained by gradient descent",
       true},
      {0, "{L\0\0\0\0\0\0\0\x07learner"sv, "a model of XGBoost",
       "decision trees have no gradients and cannot be trained by gradient descent", true},
      {0, "MATLAB 5.0"sv, "a MATLAB file", "export the network with exportONNXNetwork", false},
      {0,
       "\x7f"
       "ELF"sv,
       "a program", kGiveOnnx, false},
      {0, "%PDF"sv, "a PDF document", kGiveOnnx, false},
      {0, "\x89PNG"sv, "a PNG image", "images belong to `train`, `val` or `inputs`", false},
      {0, "\xff\xd8\xff"sv, "a JPEG image", "images belong to `train`, `val` or `inputs`", false},
  };
  return all;
}

}  // namespace

std::optional<ForeignFile> recognize(const std::string& path, std::string_view head,
                                     const std::vector<std::string>& entries) {
  const auto starts = [&](std::string_view magic) { return head.substr(0, magic.size()) == magic; };
  if (starts("version https://git-lfs")) return ForeignFile{"a Git LFS pointer", "run `git lfs pull`", true};
  if (starts("PK\x03\x04")) return of_zip(path, entries);
  if (starts("\x89HDF"))
    return ForeignFile{"an HDF5 file (Keras saves models so)",
                       cat("`python -m tf2onnx.convert --keras ", word(path),
                           " --output model.onnx` converts a whole model; for weights alone, build the model in Keras, "
                           "load them, and call model.export('model.onnx', format='onnx')"),
                       true};
  for (const MagicBytes& s : signatures()) {
    if (head.size() < s.at + s.bytes.size() || head.substr(s.at, s.bytes.size()) != s.bytes) continue;
    return ForeignFile{s.kind, s.advice, s.is_model};
  }
  if (auto found = of_pickle(path, head)) return found;
  // A msgpack map whose first key is a short string.
  if (head.size() > 2 && (head[0] & 0xf0) == 0x80 && (head[1] & 0xe0) == 0xa0 &&
      (head.find("\xa6kernel") != std::string_view::npos || head.find("\xa6params") != std::string_view::npos))
    return ForeignFile{"a Flax checkpoint (msgpack)", kMadeFrom, true};
  if (head.size() > 9 && head[8] == '{' && little(head, 0, 8) > 1 && little(head, 0, 8) < (uint64_t{1} << 32)) {
    return ForeignFile{
        "a safetensors file",
        "it holds weights and no graph: `onnx-amp-finetune convert FOLDER --out model.onnx` makes a model "
        "of a Hugging Face folder, config.json and this file",
        true};
  }
  if (auto found = of_text(head)) return found;
  return recognize_protobuf(head);
}

std::vector<std::string> zip_entries(int fd, int64_t size) {
  constexpr int64_t kTail = 66 << 10, kDirectory = 8 << 20;
  const int64_t from = std::max<int64_t>(0, size - kTail);
  const std::string tail = read_at(fd, from, size - from);
  const size_t end = tail.rfind("PK\x05\x06");
  if (end == std::string::npos) return {};
  uint64_t length = little(tail, end + 12, 4), offset = little(tail, end + 16, 4);
  if (offset == 0xffffffff) {  // zip64: a separate end record precedes this one
    const size_t wide = tail.rfind("PK\x06\x06", end);
    if (wide == std::string::npos) return {};
    length = little(tail, wide + 40, 8);
    offset = little(tail, wide + 48, 8);
  }
  if (offset > static_cast<uint64_t>(size)) return {};
  const std::string list =
      read_at(fd, static_cast<int64_t>(offset), static_cast<int64_t>(std::min<uint64_t>(length, kDirectory)));
  std::vector<std::string> out;
  for (size_t at = 0; at + 46 <= list.size() && list.compare(at, 4, "PK\x01\x02") == 0;) {
    const size_t name = little(list, at + 28, 2), more = little(list, at + 30, 2) + little(list, at + 32, 2);
    out.push_back(list.substr(at + 46, name));
    at += 46 + name + more;
  }
  return out;
}

std::optional<ForeignFile> recognize_file(const std::string& path, int fd, int64_t size) {
  const std::string head = read_at(fd, 0, std::min(size, kHead));
  constexpr std::string_view kTableEnd("\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8);  // magic number of LevelDB's tables
  if (size > 8 && read_at(fd, size - 8, 8) == kTableEnd)
    return ForeignFile{"the index of a TensorFlow checkpoint",
                       "`python -m tf2onnx.convert --checkpoint NAME.meta --inputs NAME:0 --outputs NAME:0 --output "
                       "model.onnx` converts the checkpoint",
                       true};
  return recognize(path, head, head.substr(0, 2) == "PK" ? zip_entries(fd, size) : std::vector<std::string>());
}

std::optional<ForeignFile> recognize_file(const std::string& path) {
  const int fd = open_file(path.c_str(), O_RDONLY | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  struct stat st;
  std::optional<ForeignFile> out;
  if (::fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) out = recognize_file(path, fd, st.st_size);
  ::close(fd);
  return out;
}

}  // namespace amp
