// Models of the zoo with large weights replaced by constants: tests/data/precision/make_pytorch_autocast.py.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/npz.h"
#include "importer/import.h"

namespace amp {

inline std::vector<NamedTensor> stripped_models() { return read_npz(TEST_DATA "/precision/pytorch_autocast.npz"); }

inline SourceGraph stripped_model(const NamedTensor& bytes) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("stripped_" + std::to_string(::getpid()) + bytes.name + ".onnx");
  std::ofstream(path, std::ios::binary)
      .write(static_cast<const char*>(bytes.tensor.data()), static_cast<std::streamsize>(bytes.tensor.bytes()));
  SourceGraph g = import_model(path.string()).graph;
  std::filesystem::remove(path);
  return g;
}

}  // namespace amp
