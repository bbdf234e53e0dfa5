#include "graph/node_fault.h"

#include <new>

namespace amp {

static Error refused(std::string_view op, std::string_view check) {
  return Error(Exit::unsupported, "E_OP_CASE", cat(op, ": a check of this program failed: ", check),
               "is the model well-formed (onnx.checker)? If an inference engine runs it, please report this as a bug");
}

Error node_fault(std::string_view op) {
  try {
    throw;
  } catch (const Error& e) {
    return e.exit() == Exit::internal ? refused(op, e.fact()) : e;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    return refused(op, e.what());
  }
}

}  // namespace amp
