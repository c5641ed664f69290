// Networks that everyone knows, without Python: a training step and predictions, compared with float64 torch.
//
//   networks_test DIRECTORY     holds what tests/network/record_networks.py has written
//
// The calls with which the native backend describes a network to the engine are repeated, for each instruction set that
// this processor has, each in a process of its own. Every network is there with several draws of random numbers. Where
// a number lies next to a kink of an activation, rounding decides which gradient passes: gradients must be right in one
// of the draws (a mistake is in all), everything else in each. Prints a line for each wrong tensor; the exit code tells
// whether a network was wrong.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../dispatch.h"
#include "../engine/program.h"
#include "../include/sparcl.h"

namespace {

using namespace sparcl;
namespace fs = std::filesystem;
using Floats = std::vector<float>;

constexpr int threads = 2;
constexpr float tolerance = 1e-4f;  // of the largest logit; tensors come with their own
int wrong_tensors = 0;

struct Tensor {
  std::string name;
  size_t first, last;
  float tolerance;
};

struct Numbers {
  std::map<std::string, Floats> arrays;
  std::map<std::string, std::vector<Tensor>> tensors;
};

class Reader {
 public:
  explicit Reader(const fs::path& path) : stream_(path) {
    if (!stream_) throw std::runtime_error("cannot open " + path.string());
  }
  template <class T>
  T next() {
    T value;
    if (!(stream_ >> value)) throw std::runtime_error("a recording ends too early");
    return value;
  }
  template <class T>
  std::vector<T> list(size_t count) {
    std::vector<T> values(count);
    for (T& value : values) value = next<T>();
    return values;
  }
  Extent extent() {
    const auto n = list<int>(5);
    return {n[0], n[1], n[2], n[3], n[4]};
  }
  Size size() {
    const auto n = list<int>(3);
    return {n[0], n[1], n[2]};
  }

