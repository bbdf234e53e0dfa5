#include "base/error.h"

namespace amp {

Error::Error(Exit exit, std::string id, std::string fact, std::string hint)
    : exit_(exit), id_(std::move(id)), fact_(std::move(fact)), hint_(std::move(hint)) {
  render();
}

Error& Error::at(std::string where) {
  where_.push_back(std::move(where));
  render();
  return *this;
}

void Error::render() {
  text_ = fact_;
  for (const auto& w : where_) text_ += "\n  " + w;
  if (!hint_.empty()) text_ += "\n  hint: " + hint_;
}

void fail(Exit exit, std::string id, std::string fact, std::string hint) {
  throw Error(exit, std::move(id), std::move(fact), std::move(hint));
}

void bug(std::string fact) {
  throw Error(Exit::internal, "E_INTERNAL", std::move(fact), "this is a bug of onnx-amp-finetune: please report it");
}

}  // namespace amp
