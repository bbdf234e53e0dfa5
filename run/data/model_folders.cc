#include "run/data/model_folders.h"

#include <filesystem>
#include <system_error>

#include "base/fs.h"

namespace amp {

namespace {
namespace fs = std::filesystem;
}

std::vector<std::string> folders_of_model(const std::string& model) {
  const fs::path folder = is_dir(model) ? fs::path(model) : fs::path(model).parent_path();
  std::vector<std::string> out{folder.string()};
  std::error_code error;
  const fs::path whole = fs::absolute(folder.empty() ? fs::path(".") : folder, error).lexically_normal();
  const fs::path last = whole.has_filename() ? whole.filename() : whole.parent_path().filename();
  if (last == "onnx") out.push_back(folder.empty() ? ".." : folder.parent_path().string());
  return out;
}

}  // namespace amp
