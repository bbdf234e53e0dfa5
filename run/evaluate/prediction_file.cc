// Writes predictions as .csv, .tsv or .jsonl with the input's columns, or as arrays. Column names of the input are
// kept; a prediction with the same name gets a number.
#include "run/evaluate/prediction_file.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/npz.h"
#include "base/text.h"
#include "run/data/delimited.h"

namespace amp {

namespace {

using Json = nlohmann::ordered_json;

std::string extension(const std::string& path) { return std::filesystem::path(path).extension().string(); }

std::string dump(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Returns a column name that the input's columns do not use.
std::string free_name(const std::string& name, const std::vector<std::string>& taken) {
  std::string out = name;
  for (int n = 2; std::find(taken.begin(), taken.end(), out) != taken.end(); ++n) out = cat(name, "_", n);
  return out;
}

std::string joined(const Json& array, char separator) {
  std::vector<std::string> parts;
  for (const Json& e : array) {
    parts.push_back(e.is_string() ? e.get<std::string>() : e.is_null() ? "" : dump(e));
    if (parts.back().find(separator) != std::string::npos) return dump(array);
  }
  return join(parts, std::string(1, separator));
}

std::string cell(const Json& value, char joint) {
  if (value.is_null()) return {};
  if (value.is_string()) return value.get<std::string>();
  return value.is_array() && joint ? joined(value, joint) : dump(value);
}

class LineWriter {
 public:
  explicit LineWriter(const std::string& path) : file_(path) {}
  void line(std::string_view text) {
    pending_ += text;
    pending_ += '\n';
    if (pending_.size() > (1u << 20)) flush();
  }
  void finish() {
    flush();
    file_.commit();
  }

 private:
  void flush() {
    file_.write(pending_);
    pending_.clear();
  }
  FileWriter file_;
  std::string pending_;
};

void write_delimited(LineWriter& out, char delimiter, const TextRows& rows, const Predictions& predictions) {
  const std::vector<std::string> given = rows.columns();
  for (int64_t r = 0; r < rows.size(); ++r) {
    std::vector<std::string> names = given, cells;
    for (const Json& value : rows.cells(r)) cells.push_back(cell(value, ' '));
    for (const PredictedField& f : predictions.row(r)) {
      if (!f.value.is_object()) {
        names.push_back(free_name(f.name, given));
        cells.push_back(cell(f.value, f.joint));
        continue;
      }
      for (const auto& [member, value] : f.value.items()) {
        names.push_back(free_name(f.name + "_" + member, given));
        cells.push_back(cell(value, 0));
      }
    }
    if (r == 0) out.line(delimited(names, delimiter));
    out.line(delimited(cells, delimiter));
  }
}

void write_json_lines(LineWriter& out, const TextRows& rows, const Predictions& predictions) {
  const std::vector<std::string> given = rows.columns();
  for (int64_t r = 0; r < rows.size(); ++r) {
    Json object = Json::object();
    const std::vector<Json> cells = rows.cells(r);
    for (size_t c = 0; c < given.size(); ++c) object[given[c]] = cells[c];
    for (PredictedField& f : predictions.row(r)) object[free_name(f.name, given)] = std::move(f.value);
    out.line(dump(object));
  }
}

bool is_table(const std::string& path) {
  const std::string e = extension(path);
  return e == ".csv" || e == ".tsv" || e == ".jsonl";
}

}  // namespace

void require_prediction_file(const std::string& path) {
  const std::string e = extension(path);
  if (is_table(path) || e == ".npz" || e == ".npy" || e == ".safetensors") return;
  fail(Exit::usage, "E_FILE_TYPE", cat("'", printable(path), "' has no extension that names a file of predictions"),
       "rows with what is predicted: .csv, .tsv, .jsonl; arrays: .npz, .npy, .safetensors");
}

void write_predictions(const std::string& path, const TextRows& rows, const Predictions& predictions) {
  if (!is_table(path)) return write_tensor_file(path, predictions.tensors());
  LineWriter out(path);
  const std::string e = extension(path);
  if (e == ".jsonl") {
    write_json_lines(out, rows, predictions);
  } else {
    write_delimited(out, e == ".csv" ? ',' : '\t', rows, predictions);
  }
  out.finish();
}

}  // namespace amp
