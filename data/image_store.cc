#include "data/image_store.h"

#include "base/file.h"
#include "data/images/decoder.h"

namespace amp {

ImageStore::ImageStore(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const auto place = packed_place(path);
    if (place && !packed_.count(place->file)) packed_[place->file] = read_packed(place->file);
  }
}

Image ImageStore::read(const std::string& path, int64_t channels) const {
  const auto place = packed_place(path);
  Image image =
      place ? packed_.at(place->file).image(place->index) : decode_image({read_file(path, Exit::data).text(), path});
  return channels == 3 ? to_rgb(std::move(image)) : to_grey(std::move(image));
}

ImageSize ImageStore::size(const std::string& path) const {
  if (const auto place = packed_place(path)) {
    const PackedImages& images = packed_.at(place->file);
    return {images.height, images.width};
  }
  constexpr int64_t kHead = 1 << 16;  // enough for headers, except for large color profiles
  const FileBytes head = read_file_head(path, kHead, Exit::data);
  if (const auto size = image_size({head.text(), path, false, head.size < kHead})) return *size;
  return image_size({read_file(path, Exit::data).text(), path}).value();
}

std::pair<std::string, Image> ImageStore::read_with_bytes(const std::string& path) const {
  if (const auto place = packed_place(path)) {
    const PackedImages& images = packed_.at(place->file);
    const auto* const bytes = reinterpret_cast<const char*>(images.pixels(place->index));
    return {{bytes, static_cast<size_t>(images.size())}, images.image(place->index)};
  }
  const FileBytes file = read_file(path, Exit::data);
  return {std::string(file.text()), decode_image({file.text(), path})};
}

}  // namespace amp
