// Chooses layout, size and transforms of images by the graph: the declared shape of the input, the first node that
// reads it, and shape inference (probe_shapes()) for candidate sizes. Augmentation follows torchvision's reference
// recipes: ImageNet's for large images, CIFAR's for small ones. Settings and the model's preprocessor_config.json come
// first.

#include "run/data/image_guess.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "backend/interpreter.h"
#include "base/error.h"
#include "base/text.h"
#include "data/image_sizes.h"
#include "data/image_store.h"
#include "data/text_dataset.h"
#include "graph/bind.h"
#include "graph/probe.h"
#include "run/spec/images.h"

namespace amp {

namespace {

// Pixels per side of a small image.
constexpr int64_t kSmall = 64;

// Returns the first node that computes with the input's values, after casts and transpositions.
const SourceNode* first_node(const SourceGraph& g, int input) {
  int v = input;
  for (const SourceNode& n : g.nodes) {  // in topological order
    if (std::find(n.inputs.begin(), n.inputs.end(), v) == n.inputs.end()) continue;
    if (n.op != "Cast" && n.op != "Transpose" && n.op != "Identity") return &n;
    v = n.outputs.at(0);
  }
  return nullptr;
}

double largest_constant(const SourceGraph& g, const SourceNode& n) {
  double out = 0;
  for (const int v : n.inputs) {
    if (v < 0 || !g.value(v).data || g.value(v).data.numel() > 3) continue;
    for (const double x : g.value(v).data.to_doubles()) out = std::max(out, std::abs(x));
  }
  return out;
}

// Returns the transforms that follow the resizing in the guessed pipeline. The graph may scale or normalize its input
// itself, which the constant of its first node shows (255, 1/255, a mean in 0 to 255). These transforms are left out.
std::string value_steps(const SourceGraph& g, const ImageInput& input) {
  if (!is_float(input.dtype)) return "to_float";
  const SourceNode* const n = first_node(g, g.find(input.name));
  const double c = n ? largest_constant(g, *n) : 0;
  if (n && n->op == "Div" && c > 0) return c >= 100 ? "to_float" : "";
  if (n && n->op == "Mul" && c > 0) return c <= 0.02 ? "to_float" : "";
  if (n && (n->op == "Sub" || n->op == "Add") && c > 0) return c >= 2 ? "to_float" : "";
  return input.channels == 3 ? "normalize imagenet" : "";
}

std::string piped(std::initializer_list<std::string> steps) {
  std::vector<std::string> some;
  for (const std::string& s : steps) {
    if (!s.empty()) some.push_back(s);
  }
  return some.empty() ? "none" : join(some, " | ");
}

bool is_channels(int64_t n) { return n == 1 || n == 3; }

// Returns whether an input of four dimensions is NHWC, although its dims do not show this. It is NHWC if a Transpose to
// NCHW reads it.
bool reads_channels_last(const SourceGraph& g, int input) {
  for (const SourceNode& n : g.nodes) {
    if (n.inputs.empty() || n.inputs[0] != input || n.op != "Transpose") continue;
    const std::vector<int64_t> perm = n.attrs.ints("perm", {});
    return perm == std::vector<int64_t>{0, 3, 1, 2};
  }
  return false;
}

// Returns the reason why the model rejects images of this size or, with `masks`, does not return masks of this size.
// Returns "" if the size is possible.
std::string why_not(const SourceGraph& g, const ImageInput& input, bool masks, ImageSize size) {
  BindOptions o;
  o.outputs = g.outputs;
  o.input_dims = probe_dims(g, g.outputs, 1, 1);
  o.input_dims[input.name] = input.dims(1, size.height, size.width);
  for (const int v : g.inputs) {  // a model that computes its own loss has an input for masks
    const SourceValue& x = g.value(v);
    if (text_role(x.name) == TextRole::label && x.rank_known && x.dims.size() == 3)
      o.input_dims[x.name] = {1, size.height, size.width};
  }
  try {
    const std::vector<Dims> shapes = probe_shapes(g, ParamTable(g), o, cpu_evaluator());
    const bool same = std::any_of(g.outputs.begin(), g.outputs.end(), [&](int v) {
      const Dims& d = shapes[static_cast<size_t>(v)];
      return d.size() == 4 &&
             ((d[2] == size.height && d[3] == size.width) || (d[1] == size.height && d[2] == size.width));
    });
    return !masks || same ? "" : "its masks are of another size";
  } catch (const Error& e) {
    return e.fact();
  }
}

// Returns the largest size that the model takes and that is not larger than the image. Networks that halve an image
// several times need sides that are multiples of a power of two; the smallest power that works is used.
std::pair<int64_t, int64_t> size_taken(const SourceGraph& g, const ImageInput& input, bool masks, const Image& image) {
  for (int64_t of = 1; of <= kSmall; of *= 2) {
    const int64_t height = image.height - image.height % of, width = image.width - image.width % of;
    if (height > 0 && width > 0 && why_not(g, input, masks, {height, width}).empty()) return {height, width};
  }
  return {image.height, image.width};
}

}  // namespace

ImageInput image_input(const ImageSpec& images, const SourceGraph& g, const std::vector<InputSpec>& inputs) {
  for (const InputSpec& i : inputs) {
    if (!i.dims || (i.dims->size() != 4 && i.dims->size() != 3)) continue;
    const Dims& d = *i.dims;
    ImageInput out;
    out.name = i.name;
    out.dtype = i.dtype;
    if (d.size() == 3) {
      out.layout = ImageInput::Layout::nhw;
      out.channels = 1;
      out.height = d[1];
      out.width = d[2];
      return out;
    }
    const bool last = images.image_layout == "nhwc" || (images.image_layout == "auto" && !is_channels(d[1]) &&
                                                        (is_channels(d[3]) || reads_channels_last(g, g.find(i.name))));
    const int64_t channels = last ? d[3] : d[1];
    if (channels > 0 && !is_channels(channels))
      fail(Exit::data, "E_IMAGE_INPUT",
           cat("the model's input '", printable(i.name), "' of shape ", to_string(d), " takes ", channels,
               " channels, images have 1 or 3"),
           "give tensors: a .safetensors or .npz file; `image_layout` says which dimension holds the channels");
    out.layout = last ? ImageInput::Layout::nhwc : ImageInput::Layout::nchw;
    out.channels = channels > 0 ? channels : 3;
    out.height = d[last ? 1 : 2];
    out.width = d[last ? 2 : 3];
    return out;
  }
  fail(Exit::data, "E_IMAGE_INPUT", "the model has no input for images, of 3 or 4 dimensions",
       "is `train` meant to be a table of texts (`text_columns`), or a file of tensors?");
}

ImageGuess guess_transforms(const SourceGraph& g, const ImageInput& input, bool masks, const std::string& first_image) {
  const std::string values = value_steps(g, input);
  int64_t h = input.height, w = input.width;
  if (h < 1 || w < 1) {
    const Image first = ImageStore({first_image}).read(first_image, input.channels);
    const bool own = masks || input.channels == 1 || std::max(first.width, first.height) <= kSmall;
    h = w = 224;
    if (own) std::tie(h, w) = size_taken(g, input, masks, first);
  }
  const std::string size = h == w ? std::to_string(h) : cat(h, ",", w), both = cat("resize ", h, ",", w);
  if (masks) return {piped({both, "horizontal_flip", values}), piped({both, values})};
  if (input.channels == 1) return {piped({both, values}), piped({both, values})};  // no flip: it would change digits
  if (std::max(h, w) <= kSmall) {
    const std::string shifted = cat("random_crop ", size, " padding=", std::max<int64_t>(1, std::min(h, w) / 8));
    return {piped({both, shifted, "horizontal_flip", values}), piped({both, values})};
  }
  // ImageNet's ratio: a crop of 224 from 256.
  const int64_t larger = std::llround(static_cast<double>(std::max(h, w)) / 0.875);
  return {piped({cat("random_resized_crop ", size), "horizontal_flip", values}),
          piped({cat("resize ", larger), cat("center_crop ", size), values})};
}

void require_size(const SourceGraph& g, const ImageInput& input, bool masks, ImageSize size) {
  const auto fits = [](int64_t is, int64_t wanted) { return is < 1 || is == wanted; };
  if (!fits(input.height, size.height) || !fits(input.width, size.width))
    fail(Exit::usage, "E_IMAGE_SIZES",
         cat("`image_sizes` names ", text_of(size), " (height x width): the model's ", describe(input),
             " (width x height)"),
         "leave it out, or export the model with a free height and width");
  const std::string why = why_not(g, input, masks, size);
  if (!why.empty())
    fail(Exit::usage, "E_IMAGE_SIZES",
         cat("`image_sizes` names ", text_of(size), " (height x width), which the model does not take: ", why),
         "models that cut images into patches, or halve them, take multiples of 16, 32 ... a side");
}

std::string describe(const ImageInput& input) {
  const auto side = [](int64_t n) { return n > 0 ? std::to_string(n) : std::string("any"); };
  const char* const layout = input.layout == ImageInput::Layout::nchw   ? "NCHW"
                             : input.layout == ImageInput::Layout::nhwc ? "NHWC"
                                                                        : "NHW";
  return cat("input '", printable(input.name), "' takes ", layout, ", ", input.channels,
             input.channels == 1 ? " channel, " : " channels, ", side(input.width), " x ", side(input.height));
}

}  // namespace amp
