// The numbers of a model file, decoded and checked.
#pragma once

#include <string>
#include <vector>

#include "container.h"
#include "model_file.h"

namespace sparcl {

// The tensors of a container, each of which must be used.
class Numbers {
 public:
  explicit Numbers(const Container& container) : container_(container) {}

  // `name` as float32 of this length; finite.
  std::vector<float> vector(const std::string& name, int64_t length);
  // The weight of a layer, dense or sparse, in whatever precision: outputs, inputs and kernel are given.
  void read(const std::string& layer, Weight& weight);
  void check_all_used() const;

 private:
  const Tensor& take(const std::string& name);
  bool has(const std::string& name) const { return container_.tensors.count(name) != 0; }

  const Container& container_;
  size_t used_ = 0;
};

}  // namespace sparcl
