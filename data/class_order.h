// Assigns classes to the outputs of a model. No other code gives ids to class labels.
//
// The first rule that applies is used:
//   1. names given by the user (setting `labels`), or those of the resumed run
//   2. names that the model's file, or a file next to it, gives to the outputs of a head that is kept
//   3. labels that are whole numbers ("3", "03", "3.0", "LABEL_3") below the head's number of outputs are class ids. If
//      the labels are all of 1 to N for a head of N outputs, each label is its class id plus 1; this adds a warning
//   4. natural order of the data's labels: for new heads, and with a warning for a trained head without names
// A trained head keeps its number of outputs. The data may contain only some of its classes; unknown labels are an
// error.
#pragma once

#include <string>
#include <vector>

#include "data/class_names.h"

namespace amp {

struct KnownClasses {
  std::string source;  // where the names come from: "id2label of 'config.json'"
  std::vector<std::string> names;
};

struct ClassEvidence {
  std::vector<std::string> labels = {};  // distinct labels of the data; empty: no labels
  bool ordered = false;   // the order of the classes has a meaning: text labels need an order from the user
  bool numbered = false;  // `labels` are already in the order of the data's own files (CIFAR, IDX)
  std::vector<std::string> asked = {};   // class names from the setting `labels`
  KnownClasses resumed = {};             // class names of the resumed run
  std::vector<KnownClasses> known = {};  // class names in the model's files, most reliable first
  int64_t head = 0;                      // number of outputs of the model's head; 0: new head, or unknown
  bool new_head = false;                 // the head's weights are new, so any order of the classes is right
  bool spare_outputs = false;            // a head with new weights may have more outputs than the data have classes
  int64_t new_size = 0;                  // requested size of a new head; 0: one class per label
  bool may_guess = true;                 // false: text labels for a trained head without class names are an error
};

struct ClassOrder {
  ClassNames classes;
  std::string source;                 // where the order comes from, for messages and run.json
  std::vector<std::string> notes;     // labels that were matched by number or spelling, and harmless assumptions
  std::vector<std::string> warnings;  // assumptions that are probably wrong
};

// Returns the class of each output by the rules above. Throws E_LABELS (Exit::usage) if `asked` does not fit the head
// or the order cannot be found. Throws E_NUM_LABELS (Exit::usage) if the data have other classes than the head.
ClassOrder order_classes(const ClassEvidence& evidence);

// Formats the order for a note, such as "12, whole numbers as ids: 0 to 11" or "3, id2label of 'config.json':
// 0=entailment, 1=neutral, 2=contradiction".
std::string describe(const ClassOrder& order);

}  // namespace amp
