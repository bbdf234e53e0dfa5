// Models of the zoo with large weights replaced by constants: tests/data/precision/make_pytorch_autocast.py.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/npz.h"
#include "importer/read/import.h"
#include "tests/support.h"

namespace amp {

inline std::vector<NamedTensor> stripped_models() {
  return read_npz(test::test_data("precision/pytorch_autocast.npz"));
}

inline SourceGraph stripped_model(const NamedTensor& bytes) {
  const test::TempDir folder;
  const std::string path = folder / "model.onnx";
  std::ofstream(path, std::ios::binary)
      .write(static_cast<const char*>(bytes.tensor.data()), static_cast<std::streamsize>(bytes.tensor.bytes()));
  return import_model(path).graph;
}

}  // namespace amp
