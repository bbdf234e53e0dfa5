// Computes the outputs of a model file on the CPU, for tests of models that are built.
#pragma once

#include "importer/read/import.h"
#include "trainer/compile/session.h"

namespace amp::test {

inline Tensors outputs_of(const Imported& m, const Tensors& batch) {
  SessionOptions o;
  o.device = &cpu_device();
  Session session(m.graph, o);
  return session.forward(m.graph.outputs, batch);
}

}  // namespace amp::test
