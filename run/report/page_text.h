// The files of the report page, embedded at build time.
#pragma once

#include <span>

#include "base/embedded_file.h"

namespace amp {

std::span<const EmbeddedFile> page_texts();  // generated: cmake/embed.cmake

}  // namespace amp
