// Small encoders that could mislead padding removal, and encoders that must be packed. They vary masks, operations
// between tokens, heads, losses and batches, one at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/compile/session.h"

namespace amp::test {

// A batch of 4 sequences. length: padded length. lengths: number of tokens of each sequence. step: number of the batch.
struct CaseBatch {
  int64_t length = 9;
  std::vector<int64_t> lengths;
  int step = 0;
};

struct PaddingCase {
  std::string name, text, scales;  // tests/trainer/small_run.h
  LossSpec loss;
  std::function<Tensors(const CaseBatch&)> batch;
  SessionOptions options;
  // Which batches with padding are packed: all must be, none may be, or any.
  enum { all, none, some } packed = some;
};

std::vector<PaddingCase> padding_cases();

}  // namespace amp::test
