// Fuzzes the folder of a run, as earlier processes, copies or attackers may leave it: records, logs, checkpoints,
// interrupted moves. The input's sections are its files; a manifest gets its checksum here, so that it does not stop
// the fuzzer. All functions that read such a folder run, last the one that completes an interrupted run. Nothing
// outside of the folder may change.
#include <algorithm>
#include <array>
#include <filesystem>

#include "base/checksum.h"
#include "base/fs.h"
#include "fuzz/fuzz.h"
#include "fuzz/memory_folder.h"
#include "fuzz/sections.h"
#include "run/folder/output_folder.h"
#include "run/folder/run_files.h"
#include "run/report/metrics_csv.h"
#include "run/report/report_data.h"
#include "run/report/report_page.h"

namespace {

using namespace amp;

constexpr std::array<std::string_view, 20> kNames = {"metrics.jsonl",
                                                     "eval.jsonl",
                                                     "run.json",
                                                     ".run-files.json",
                                                     "precision_plan.json",
                                                     "samples.json",
                                                     "lr_range.json",
                                                     "model.onnx",
                                                     "events.out.tfevents.1",
                                                     "checkpoints/checkpoint-1/manifest.json",
                                                     "checkpoints/checkpoint-1/state.safetensors",
                                                     "checkpoints/checkpoint-2/manifest.json",
                                                     "checkpoints/checkpoint-2.tmp-1/manifest.json",
                                                     "checkpoints/checkpoint-2.tmp-1/state.safetensors",
                                                     ".finish/.move.json",
                                                     ".finish/model.onnx",
                                                     ".new-run/.move.json",
                                                     ".new-run/.run-files.json",
                                                     ".new-run/metrics.jsonl",
                                                     ".new-run/checkpoints/checkpoint-1/manifest.json"};

std::string with_checksum(std::string_view manifest) {
  std::string text(manifest);
  text += ",\n \"manifest_crc32c\": \"";
  return text + crc32c(text.data(), static_cast<int64_t>(text.size())) + "\"\n}\n";
}

void make_folder(fuzz::MemoryFolder& folder, std::string_view input) {
  folder.clear();
  folder.put("outside", "x");
  std::filesystem::create_directory(folder.path() + "/run");
  for (const auto& [name, bytes] : fuzz::sections(input)) {
    if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) continue;
    folder.put("run/" + std::string(name), name.ends_with("manifest.json") ? with_checksum(bytes) : std::string(bytes));
  }
}

void read_run(const std::string& dir) {
  const auto each = [](auto&& read) { fuzz::accepts_or_refuses(read); };
  each([&] { is_run_folder(dir), has_record(dir), read_record(dir); });
  each([&] { own_paths(dir), foreign_paths(dir), holds_results(dir); });
  each([&] {
    ReportData data(dir);
    data.read();
    page_json(data.read());
  });
  each([&] { metrics_csv({dir, dir}); });
  each([&] { report_table({dir, dir}); });
  each([&] {
    const Checkpoint newest = newest_checkpoint(dir + "/checkpoints");
    best_step_of(newest);
    verify_best(dir + "/checkpoints", newest);
  });
  each([&] { finish_interrupted(dir); });
  each([&] { OutputFolder({dir, "auto", false, {}}); });
  each([&] { OutputFolder({dir, "none", true, {}}); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::MemoryFolder& folder = fuzz::memory_folder();
  make_folder(folder, fuzz::text(data, size));
  read_run(folder.path() + "/run");
  fuzz::must(list_dir(folder.path()) == std::vector<std::string>{"outside", "run"}, "files outside the run changed");
  return 0;
}
