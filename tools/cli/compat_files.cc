// Finds the files that PaddlePaddle's BERT/reader/cls.py reads from --data_dir for its tasks. Columns have the numbers
// that they have there.
#include <algorithm>
#include <array>
#include <fstream>

#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"
#include "tools/cli/compat.h"

namespace amp::cli {
namespace {

// Special column numbers: kNone means that there is no such column, kLast means the last column.
constexpr int kNone = -1, kLast = -2;

// The files of a part: DATA_DIR/[folder/]begin*end, or the file named `begin` if `end` is empty.
struct PartLayout {
  TaskPart part;
  std::string_view folder, begin, end;
  bool header;
  int first, second, label, group;
};

struct TaskLayout {
  std::string_view task;
  int classes;
  std::string_view what;  // description of the task, for messages
  std::vector<PartLayout> parts;
};

const std::vector<TaskLayout>& layouts() {
  using enum TaskPart;
  static const std::vector<TaskLayout> table = {
      {"xnli",
       3,
       "multinli/multinli.train.LANGUAGE.tsv, xnli.dev.tsv and xnli.test.tsv; or train-LANGUAGE.tsv, "
       "dev-LANGUAGE.tsv and test-LANGUAGE.tsv with premise, hypothesis, label and no header",
       {{train, "multinli", "multinli.train.", ".tsv", true, 0, 1, 2, kNone},
        {train, "", "train-", ".tsv", false, 0, 1, 2, kNone},
        {dev, "", "xnli.dev.tsv", "", true, 6, 7, 1, 0},
        {dev, "", "dev-", ".tsv", false, 0, 1, 2, kNone},
        {test, "", "xnli.test.tsv", "", true, 6, 7, 1, 0},
        {test, "", "test-", ".tsv", false, 0, 1, 2, kNone}}},
      {"mnli",
       3,
       "GLUE's train.tsv and dev_matched.tsv",
       {{train, "", "train.tsv", "", true, 8, 9, kLast, kNone},
        {dev, "", "dev_matched.tsv", "", true, 8, 9, kLast, kNone}}},
      {"cola",
       2,
       "GLUE's train.tsv and dev.tsv",
       {{train, "", "train.tsv", "", false, 3, kNone, 1, kNone}, {dev, "", "dev.tsv", "", false, 3, kNone, 1, kNone}}},
      {"mrpc",
       2,
       "GLUE's train.tsv and dev.tsv",
       {{train, "", "train.tsv", "", true, 3, 4, 0, kNone}, {dev, "", "dev.tsv", "", true, 3, 4, 0, kNone}}},
  };
  return table;
}

const TaskLayout& layout_of(const std::string& task) {
  for (const TaskLayout& t : layouts()) {
    if (t.task == task) return t;
  }
  std::vector<std::string> names;
  for (const TaskLayout& t : layouts()) names.emplace_back(t.task);
  const std::string near = nearest(task, names);
  fail(Exit::usage, "E_USAGE", cat("--", "task_name ", printable(task), ": there is no such task"),
       near.empty() ? cat("one of ", join(names, ", ")) : cat("did you mean '", near, "'?"));
}

std::vector<std::string> files_of(const PartLayout& l, const std::string& data_dir) {
  const std::string folder = l.folder.empty() ? data_dir : cat(data_dir, "/", l.folder);
  std::vector<std::string> out;
  if (!is_dir(folder)) return out;
  for (const std::string& name : list_dir(folder)) {
    const bool fits = l.end.empty() ? name == l.begin
                                    : name.starts_with(l.begin) && name.ends_with(l.end) &&
                                          name.size() > l.begin.size() + l.end.size();
    if (fits) out.push_back(cat(folder, "/", name));
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> header_of(const std::string& path) {
  std::string line;
  std::ifstream in(path);
  std::getline(in, line);
  if (line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
  if (line.ends_with('\r')) line.pop_back();
  return split(line, '\t');
}

TaskFiles with_columns(const PartLayout& l, const std::vector<std::string>& files) {
  const std::vector<std::string> header = l.header ? header_of(files[0]) : std::vector<std::string>();
  const auto column = [&](int place) {
    if (!l.header) return std::to_string(place);
    const auto n = static_cast<int>(header.size());
    const int at = place == kLast ? n - 1 : place;
    if (at < n && at >= 0) return header[static_cast<size_t>(at)];
    fail(Exit::data, "E_DATA_COLUMN", cat(files[0], ":1: column ", at + 1, " is needed, there are ", n),
         "its columns are separated by tabs, as in the task's published file");
  };
  TaskFiles out;
  out.path = join(files, ",");
  out.text_columns.push_back(column(l.first));
  if (l.second != kNone) out.text_columns.push_back(column(l.second));
  out.label_column = column(l.label);
  if (l.group != kNone) out.group_by = column(l.group);
  if (l.group == kNone && !l.header && !l.end.empty()) out.group_by = "file";
  return out;
}

}  // namespace

int paddle_classes(const std::string& task) { return layout_of(task).classes; }

void check_paddle_task(const std::string& task) { layout_of(task); }

std::optional<TaskFiles> paddle_files(const std::string& task, const std::string& data_dir, TaskPart part) {
  const TaskLayout& t = layout_of(task);
  std::string first;
  for (const PartLayout& l : t.parts) {
    if (l.part != part) continue;
    const std::vector<std::string> files = files_of(l, data_dir);
    if (!files.empty()) return with_columns(l, files);
    if (first.empty())
      first = cat(l.folder, l.folder.empty() ? "" : "/", l.begin, l.end.empty() ? "" : "LANGUAGE", l.end);
  }
  if (first.empty()) return std::nullopt;
  static constexpr std::array kReads{"do_train", "do_val", "do_test"};
  const std::string reads = cat("--", kReads.at(static_cast<size_t>(part)));
  fail(Exit::usage, "E_FILE_MISSING",
       cat("--", "data_dir ", printable(data_dir),
           is_dir(data_dir) ? cat(" has no ", first) : ": there is no such folder", ", which ", reads, " reads"),
       cat("for the task ", task, " it holds ", t.what, "; ", reads, " false leaves it out"));
}

}  // namespace amp::cli
