// Weights of classes that the user gives by name, or leaves to the training labels.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "data/dataset.h"
#include "trainer/losses/losses.h"

namespace amp {

// class_weights=NAME=2:NAME=0.5: becomes a number for each of the run's classes, 1 where none is given.
// E_LOSS for a name that is none of the classes, or where the classes have no names.
void name_class_weights(Losses& losses, const std::vector<std::string>& classes);

// class_weights=balanced: scikit-learn's labels / (classes * labels of the class), counted over `train`; classes
// without labels weigh 1. classes: their number; names may be empty. E_LOSS where the labels are no class ids.
void balance_class_weights(Losses& losses, const Dataset& train, int64_t classes, const std::vector<std::string>& names,
                           const Log& log);

}  // namespace amp
