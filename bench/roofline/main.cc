// roofline --device bench/roofline/h200.json [--layers N] [--hidden N] [--heads N] [--intermediate N] [--batch N]
//          [--length N] [--low bf16|fp16|fp32] [--dropout P] [--mask] [--no_epilogues] [--list]
// What a BERT training step would launch, with the least time that a described GPU would need. Nothing is measured.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "bench/roofline/roofline.h"

namespace {

using namespace amp;

[[noreturn]] void usage(const std::string& why) {
  std::cerr << why
            << "\nroofline --device FILE.json [--layers N] [--hidden N] [--heads N] [--intermediate N] [--batch N] "
               "[--length N]\n"
            << "         [--low bf16|fp16|fp32] [--dropout P] [--mask] [--no_epilogues] [--list]\n";
  std::exit(2);
}

void print(const char* title, const std::vector<cuda::Work>& work, const DeviceDescription& d) {
  std::printf("\n%s\n\n| kind | graph nodes | MB | GFLOP | least us |\n|---|---:|---:|---:|---:|\n", title);
  KindTotal all;
  for (const KindTotal& t : totals(work, d)) {
    std::printf("| %s | %lld | %.1f | %.1f | %.1f |\n", t.op.c_str(), static_cast<long long>(t.nodes),
                static_cast<double>(t.bytes) / 1e6, t.flops / 1e9, t.seconds * 1e6);
    all.nodes += t.nodes;
    all.bytes += t.bytes;
    all.flops += t.flops;
    all.seconds += t.seconds;
  }
  std::printf("| **all** | %lld | %.1f | %.1f | %.1f |\n", static_cast<long long>(all.nodes),
              static_cast<double>(all.bytes) / 1e6, all.flops / 1e9, all.seconds * 1e6);
}

void list(const std::vector<cuda::Work>& work, const DeviceDescription& d) {
  for (const cuda::Work& w : work) {
    std::printf("%-24s %-9s %2lld launches %2lld copies %9.3f MB %8.2f GFLOP %8.2f us  %s\n", w.op.c_str(),
                std::string(name_of(w.type)).c_str(), static_cast<long long>(w.launches),
                static_cast<long long>(w.copies), static_cast<double>(w.bytes) / 1e6, w.flops / 1e9,
                least_seconds(w, d) * 1e6, w.shape.c_str());
  }
}

struct Request {
  StepRequest step;
  std::string file;  // the described device
  bool list = false;
};

Request parse(int argc, char** argv) {
  Request asked;
  StepRequest& r = asked.step;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&]() -> std::string {
      if (++i == argc) usage(flag + " wants a value");
      return argv[i];
    };
    const auto number = [&] { return std::strtoll(value().c_str(), nullptr, 10); };
    if (flag == "--device") {
      asked.file = value();
    } else if (flag == "--layers") {
      r.model.layers = number();
    } else if (flag == "--hidden") {
      r.model.hidden = number();
    } else if (flag == "--heads") {
      r.model.heads = number();
    } else if (flag == "--intermediate") {
      r.model.intermediate = number();
    } else if (flag == "--batch") {
      r.batch = number();
    } else if (flag == "--length") {
      r.length = number();
    } else if (flag == "--dropout") {
      r.dropout = std::strtod(value().c_str(), nullptr);
    } else if (flag == "--low") {
      const std::string low = value();
      if (low != "bf16" && low != "fp16" && low != "fp32") usage("--low is bf16, fp16 or fp32");
      r.low = low == "bf16" ? DType::bf16 : low == "fp16" ? DType::f16 : DType::f32;
    } else if (flag == "--mask") {
      r.model.mask = true;
    } else if (flag == "--no_epilogues") {
      r.device.epilogues = false;
    } else if (flag == "--list") {
      asked.list = true;
    } else {
      usage("unknown flag " + flag);
    }
  }
  if (asked.file.empty()) usage("--device is missing");
  return asked;
}

}  // namespace

int main(int argc, char** argv) {
  const Request asked = parse(argc, argv);
  const StepRequest& r = asked.step;
  std::ifstream in(asked.file);
  if (!in) usage("cannot read " + asked.file);
  try {
    const DeviceDescription d = read_device({std::istreambuf_iterator<char>(in), {}});
    const StepWork w = step_work(r);
    std::printf(
        "%s: BERT of %lld layers, %lld wide, batch %lld x %lld, %lld parameters, dropout %g; %lld nodes in recorded "
        "graphs\n",
        d.name.c_str(), static_cast<long long>(r.model.layers), static_cast<long long>(r.model.hidden),
        static_cast<long long>(r.batch), static_cast<long long>(r.length), static_cast<long long>(w.parameters),
        r.dropout, static_cast<long long>(w.nodes()));
    if (asked.list) list(w.micro, d);
    print("Forward and backward", w.micro, d);
    print("Update", w.update, d);
    print("Outside the recorded graphs", w.around, d);
    double seconds = 0;
    for (const auto* part : {&w.micro, &w.update, &w.around}) {
      for (const cuda::Work& x : *part) seconds += least_seconds(x, d);
    }
    std::printf("\nAt least %.2f ms a step (described, not measured).\n", seconds * 1e3);
  } catch (const Error& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
