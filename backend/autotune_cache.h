// A cache of choices between implementations (such as the algorithms of a library) that were made by timing them,
// shared by all processes on this machine.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace amp {

class AutotuneStore {
 public:
  virtual ~AutotuneStore() = default;
  virtual std::optional<std::string> find(const std::string& key) = 0;
  virtual void keep(const std::string& key, const std::string& choice) = 0;
};

// An AutotuneStore in a file. `name` is the file's name in $XDG_CACHE_HOME/onnx-amp-finetune (or ~/.cache) and includes
// the GPU and the library version. If there is no such folder, the choices are kept only for this process. If several
// choices are stored for a key, the first one is used.
class AutotuneCache final : public AutotuneStore {
 public:
  explicit AutotuneCache(std::string name);
  std::optional<std::string> find(const std::string& key) override;
  void keep(const std::string& key, const std::string& choice) override;

 private:
  void load();
  std::string path_;
  std::map<std::string, std::string> known_;
};

}  // namespace amp
