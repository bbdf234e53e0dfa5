// Labels of a text table: class names or numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/table.h"

namespace amp {

// The distinct values of the column, sorted by bytes: their places are the class ids. An empty or missing label:
// E_DATA_LABEL with file:line; only one value in the whole table: E_DATA_LABEL.
std::vector<std::string> find_classes(const Table& table, const std::string& column);

// Class ids; a value that classes lacks: E_DATA_LABEL_NEW with the value, the known labels and file:line.
std::vector<int64_t> class_ids(const Table& table, const std::string& column, std::span<const std::string> classes);

// Numbers; anything but a finite number: E_DATA_LABEL.
std::vector<float> label_numbers(const Table& table, const std::string& column);

}  // namespace amp
