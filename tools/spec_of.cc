#include "tools/spec_of.h"

#include "run/settings/settings.h"
#include "run/spec/spec.h"

namespace amp {

RunSpec spec_of(const cli::Options& opts) {
  RunSpec spec;
  for (const cli::Flag& f : cli::flags()) {
    if (!f.setting || !cli::has(f.verbs, opts.verb)) continue;
    set_value(spec, *f.setting, opts.value(f.name), opts.was_set(f.name));
    const cli::Source source = opts.source(f.name);
    if (f.recorded && opts.has(f.name) && source != cli::Source::fallback)
      spec.sources[std::string(f.name)] = name_of(source);
  }
  return spec;
}

}  // namespace amp
