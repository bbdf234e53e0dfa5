// Names of settings in messages. Modules below the command line do not name its flags. They write the name of the
// setting in backquotes, "`batch_size`", and the command line replaces it by the flag (tools/cli/flag_text.h).
#pragma once

#include <string>
#include <string_view>

#include "base/cat.h"

namespace amp {

// Returns the name of a setting in backquotes. If the text also has a key within the setting, the
// key stays outside: "optim_args dampening" becomes "`optim_args` dampening".
inline std::string setting_name(std::string_view path) {
  const size_t space = path.find(' ');
  const std::string_view key = space == std::string_view::npos ? std::string_view{} : path.substr(space);
  return cat("`", path.substr(0, space), "`", key);
}

}  // namespace amp
