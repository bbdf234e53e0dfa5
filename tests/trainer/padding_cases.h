// Small encoders that are made to fool padding removal, and those that must not be refused: masks, what happens between
// tokens, heads, losses and batches, each in turn with the others plain.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/compile/session.h"

namespace amp::test {

// A batch of 4 sequences: what stands at place s of sequence b, lengths[b] tokens being there.
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
  // Of the batches with padding: all of them are to be packed, none may be, or those that can.
  enum { all, none, some } packed = some;
};

std::vector<PaddingCase> padding_cases();

}  // namespace amp::test
