// Writes predictions to a file: the input's rows in their order, with the predictions added.
//
// .csv, .tsv: quoted as in RFC 4180. An object, such as the probabilities by class, becomes one column per member,
// NAME_MEMBER. An array is joined by the separator that training reads in such a column, or written as JSON.
// .jsonl: one object per row. .npz, .npy, .safetensors: only the predictions, as numbers.
// If an input column has a prediction's name, the prediction's name gets the suffix "_2" (or "_3", ...).
#pragma once

#include <string>

#include "run/data/text_rows.h"
#include "trainer/tasks/predictions.h"

namespace amp {

void require_prediction_file(const std::string& path);  // throws E_FILE_TYPE for any other extension
void write_predictions(const std::string& path, const TextRows& rows, const Predictions& predictions);

}  // namespace amp