 private:
  std::ifstream stream_;
};

Numbers read_numbers(const fs::path& path) {
  Reader reader(path);
  Numbers numbers;
  for (auto word = reader.next<std::string>(); word != "end"; word = reader.next<std::string>()) {
    if (word != "tensors") {
      numbers.arrays[word] = reader.list<float>(reader.next<size_t>());
      continue;
    }
    auto& tensors = numbers.tensors[reader.next<std::string>()];
    tensors.resize(reader.next<size_t>());
    for (Tensor& tensor : tensors)
      tensor = {reader.next<std::string>(), reader.next<size_t>(), reader.next<size_t>(), reader.next<float>()};
  }
  return numbers;
}

Op op_of(const std::string& name) {
  static const std::map<std::string, Op> ops = {{"pack", Op::pack},
                                                {"convolve", Op::convolve},
                                                {"combine", Op::combine},
                                                {"operation", Op::operation},
                                                {"unpack", Op::unpack},
                                                {"pack_gradient", Op::pack_gradient},
                                                {"operation_backward", Op::operation_backward},
                                                {"combine_backward", Op::combine_backward},
                                                {"data_gradient", Op::data_gradient},
                                                {"weight_gradient", Op::weight_gradient}};
  return ops.at(name);
}

Activation activation_of(const std::string& name) {
  for (int i = 0; i < activation_count; ++i)
    if (name == activation_names[i].name) return static_cast<Activation>(i);
  throw std::runtime_error("there is no activation " + name);
}

Step read_step(Reader& reader) {
  const Op op = op_of(reader.next<std::string>());
  const Activation activation = activation_of(reader.next<std::string>());
  const auto n = reader.list<int64_t>(13);
  const auto number = [&](int i) { return static_cast<int32_t>(n[i]); };
  return {op,   number(0), number(1), number(2),  number(3),  number(4),  number(5), number(6),
          n[7], n[8],      n[9],      activation, n[10] != 0, n[11] != 0, n[12] != 0};
}

ProgramSpec read_program(Reader& reader) {
  ProgramSpec spec{reader.next<int>(), reader.next<int64_t>(), reader.next<int>(), {}, {}};
  spec.maps.resize(reader.next<size_t>());
  for (Map& map : spec.maps) {
    map.offset = reader.next<int64_t>();
    map.extent = reader.extent();
  }
  const auto steps = reader.next<size_t>();
  for (size_t i = 0; i < steps; ++i) spec.steps.push_back(read_step(reader));
  return spec;
}

// Repeats the calls of a recording.
std::unique_ptr<Program> replay(const fs::path& path) {
  Reader reader(path);
  const auto engine = std::make_shared<Engine>(kernels());
  std::unique_ptr<Program> program;
  for (auto call = reader.next<std::string>(); call != "end"; call = reader.next<std::string>()) {
    if (call == "add_convolution") {
      const int kernel = reader.next<int>(), stride = reader.next<int>();
      const Extent in = reader.extent(), out = reader.extent();
      engine->add_convolution(
          {out.channels, in.channels, kernel, stride, in, out, in.row > in.width, out.row > out.width});
    } else if (call == "add_norm") {
      const int channels = reader.next<int>(), normalises = reader.next<int>();
      const float epsilon = reader.next<float>();
      engine->add_norm(channels, normalises != 0, epsilon, reader.next<float>());
    } else if (call == "add_operation") {
      const auto name = reader.next<std::string>();
      const Size in = reader.size(), out = reader.size();
      engine->add_operation(name, in, out, reader.list<int32_t>(reader.next<size_t>()));
    } else if (call == "set_sizes") {
      const auto sizes = reader.list<int64_t>(2);
      engine->set_sizes({sizes[0], sizes[1]});
    } else if (call == "bind_convolution") {
      const int layer = reader.next<int>();
      const auto offset = reader.next<int64_t>();
      const auto positions = reader.list<int32_t>(reader.next<size_t>());
      const auto places = reader.list<int32_t>(reader.next<size_t>());
      engine->bind_convolution(layer, offset, positions.data(), static_cast<int64_t>(positions.size()),
                               places.empty() ? nullptr : places.data());
    } else if (call == "bind_norm") {
      const auto n = reader.list<int64_t>(5);
      engine->bind_norm(static_cast<int>(n[0]), n[1], n[2], n[3], n[4]);
    } else if (call == "bind_operation") {
      const auto n = reader.list<int64_t>(4);
      engine->bind_operation(static_cast<int>(n[0]), n[1], n[2], n[3]);
    } else if (call == "program") {
      program = std::make_unique<Program>(engine, read_program(reader));
    } else {
      throw std::runtime_error("a recording has the unknown call " + call);
    }
  }
  if (program == nullptr) throw std::runtime_error("a recording has no program");
  return program;
}

void check(const std::string& what, const Floats& found, const Floats& expected, size_t first, size_t last,
           float allowed) {
  float error = 0;
  for (size_t i = first; i < last; ++i) {
    const float difference = std::fabs(found.at(i) - expected.at(i));
    error = difference <= error ? error : difference;  // keeps NaN
  }
  if (error <= allowed) return;
  ++wrong_tensors;
  std::printf("%s %s: off by %g, %g is allowed\n", kernels().name, what.c_str(), error, allowed);
}

float largest(const Floats& numbers) {
  float found = 0;
  for (float number : numbers) found = std::max(found, std::fabs(number));
  return found;
}

// Whether all gradients are right.
bool train(const std::string& name, const fs::path& recording, const Numbers& numbers) {
  const auto array = [&](const char* key) -> const Floats& { return numbers.arrays.at(key); };
  const auto program = replay(recording);
  Arena arena(program->spec().arena);
  Floats logits(array("expected_logits").size()), gradients(array("values").size()), statistics = array("statistics");
  Arrays arrays{array("images").data(),
                logits.data(),
                array("d_logits").data(),
                array("values").data(),
                gradients.data(),
                statistics.data(),
                {}};
  program->refresh(arrays.values, arrays.statistics, threads);
  program->forward(arena, arrays, {true, -1.0f, threads});
  program->backward(arena, arrays, {true, 0.0f, threads});
  check(name + " logits", logits, array("expected_logits"), 0, logits.size(),
        tolerance * largest(array("expected_logits")));
  for (const Tensor& tensor : numbers.tensors.at("statistics"))
    check(name + " " + tensor.name, statistics, array("expected_statistics"), tensor.first, tensor.last,
          tensor.tolerance);
  const int before = wrong_tensors;
  for (const Tensor& tensor : numbers.tensors.at("gradients"))
    check(name + " gradient of " + tensor.name, gradients, array("expected_gradients"), tensor.first, tensor.last,
          tensor.tolerance);
  const int wrong_gradients = wrong_tensors - before;
  wrong_tensors = before;  // the draws of a network are judged together
  return wrong_gradients == 0;
}

void predict(const std::string& name, const fs::path& file, const Numbers& numbers) {
  char error[SPARCL_ERROR_SIZE] = "";
  const std::unique_ptr<sparcl_model, void (*)(sparcl_model*)> model(sparcl_load(file.c_str(), error), sparcl_free);
  if (model == nullptr) throw std::runtime_error(error);
  sparcl_set_threads(model.get(), threads, nullptr);
  const Floats &images = numbers.arrays.at("images"), &expected = numbers.arrays.at("expected_predictions");
  const size_t size = sparcl_image_size(model.get()), count = images.size() / size;
  for (const size_t asked : {size_t{1}, count}) {  // alone and together: two ways to lay out a network
    Floats scores(asked * static_cast<size_t>(sparcl_classes(model.get())));
    if (sparcl_predict(model.get(), images.data(), asked, scores.data(), error) != 0) throw std::runtime_error(error);
    check(name + " predicting " + std::to_string(asked), scores, expected, 0, scores.size(),
          tolerance * largest(expected));
  }
}

int run(const fs::path& directory) {
  std::vector<fs::path> recordings;
  const std::string ending = "-" + std::to_string(kernels().lanes) + ".program";
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.path().filename().string().ends_with(ending)) recordings.push_back(entry.path());
  std::sort(recordings.begin(), recordings.end());
  std::map<std::string, bool> right;  // by network: its gradients, in some draw
  for (const fs::path& recording : recordings) {
    const std::string file = recording.filename().string(), draw = file.substr(0, file.size() - ending.size());
    const Numbers numbers = read_numbers(directory / (draw + ".numbers"));
    right[draw.substr(0, draw.rfind('.'))] |= train(draw, recording, numbers);
    predict(draw, directory / (draw + ".sparcl"), numbers);
  }
  int wrong = 0;
  for (const auto& [name, agrees] : right) {
    if (agrees) continue;
    ++wrong;
    std::printf("%s %s: the gradients are wrong in every draw\n", kernels().name, name.c_str());
  }
  std::printf("networks_test: %s: %zu networks, %zu draws: %d networks with wrong gradients, %d other wrong tensors\n",
              kernels().name, right.size(), recordings.size(), wrong, wrong_tensors);
  return wrong == 0 && wrong_tensors == 0 && !right.empty() ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  int wrong = 0;
  for (auto found = available_kernels(); *found != nullptr; ++found) {
    std::fflush(stdout);
    const pid_t child = fork();  // before the instruction set is chosen
    if (child == 0) {
      setenv("SPARCL_ISA", (*found)->name, 1);
      try {
        std::exit(run(arguments[1]));
      } catch (const std::exception& error) {
        std::printf("networks_test: %s: %s\n", (*found)->name, error.what());
        std::exit(1);
      }
    }
    int status = 0;
    wrong += child < 0 || waitpid(child, &status, 0) < 0 || status != 0;
  }
  return wrong == 0 ? 0 : 1;
}
