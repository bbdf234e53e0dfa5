// Configures the tiles of a tile unit (isa_kernels.h) for the calling thread within a scope, if wanted.
#pragma once

#include "backend/cpu/isa_kernels.h"

namespace amp::cpu {

class TileScope {
 public:
  explicit TileScope(bool wanted) : unit_(wanted ? isa_kernels().tiles : nullptr) {
    if (unit_) unit_->begin();
  }
  ~TileScope() {
    if (unit_) unit_->end();
  }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  const TileUnit* unit_;
};

}  // namespace amp::cpu
