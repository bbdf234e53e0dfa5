// roofline --device bench/roofline/h200.json [--layers N] [--hidden N] [--heads N] [--intermediate N] [--batch N]
//          [--length N] [--low bf16|fp16|fp32] [--dropout P] [--mask] [--no_epilogues] [--list]
// roofline --device bench/roofline/h200.json --model unet [--width N] [--depth N] [--classes N] [--batch N] [--side N]
//          [--low bf16|fp16|fp32] [--list]
// Prints the launches of a training step of BERT or a U-Net, with the least time that a described GPU would need.
// Nothing is measured.
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
            << "         [--low bf16|fp16|fp32] [--dropout P] [--mask] [--no_epilogues] [--list]\n"
            << "roofline --device FILE.json --model unet [--width N] [--depth N] [--classes N] [--batch N] [--side N]\n"
            << "         [--low bf16|fp16|fp32] [--list]\n";
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
  StepRequest bert;
  UnetRequest unet;
  std::string file;  // the file that describes the device
  bool is_unet = false, list = false;
};

// Parses a flag of one model. Returns false for other flags.
template <class Number>
bool read_unet(UnetRequest& r, const std::string& flag, const Number& number) {
  if (flag == "--width")
    r.model.width = number();
  else if (flag == "--depth")
    r.model.depth = number();
  else if (flag == "--classes")
    r.model.classes = number();
  else if (flag == "--side")
    r.side = number();
  else
    return false;
  return true;
}
template <class Number, class Text>
bool read_bert(StepRequest& r, const std::string& flag, const Number& number, const Text& value) {
  if (flag == "--layers")
    r.model.layers = number();
  else if (flag == "--hidden")
    r.model.hidden = number();
  else if (flag == "--heads")
    r.model.heads = number();
  else if (flag == "--intermediate")
    r.model.intermediate = number();
  else if (flag == "--length")
    r.length = number();
  else if (flag == "--dropout")
    r.dropout = std::strtod(value().c_str(), nullptr);
  else if (flag == "--mask")
    r.model.mask = true;
  else if (flag == "--no_epilogues")
    r.device.epilogues = false;
  else
    return false;
  return true;
}

Request parse(int argc, char** argv) {
  Request asked;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&]() -> std::string {
      if (++i == argc) usage(flag + " wants a value");
      return argv[i];
    };
    const auto number = [&] { return std::strtoll(value().c_str(), nullptr, 10); };
    if (flag == "--device") {
      asked.file = value();
    } else if (flag == "--model") {
      const std::string model = value();
      if (model != "bert" && model != "unet") usage("--model is bert or unet");
      asked.is_unet = model == "unet";
    } else if (flag == "--batch") {
      asked.bert.batch = asked.unet.batch = number();
    } else if (flag == "--low") {
      const std::string low = value();
      if (low != "bf16" && low != "fp16" && low != "fp32") usage("--low is bf16, fp16 or fp32");
      asked.bert.low = asked.unet.low = low == "bf16" ? DType::bf16 : low == "fp16" ? DType::f16 : DType::f32;
    } else if (flag == "--list") {
      asked.list = true;
    } else if (asked.is_unet ? !read_unet(asked.unet, flag, number) : !read_bert(asked.bert, flag, number, value)) {
      usage("unknown flag " + flag);
    }
  }
  if (asked.file.empty()) usage("--device is missing");
  return asked;
}

void print_title(const Request& asked, const DeviceDescription& d, const StepWork& w) {
  const auto n = [](int64_t v) { return static_cast<long long>(v); };
  if (asked.is_unet) {
    const UnetRequest& r = asked.unet;
    std::printf("%s: U-Net of width %lld and depth %lld, batch %lld of %lld x %lld", d.name.c_str(), n(r.model.width),
                n(r.model.depth), n(r.batch), n(r.side), n(r.side));
  } else {
    const StepRequest& r = asked.bert;
    std::printf("%s: BERT of %lld layers, %lld wide, batch %lld x %lld, dropout %g", d.name.c_str(), n(r.model.layers),
                n(r.model.hidden), n(r.batch), n(r.length), r.dropout);
  }
  std::printf(", %lld parameters; %lld nodes in recorded graphs\n", n(w.parameters), n(w.nodes()));
}

}  // namespace

int main(int argc, char** argv) {
  const Request asked = parse(argc, argv);
  std::ifstream in(asked.file);
  if (!in) usage("cannot read " + asked.file);
  try {
    const DeviceDescription d = read_device({std::istreambuf_iterator<char>(in), {}});
    const StepWork w = asked.is_unet ? step_work(asked.unet) : step_work(asked.bert);
    print_title(asked, d, w);
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
