// What was chosen once by timing, kept for every process on this machine that meets the same thing.
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

// name: of a file in $XDG_CACHE_HOME/onnx-amp-finetune (else ~/.cache), with GPU and library version in it. Where there
// is no such folder nothing outlives the process. Of two choices for one key the first stands.
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
