// Import steps after the weights have been discovered: readable names, the user's globs, tied weights.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/discover/exporter_record.h"
#include "importer/read/import.h"

namespace amp {

// True if the glob matches the value's name or its alias. A name that contains glob characters also matches itself.
bool names_value(const std::string& glob, const SourceValue& v);
// Throws E_GLOB for a glob that matches nothing. The message lists the parameters with the nearest names.
[[noreturn]] void fail_unmatched(const SourceGraph& g, const std::string& flag, const std::string& glob);

// Sets the alias of each parameter whose name the exporter lost ("onnx::MatMul_470", "val_72", "461"). The alias is
// derived from the module of the node that uses the parameter, and differs from all names and other aliases. scopes:
// per node, as in importer/read/build.h.
void name_parameters(SourceGraph& g, const std::vector<std::string>& scopes);

// Ties matrices (rank >= 2) of the same element type and equal bytes by setting tied_to. A 2-D matrix that equals the
// transpose of another is tied too, with tied_transposed. Matrices with one or two distinct values are not tied. The
// first matrix in file order is the master, which the tied_to of the others refers to.
void tie_parameters(SourceGraph& g);
// Ties tensors that are views of one parameter but that the exporter stored separately, with other dims. `record` lists
// these views. If the file also stores some elements of a parameter as a separate tensor, a note reports that this
// tensor is trained separately.
void tie_views(SourceGraph& g, const ExporterRecord& record, std::vector<std::string>& notes);

// Turns constants that match a glob of `trainable` into parameters. A glob that is not an exact name leaves out
// one-element tensors and those whose position excludes a weight (`verdicts`): running statistics, scales of a Resize
// and others. Throws E_TRAINABLE if the type cannot be trained.
void apply_trainable(SourceGraph& g, const std::vector<std::string>& globs, const std::vector<Verdict>& verdicts);
// Freezes the parameters that match --freeze and do not match --trainable. Tied weights freeze together.
void apply_freeze(SourceGraph& g, const ImportOptions& options);

}  // namespace amp
