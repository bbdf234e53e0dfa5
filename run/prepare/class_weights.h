// Class weights that the user gives by class name, or that are computed from the training labels.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "data/dataset.h"
#include "trainer/losses/losses.h"

namespace amp {

// Replaces class_weights=NAME=2:NAME=0.5 by one number per class of the run; classes without a number get 1.
// E_LOSS if a name is not a class, or if the classes have no names.
void name_class_weights(Losses& losses, const std::vector<std::string>& classes);

// Resolves class_weights=balanced as scikit-learn does: labels / (classes * labels of the class), where "labels" are
// numbers of labels in `train`. Classes without labels get weight 1. `classes` is the number of classes; `names` may be
// empty. E_LOSS if the labels are not class ids.
void balance_class_weights(Losses& losses, const Dataset& train, int64_t classes, const std::vector<std::string>& names,
                           const Log& log);

}  // namespace amp
