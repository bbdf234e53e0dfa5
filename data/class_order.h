// Decides which class is which output of a model: the one place where class ids are given to labels.
//
// The first that applies:
//   1. names that were asked for (labels), or those of the run that goes on
//   2. names that the model's file or the files beside it give to the head that stays
//   3. whole numbers ("3", "03", "3.0", "LABEL_3") below the head's size are ids; 1 to N of a head of N are counted
//      from one, which is said
//   4. natural order of the data's labels: for new heads, and with a warning for a trained head without names
// A trained head keeps its size; data with some of its classes are fine, and labels that it does not know are refused.
#pragma once

#include <string>
#include <vector>

#include "data/class_names.h"

namespace amp {

struct KnownClasses {
  std::string source;  // "id2label of 'config.json'"
  std::vector<std::string> names;
};

struct ClassEvidence {
  std::vector<std::string> labels = {};  // distinct ones of the data; empty: the data have none
  bool numbered = false;                 // `labels` are in an order that the data's own files give (CIFAR, IDX)
  std::vector<std::string> asked = {};   // by the setting `labels`
  KnownClasses resumed = {};             // of the run that goes on
  std::vector<KnownClasses> known = {};  // of the model, what counts most first
  int64_t head = 0;                      // classes of the head that stays; 0: a new head, or not known
  bool new_head = false;                 // the head's weights are new: any order is right
  bool spare_outputs = false;            // a head with new weights may be larger than the data's classes
  int64_t new_size = 0;                  // of a new head by request; 0: as many as there are labels
  bool may_guess = true;                 // false: a trained head without names and labels that are texts are refused
};

struct ClassOrder {
  ClassNames classes;
  std::string source;                 // for people and run.json
  std::vector<std::string> notes;     // guesses and matches
  std::vector<std::string> warnings;  // assumptions about the order that are probably wrong
};

// Exit::usage E_LABELS: `asked` does not fit the head, or the order cannot be known; E_NUM_LABELS: the data have other
// classes than the head.
ClassOrder order_classes(const ClassEvidence& evidence);

// "12, whole numbers as ids: 0 to 11"; "3, id2label of 'config.json': 0=entailment, 1=neutral, 2=contradiction".
std::string describe(const ClassOrder& order);

}  // namespace amp
