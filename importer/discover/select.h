// Steps after discovery: readable names, the user's globs, tied weights.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/discover/exporter_record.h"
#include "importer/read/import.h"

namespace amp {

// True if the glob matches the value's name or its alias. A name that contains glob characters also matches itself.
bool names_value(const std::string& glob, const SourceValue& v);
// Fails with E_GLOB for a glob that matches nothing; the message lists the parameters with the nearest names.
[[noreturn]] void fail_unmatched(const SourceGraph& g, const std::string& flag, const std::string& glob);

// Sets aliases of parameters whose name the exporter lost ("onnx::MatMul_470", "val_72", "461"), derived from the
// module of the node that uses them. scopes: per node, as in importer/read/build.h. Aliases are unique among names and
// aliases.
void name_parameters(SourceGraph& g, const std::vector<std::string>& scopes);

// Sets tied_to and tied_transposed for matrices (rank >= 2) of the same element type with more than two distinct
// values. They are tied if their bytes are identical, or in 2-D equal to those of the transpose. The first in file
// order is the master.
void tie_parameters(SourceGraph& g);
// Ties views of one parameter that the exporter stored as separate tensors with other dims, according to the record. A
// part of a parameter that the file also stores separately is reported in the notes: it is trained separately.
void tie_views(SourceGraph& g, const ExporterRecord& record, std::vector<std::string>& notes);

// --trainable: turns constants into parameters. Fails with E_TRAINABLE if the type cannot be trained.
void apply_trainable(SourceGraph& g, const std::vector<std::string>& globs);
// --freeze, with --trainable as its exceptions. Tied weights freeze together.
void apply_freeze(SourceGraph& g, const ImportOptions& options);

}  // namespace amp
