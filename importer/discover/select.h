// What follows discovery: readable names, the user's globs, ties.
#pragma once

#include <string>
#include <vector>

#include "graph/source.h"
#include "importer/discover/exporter_record.h"
#include "importer/read/import.h"

namespace amp {

// Whether a glob names a value, by its own name or its alias. A name with characters of a pattern matches itself too.
bool names_value(const std::string& glob, const SourceValue& v);
// E_GLOB: a glob that matches nothing, with the parameters whose names are nearest.
[[noreturn]] void fail_unmatched(const SourceGraph& g, const std::string& flag, const std::string& glob);

// Aliases for parameters whose own name the exporter lost ("onnx::MatMul_470", "val_72", "461"), from the module of
// the node that uses them. scopes: per node, importer/read/build.h. An alias is no other value's name or alias.
void name_parameters(SourceGraph& g, const std::vector<std::string>& scopes);

// Sets tied_to / tied_transposed: matrices (rank >= 2) of the same element type with the same bytes, or in 2-D with the
// bytes of the transpose, and more than two distinct values. The first in file order holds the master.
void tie_parameters(SourceGraph& g);
// Views of one parameter that the exporter stored as tensors of their own, in other dims, are tied as its record says.
// A part of a parameter that is in the file as well is named in the notes: it trains apart.
void tie_views(SourceGraph& g, const ExporterRecord& record, std::vector<std::string>& notes);

// --trainable: turns constants into parameters (E_TRAINABLE when the type cannot be trained).
void apply_trainable(SourceGraph& g, const std::vector<std::string>& globs);
// --freeze, and --trainable again as its exception. Ties are one weight: freezing a copy freezes it.
void apply_freeze(SourceGraph& g, const ImportOptions& options);

}  // namespace amp
