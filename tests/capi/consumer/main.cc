// Trains a model from memory through the C++ layer of an installed library.
//   consumer lenet|minilm MODEL.onnx FOLDER SETTINGS
// SETTINGS are further members of the JSON specification. The program writes data.safetensors,
// config.json and trained.onnx to FOLDER. With the first two, the command line trains on the same
// batches. The exit code is 0 if all steps were reported and an error arrives as an exception.
#include <cstdio>
#include <fstream>
#include <onnx_amp/onnx_amp.hpp>
#include <vector>

namespace {

constexpr std::int64_t kSteps = 6, kRows = 8;

// A column of the data, with a row for every sample of all steps.
struct Column {
  std::string name;
  std::vector<std::int64_t> row;  // the dimensions of one row
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
};

std::uint32_t next_number() {
  static std::uint32_t state = 12345;
  state = state * 1664525U + 1013904223U;
  return state >> 8;
}

// Returns the number of elements of a column.
std::size_t count_of(const std::vector<std::int64_t>& row) {
  std::int64_t count = kSteps * kRows;
  for (const std::int64_t d : row) count *= d;
  return static_cast<std::size_t>(count);
}

Column floats(std::string name, const std::vector<std::int64_t>& row) {
  Column c{std::move(name), row, std::vector<float>(count_of(row)), {}};
  for (float& v : c.floats) v = static_cast<float>(next_number() % 2048) / 1024.0F - 1.0F;
  return c;
}

// Returns a column of integers from `low` to below `high`.
Column integers(std::string name, const std::vector<std::int64_t>& row, std::uint32_t low, std::uint32_t high) {
  Column c{std::move(name), row, {}, std::vector<std::int64_t>(count_of(row))};
  for (std::int64_t& v : c.integers) v = low + next_number() % (high - low);
  return c;
}

// Returns the rows of a step. The tensor points into the column's memory.
onnx_amp::Tensor rows_of(const Column& c, std::int64_t step) {
  std::vector<std::int64_t> dims = {kRows};
  dims.insert(dims.end(), c.row.begin(), c.row.end());
  const std::size_t all = c.floats.size() + c.integers.size(), first = all / kSteps * static_cast<std::size_t>(step);
  if (c.integers.empty()) return onnx_amp::tensor(c.name, dims, c.floats.data() + first);
  return onnx_amp::tensor(c.name, dims, c.integers.data() + first);
}

onnx_amp::Batch batch_of(const std::vector<Column>& columns, std::int64_t step) {
  onnx_amp::Batch batch;
  for (const Column& c : columns) batch.push_back(rows_of(c, step));
  return batch;
}

void write_data(const std::string& path, const std::vector<Column>& columns) {
  std::string header = "{", bytes;
  for (const Column& c : columns) {
    const bool whole = c.floats.empty();
    const std::string data(
        whole ? reinterpret_cast<const char*>(c.integers.data()) : reinterpret_cast<const char*>(c.floats.data()),
        whole ? c.integers.size() * 8 : c.floats.size() * 4);
    header += (bytes.empty() ? "\"" : ",\"") + c.name + "\":{\"dtype\":\"" + (whole ? "I64" : "F32") +
              "\",\"shape\":[" + std::to_string(kSteps * kRows);
    for (const std::int64_t d : c.row) header += "," + std::to_string(d);
    header +=
        "],\"data_offsets\":[" + std::to_string(bytes.size()) + "," + std::to_string(bytes.size() + data.size()) + "]}";
    bytes += data;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), 8);
  file << header << bytes;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) return 2;
  const std::string model = argv[2], folder = argv[3];
  std::vector<Column> columns;
  if (argv[1] == std::string("minilm")) {
    columns.push_back(integers("input_ids", {12}, 1, 60));
    columns.push_back(integers("attention_mask", {12}, 1, 2));
    columns.push_back(integers("token_type_ids", {12}, 0, 2));
  } else {
    columns.push_back(floats("input", {1, 28, 28}));
  }
  columns.push_back(integers("label", {}, 0, 2));
  const std::string spec =
      "{\"model\": \"" + model + "\", \"loss\": \"cross_entropy\", \"max_steps\": " + std::to_string(kSteps) +
      ", \"batch_size\": " + std::to_string(kRows) + ", \"lr\": 0.002, \"device\": \"cpu\"" + argv[4];
  write_data(folder + "/data.safetensors", columns);
  std::ofstream(folder + "/config.json") << spec << ", \"train\": \"" << folder
                                         << "/data.safetensors\", \"shuffle\": false, "
                                         << "\"output_dir\": \"" << folder << "/cli\"}\n";
  int steps = 0;
  onnx_amp::Options options;
  options.progress = [&](const onnx_amp_progress&) { ++steps; };
  onnx_amp::Session session(spec + "}", options);
  for (std::int64_t i = 0; i < kSteps; ++i) session.train_step({batch_of(columns, i)});
  session.export_model(folder + "/trained.onnx");
  if (steps != kSteps) return 1;
  session.eval_step(batch_of(columns, 0));
  std::printf("%s\n", session.eval_finish().c_str());
  try {
    session.train_step({{rows_of(columns.back(), 0)}});
    return 1;
  } catch (const onnx_amp::Error& e) {
    return e.status() == ONNX_AMP_DATA && e.id() == "E_DATA_COLUMN" ? 0 : 1;
  }
} catch (const onnx_amp::Error& e) {
  std::fprintf(stderr, "%s: %s\n%s\n", e.id().c_str(), e.what(), e.hint().c_str());
  return 1;
}
