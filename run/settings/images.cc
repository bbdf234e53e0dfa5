// Settings: images, their masks and their transforms (docs/images.md).
#include "base/error.h"
#include "data/image_sizes.h"
#include "data/transforms/pipeline.h"
#include "run/settings/rows.h"

namespace amp {

std::vector<Setting> image_settings() {
  return {
      setting("image_column", &RunSpec::image_column, "Column that holds paths of image files, in a table.")
          .shown_as("NAME")
          .read_by(kFeed)
          .also({"image_column_name"}),
      setting("image_root", &RunSpec::image_root, "Folder that a table's paths begin in. Default: the table's own.")
          .shown_as("FOLDER")
          .read_by(kFeed)
          .may_change(),
      setting("train_masks", &RunSpec::train_masks,
              "Folder of masks, for a --train that is a folder of images: PNGs of the same names, whose pixels are "
              "classes.")
          .shown_as("FOLDER")
          .names_files()
          .read_by(jobs(Job::train, Job::plan))
          .same_content(),
      setting("val_masks", &RunSpec::val_masks, "Folder of the masks of --val.")
          .shown_as("FOLDER")
          .names_files()
          .read_by(jobs(Job::train, Job::evaluate))
          .same_content(),
      setting("train_labels", &RunSpec::train_labels,
              "Labels of a --train that is an IDX file of images. Default: NAME-labels-idx1-ubyte beside it.")
          .shown_as("FILE")
          .names_files()
          .read_by(jobs(Job::train, Job::plan))
          .same_content(),
      setting("val_labels", &RunSpec::val_labels, "Labels of a --val that is an IDX file of images.")
          .shown_as("FILE")
          .names_files()
          .read_by(jobs(Job::train, Job::evaluate))
          .same_content(),
      setting(
          "mask_values", &RunSpec::mask_values,
          "Values of masks' pixels by class: 0,255. Default: the value is the class; 0,255 where masks hold no other "
          "values and the model has no more than two classes.")
          .shown_as("N,N")
          .by_commas()
          .read_by(kFeed),
      setting("mask_ignore", &RunSpec::mask_ignore, "Value of masks' pixels that count for nothing; -1: none.")
          .at_least(-1)
          .at_most(255)
          .read_by(kFeed),
      setting("transforms", &RunSpec::transforms,
              "What training does to an image, as \"random_resized_crop 224 | horizontal_flip | normalize imagenet\"; "
              "auto: by the model's input.")
          .shown_as("STEPS")
          .checked(normal_transforms, "auto, none, or transforms with | between them")
          .read_by(jobs(Job::train, Job::plan)),
      setting(
          "eval_transforms", &RunSpec::eval_transforms,
          "What evaluation and prediction do to an image, as \"resize 256 | center_crop 224 | normalize imagenet\".")
          .shown_as("STEPS")
          .checked(normal_transforms, "auto, none, or transforms with | between them")
          .read_by(kFeed)
          .also({"val_transforms"}),
      setting(
          "image_sizes", &RunSpec::image_sizes,
          "Sizes of images, height x width, for a model that takes any: 224x224,192x256,256x192. An image goes to the "
          "one nearest its aspect ratio, batches hold one size. Default: one size, the transforms'.")
          .shown_as("HxW,HxW")
          .by_commas()
          .checked(normal_image_size, "sizes as 192x256 (height x width, in pixels)")
          .read_by(kFeed),
      setting("mixup", &RunSpec::mixup,
              "Mix training images and their labels two and two, by a share from Beta(X, X); 0: do not.")
          .at_least(0)
          .read_by(kTrain)
          .also({"mixup_alpha"}),
      setting("cutmix", &RunSpec::cutmix,
              "Put a rectangle of another image into each training image, its side from Beta(X, X); 0: do not.")
          .at_least(0)
          .read_by(kTrain)
          .also({"cutmix_alpha"}),
      setting("mixup_prob", &RunSpec::mixup_prob, "Probability that a batch is mixed.")
          .at_least(0)
          .at_most(1)
          .read_by(kTrain),
      setting("mixup_switch_prob", &RunSpec::mixup_switch_prob, "Probability of --cutmix where --mixup is given too.")
          .at_least(0)
          .at_most(1)
          .read_by(kTrain),
      setting("mixup_off_epoch", &RunSpec::mixup_off_epoch, "Mix nothing from this epoch on; 0: to the end.")
          .at_least(0)
          .read_by(kTrain),
      setting("image_layout", &RunSpec::image_layout, "Dimensions of the model's image input; auto: by its shape.")
          .one_of({"auto", "nchw", "nhwc"})
          .read_by(kFeed),
      setting("loading_threads", &RunSpec::loading_threads,
              "Threads that read and transform images; 0: as many as compute.")
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
