// Fuzzes tensors outside the .onnx file. The input is a model. Its tensors may name any location; the model's folder
// holds a data file, a subfolder with another, links that stay inside and links that leave it, and a pipe. Files
// outside the folder must not be read: they have a mark that no tensor may contain.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "fuzz/fuzz.h"
#include "fuzz/memory_folder.h"
#include "importer/read/doc.h"
#include "importer/read/import.h"

namespace {

using namespace amp;

constexpr std::string_view kOutside = "content of a file outside";

void make_folder(fuzz::MemoryFolder& folder) {
  namespace fs = std::filesystem;
  std::string data(4096, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 + 1);
  std::string secret;
  while (secret.size() < data.size()) secret += kOutside;
  const std::string outside = folder.put("outside.bin", secret);
  folder.put("model/d", data);
  folder.put("model/s/d", data);
  const std::string inside = folder.path() + "/model/";
  fs::create_symlink("s/d", inside + "l");
  fs::create_symlink("../outside.bin", inside + "o");
  fs::create_symlink(outside, inside + "a");
  fs::create_directory_symlink("..", inside + "u");
  fs::create_symlink("loop", inside + "loop");
  fuzz::must(::mkfifo((inside + "p").c_str(), 0600) == 0, "a pipe cannot be made");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::MemoryFolder& folder = fuzz::memory_folder();
  static const bool made = (make_folder(folder), true);
  static_cast<void>(made);
  const std::string_view bytes = fuzz::text(data, size);
  if (bytes.find(kOutside) != std::string_view::npos) return 0;  // a tensor may be read from the model file itself
  return fuzz::accepts_or_refuses([&] {
    const Imported model = import_model(folder.put("model/model.onnx", bytes));
    for (const auto& [slot, tensor] : model.doc->external) {
      const std::string_view read(static_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.bytes()));
      fuzz::must(read.find(kOutside) == std::string_view::npos, "a tensor was read from outside the model's folder");
    }
  });
}
