// com.microsoft CDist: the distances of each row of a (M, N) to each row of b (K, N), as scipy.spatial.distance.cdist.
// Differences are squared and summed, so that equal rows have exactly the distance 0. The formula |a|^2 + |b|^2 - 2 a b
// would suffer from cancellation.
#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/term.h"

namespace amp {
namespace {

void lower_cdist(Lowering& l) {
  Builder& b = l.b;
  const Dims x = l.dims(0), y = l.dims(1);
  if (x[1] != y[1])
    fail(Exit::model, "E_SHAPE",
         cat("CDist of ", to_string(x), " and ", to_string(y), ": different numbers of columns"));
  const std::string metric = l.attrs.s("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean") l.unsupported(cat("metric ", metric));
  const Term difference = Term(b, b.reshape(l.in(0), {x[0], 1, x[1]})) - Term(b, b.reshape(l.in(1), {1, y[0], y[1]}));
  const Term squares = (difference * difference).sum({2}).shaped({x[0], y[0]});
  if (metric == "sqeuclidean") {
    l.out(0, squares);
    return;
  }
  // The root's derivative at 0 is infinite. Equal rows get the gradient 0 instead, as in PyTorch's cdist.
  const Term equal = squares == 0;
  l.out(0, where(equal, squares.like(0), where(equal, squares.like(1), squares).to("Sqrt")));
}

const RegisterOnnx cdist_onnx{{"CDist", lower_cdist, 1, "com.microsoft"}};

}  // namespace
}  // namespace amp
