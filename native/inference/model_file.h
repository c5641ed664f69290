// Reading a model file: the graph and its weights, the names of the classes, and how pictures become inputs.
// docs/model-file.md specifies the file.
#pragma once

#include <string_view>

#include "model_graph.h"

namespace sparcl {

// Throws ModelError unless everything in the file is consistent and finite. Whatever comes out of here can be run.
ModelSpec read_model(std::string_view file, const KernelTable& kernels);

}  // namespace sparcl
