// The numbers of a model file, decoded and checked.
#pragma once

#include <string>
#include <vector>

#include "container.h"
#include "model_graph.h"

namespace sparcl {

// The tensors of a container, each of which must be used.
class Numbers {
 public:
  explicit Numbers(const Container& container) : container_(container) {}

  // The weight of a layer, dense or sparse, in whatever precision; `wanted` says how large it must be. `exact`:
  // float32.
  Weight read(const std::string& layer, const Weight& wanted, bool exact);
  void check_all_used() const;

 private:
  // `name` as float32 of this length; finite.
  std::vector<float> vector(const std::string& name, int64_t length);
  const Tensor& take(const std::string& name);
  bool has(const std::string& name) const { return container_.tensors.count(name) != 0; }

  const Container& container_;
  size_t used_ = 0;
};

}  // namespace sparcl
