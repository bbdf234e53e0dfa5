// Settings of images, their masks and their transforms (docs/images.md). Checks of sizes and transforms call the
// parsers of data/, so that errors appear before any file is read.
#include "run/spec/images.h"

#include "base/error.h"
#include "data/image_sizes.h"
#include "data/transforms/pipeline.h"
#include "run/settings/rows/rows.h"

namespace amp {

std::vector<Setting> image_settings() {
  return {
      setting("image_column", &ImageSpec::image_column,
              "Table column with the paths of image files; required for tables of images.")
          .shown_as("NAME")
          .read_by(kFeed)
          .also({"image_column_name"}),
      setting("image_root", &ImageSpec::image_root,
              "Folder that relative paths in a table start from. Default: the table's folder.")
          .shown_as("FOLDER")
          .read_by(kFeed)
          .may_change(),
      setting("train_masks", &ImageSpec::train_masks,
              "Folder of segmentation masks for a `train` that is a folder of images. A mask has the name of its "
              "image, and its pixels are classes. Default: none.")
          .shown_as("FOLDER")
          .names_files()
          .read_by(jobs(Job::train, Job::plan))
          .same_content(),
      setting("val_masks", &ImageSpec::val_masks,
              "Folder of segmentation masks for a `val` that is a folder of images. Default: none.")
          .shown_as("FOLDER")
          .names_files()
          .read_by(jobs(Job::train, Job::evaluate))
          .same_content(),
      setting("train_labels", &ImageSpec::train_labels,
              "File of labels for a `train` that is an IDX file of images. Default: NAME-labels-idx1-ubyte beside it.")
          .shown_as("FILE")
          .names_files()
          .read_by(jobs(Job::train, Job::plan))
          .same_content(),
      setting("val_labels", &ImageSpec::val_labels,
              "File of labels for a `val` that is an IDX file of images. Default: NAME-labels-idx1-ubyte beside it.")
          .shown_as("FILE")
          .names_files()
          .read_by(jobs(Job::train, Job::evaluate))
          .same_content(),
      setting("mask_values", &ImageSpec::mask_values,
              "Pixel values of masks in the order of the classes, such as 0,255. Default: the value is the class; "
              "0,255 if masks have no other values and the model has at most two classes.")
          .shown_as("N,N")
          .by_commas()
          .read_by(kFeed),
      setting("mask_ignore", &ImageSpec::mask_ignore, "Pixel value of masks that the loss ignores; -1: none.")
          .at_least(-1)
          .at_most(255)
          .read_by(kFeed),
      setting("transforms", &ImageSpec::transforms,
              "Transforms of training images, such as \"random_resized_crop 224 | horizontal_flip | normalize "
              "imagenet\" (docs/images.md); auto: chosen by the model's input.")
          .shown_as("STEPS")
          .checked(normal_transforms, "auto, none, or transforms with | between them")
          .read_by(jobs(Job::train, Job::plan)),
      setting("eval_transforms", &ImageSpec::eval_transforms,
              "Transforms of images in evaluation and prediction, such as \"resize 256 | center_crop 224 | normalize "
              "imagenet\" (docs/images.md); auto: chosen by the model's input.")
          .shown_as("STEPS")
          .checked(normal_transforms, "auto, none, or transforms with | between them")
          .read_by(kFeed)
          .also({"val_transforms"}),
      setting("image_sizes", &ImageSpec::image_sizes,
              "Image sizes in pixels (height x width) for a model that accepts any size: 224x224,192x256,256x192. An "
              "image gets the size with the nearest aspect ratio, and all images of a batch have one size. Default: "
              "only the size of the transforms.")
          .shown_as("HxW,HxW")
          .by_commas()
          .checked(normal_image_size, "sizes as 192x256 (height x width, in pixels)")
          .read_by(kFeed),
      setting("mixup", &ImageSpec::mixup,
              "Blend pairs of training images and their labels (mixup), with a weight from the distribution Beta(X, "
              "X); 0: off.")
          .at_least(0)
          .read_by(kTrain)
          .also({"mixup_alpha"}),
      setting("cutmix", &ImageSpec::cutmix,
              "Copy a rectangle of another image into each training image (CutMix), with an area from the distribution "
              "Beta(X, X); 0: off.")
          .at_least(0)
          .read_by(kTrain)
          .also({"cutmix_alpha"}),
      setting("mixup_prob", &ImageSpec::mixup_prob, "Probability that `mixup` or `cutmix` changes a batch.")
          .at_least(0)
          .at_most(1)
          .read_by(kTrain),
      setting("mixup_switch_prob", &ImageSpec::mixup_switch_prob,
              "Probability that a batch gets `cutmix` instead of `mixup`, if both are given.")
          .at_least(0)
          .at_most(1)
          .read_by(kTrain),
      setting("mixup_off_epoch", &ImageSpec::mixup_off_epoch,
              "Epoch, counted from 0, from which on `mixup` and `cutmix` are off; 0: they stay on.")
          .at_least(0)
          .read_by(kTrain),
      setting("image_layout", &ImageSpec::image_layout,
              "Order of the dimensions of the model's image input; auto: chosen by its shape.")
          .one_of({"auto", "nchw", "nhwc"})
          .read_by(kFeed),
      setting("max_image_pixels", &ImageSpec::max_image_pixels,
              "Largest number of pixels of an image file; larger images are refused. 0: 178,956,970, but 35,000,000 if "
              "the image compresses more than 200 times.")
          .at_least(0)
          .at_most(2147483647)
          .read_by(kFeed)
          .may_change(),
      setting("loading_threads", &ImageSpec::loading_threads,
              "Number of threads that decode and transform images; 0: the number of threads that compute.")
          .at_least(0)
          .read_by(kFeed)
          .also({"dataloader_num_workers"})
          .may_change(),
  };
}

std::optional<std::string> normal_image_size(std::string_view text) {
  const std::optional<ImageSize> size = parse_image_size(text);
  return size ? std::optional(text_of(*size)) : std::nullopt;
}

std::optional<std::string> normal_transforms(std::string_view text) {
  return text == "auto" ? "auto" : Pipeline(std::string(text)).text();
}

}  // namespace amp
