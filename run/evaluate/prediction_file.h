// Predictions as a file: the rows of the input as they were, in their order, with what is predicted beside them.
//
// .csv, .tsv: quoted as RFC 4180 asks. An object, such as the probabilities by class, is a column for each member,
// NAME_MEMBER; an array is joined by the separator that training reads such a column with, or is JSON.
// .jsonl: an object a row. .npz, .npy, .safetensors: the predictions alone, in numbers.
// A column of the input that bears a prediction's name keeps it; the prediction's ends in "_2" (3, ...) then.
#pragma once

#include <string>

#include "run/data/text_rows.h"
#include "trainer/predictions/predictions.h"

namespace amp {

void require_prediction_file(const std::string& path);  // E_FILE_TYPE for any other extension
void write_predictions(const std::string& path, const TextRows& rows, const Predictions& predictions);

}  // namespace amp
