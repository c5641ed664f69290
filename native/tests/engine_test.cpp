// The convolution layer and the kernels against plain loops in double precision, with every instruction set this
// processor has. Prints a line for each failing case; the exit code tells whether there was one.
//
// Every map lies in memory of exactly its size and is full of NaN before it is written: sanitizers see what is touched
// outside of a map, and a number that was used before it was written shows in the results.
#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "../dispatch.h"
#include "../engine/convolution.h"

namespace {

using namespace sparcl;

constexpr double tolerance = 1e-5;  // of the largest element
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

int failures = 0;
std::string now;  // what is being tested

[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...) {
  char buffer[300];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

void fail(const std::string& what) {
  ++failures;
  std::printf("%s: %s\n", now.c_str(), what.c_str());
}

// ---------------------------------------------------------------------------------------------------- random numbers

std::mt19937 generator(0);

int whole(int first, int last) { return std::uniform_int_distribution<int>(first, last)(generator); }
bool coin() { return whole(0, 1) == 1; }

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

Floats normal(int64_t count) {
  std::normal_distribution<float> distribution;
  Floats numbers(count);
  for (float& number : numbers) number = distribution(generator);
  return numbers;
}

// Strictly rising numbers out of 0..count-1.
std::vector<int32_t> some_of(int64_t count, double share) {
  std::vector<int32_t> chosen;
  for (int32_t i = 0; i < count; ++i)
    if (std::uniform_real_distribution<double>()(generator) < share) chosen.push_back(i);
  return chosen;
}

// --------------------------------------------------------------------------------------------------------------- maps

struct TestSize {
  int channels, height, width;
  int64_t pixels() const { return static_cast<int64_t>(height) * width; }
  int64_t count(int images) const { return images * channels * pixels(); }
};

Extent extent_of(const TestSize& size, bool padded) {
  const int row = size.width + (padded ? 1 : 0);
  return {size.channels, size.height, size.width, row, size.height * row + (padded ? whole(0, 3) : 0)};
}

struct Free {
  void operator()(float* p) const { std::free(p); }
};

class MapMemory {
 public:
  MapMemory(const KernelTable& kernels, const Extent& extent, Batch batch)
      : kernels_(kernels),
        extent_(extent),
        batch_(batch),
        floats_((batch.blocks * extent.block() + 1) * kernels.lanes) {
    const size_t vector = kernels.lanes * sizeof(float);
    memory_.reset(static_cast<float*>(std::aligned_alloc(vector, floats_ * sizeof(float))));
    std::fill(memory_.get(), memory_.get() + floats_, nan_value);
  }
  MapMemory(const KernelTable& kernels, const Extent& extent, Batch batch, const Floats& plain)
      : MapMemory(kernels, extent, batch) {
    kernels.pack({.plain_in = plain.data(), .plain_out = nullptr, .map = data(), .extent = extent_, .batch = batch_},
                 1);
  }

  float* data() { return memory_.get() + kernels_.lanes; }

  Floats plain(int threads = 1) {
    Floats result(static_cast<int64_t>(batch_.images) * extent_.channels * extent_.height * extent_.width);
    kernels_.unpack(
        {.plain_in = nullptr, .plain_out = result.data(), .map = data(), .extent = extent_, .batch = batch_}, threads);
    return result;
  }

  // Around the pixels there must be zeros: a column after each row, the rest of a plane, and a pixel before everything.
  bool zeros_around() {
    for (int lane = 1; lane <= kernels_.lanes; ++lane)
      if (data()[-lane] != 0.0f) return false;
    for (int64_t plane = 0; plane < static_cast<int64_t>(batch_.blocks) * extent_.channels; ++plane) {
      for (int pixel = 0; pixel < extent_.plane; ++pixel) {
        if (pixel < extent_.height * extent_.row && pixel % extent_.row < extent_.width) continue;
        for (int lane = 0; lane < kernels_.lanes; ++lane)
          if (data()[(plane * extent_.plane + pixel) * kernels_.lanes + lane] != 0.0f) return false;
      }
    }
    return true;
  }

  // The lanes of the last block that hold no image must stay out of gradients.
  bool zeros_without_image() {
    const int images = batch_.images - (batch_.blocks - 1) * kernels_.lanes;
    const float* block = data() + (batch_.blocks - 1) * extent_.block() * kernels_.lanes;
    for (int channel = 0; channel < extent_.channels; ++channel)
      for (int r = 0; r < extent_.height; ++r)
        for (int c = 0; c < extent_.width; ++c)
          for (int lane = images; lane < kernels_.lanes; ++lane)
            if (block[(channel * extent_.plane + r * extent_.row + c) * kernels_.lanes + lane] != 0.0f) return false;
    return true;
  }

 private:
  const KernelTable& kernels_;
  Extent extent_;
  Batch batch_;
  int64_t floats_;
  std::unique_ptr<float, Free> memory_;
};

Batch batch_of(const KernelTable& kernels, int images) {
  return {images, (images + kernels.lanes - 1) / kernels.lanes};
}

void check(const char* what, const Floats& found, const Doubles& expected, double allowed = tolerance) {
  double largest = 0.0, error = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(found[i] - expected[i]);
    error = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(error, difference);
    largest = std::max(largest, std::abs(expected[i]));
    if (std::isinf(error)) break;
  }
  if (found.size() != expected.size()) fail(text("%s has %zu elements, not %zu", what, found.size(), expected.size()));
  if (error > allowed * std::max(largest, 1e-3))
    fail(text("%s is off by %.2e, where the largest is %.2e", what, error, largest));
}

void check(const char* what, MapMemory& found, const Doubles& expected) { check(what, found.plain(), expected); }

void check_around(const char* what, MapMemory& map) {
  if (!map.zeros_around()) fail(text("there are no zeros around %s", what));
}

template <typename Test>
void with_every_instruction_set(const std::string& name, Test test) {
  for (auto found = available_kernels(); *found != nullptr; ++found) {
    now = text("%s %s", (*found)->name, name.c_str());
    test(**found);
  }
}

// -------------------------------------------------------------------------------------------------------- convolution

// How the numbers of a weight are stored: by position, anyhow, or as dense weights are, [output][tap][input].
enum class Order { position, shuffled, tap };

struct ConvolutionCase {
  int kernel, stride;
  TestSize in;
  int outputs, images;
  double density;
  bool in_padded = true, out_padded = true;
  Order order = coin() ? Order::position : Order::shuffled;

  TestSize out() const { return {outputs, (in.height - 1) / stride + 1, (in.width - 1) / stride + 1}; }
  int64_t weights() const { return static_cast<int64_t>(outputs) * in.channels * kernel * kernel; }
};

struct ConvolutionNumbers {
  std::vector<int32_t> positions, places, updated;
  Floats stored, x, dy, base;  // base: what a data gradient is added to
  Doubles y, dx, dw;           // dw: at all positions
};

// For every weight, output pixel and image: visit(weight, output element, input element).
template <typename Visit>
void each_product(const ConvolutionCase& c, Visit visit) {
  const TestSize out = c.out();
  const int window = c.kernel * c.kernel, half = c.kernel / 2;
  for (int64_t weight = 0; weight < c.weights(); ++weight) {
    const int64_t o = weight / window / c.in.channels, i = weight / window % c.in.channels;
    const int down = static_cast<int>(weight % window) / c.kernel - half;
    const int across = static_cast<int>(weight % window) % c.kernel - half;
    for (int image = 0; image < c.images; ++image) {
      for (int r = 0; r < out.height; ++r) {
        for (int column = 0; column < out.width; ++column) {
          const int y = r * c.stride + down, x = column * c.stride + across;
          if (y < 0 || y >= c.in.height || x < 0 || x >= c.in.width) continue;
          visit(weight, (image * out.channels + o) * out.pixels() + r * out.width + column,
                (image * c.in.channels + i) * c.in.pixels() + y * c.in.width + x);
        }
      }
    }
  }
}

ConvolutionNumbers convolution_numbers(const ConvolutionCase& c) {
  ConvolutionNumbers n;
  n.positions = some_of(c.weights(), c.density);
  const int64_t active = static_cast<int64_t>(n.positions.size());
  n.stored = normal(active);
  if (c.order != Order::position) {
    n.places.resize(active);
    std::iota(n.places.begin(), n.places.end(), 0);
  }
  if (c.order == Order::shuffled) std::shuffle(n.places.begin(), n.places.end(), generator);
  if (c.order == Order::tap) {
    const int window = c.kernel * c.kernel, inputs = c.in.channels;
    for (int32_t i = 0; i < active; ++i)
      n.places[i] = (i / window / inputs * window + i % window) * inputs + i / window % inputs;
  }
  n.updated = some_of(active, 0.5);
  n.x = normal(c.in.count(c.images));
  n.dy = normal(c.out().count(c.images));
  n.base = normal(c.in.count(c.images));
  Doubles weights(c.weights(), 0.0);
  for (int64_t i = 0; i < active; ++i) weights[n.positions[i]] = n.stored[n.places.empty() ? i : n.places[i]];
  n.y.assign(n.dy.size(), 0.0);
  n.dx.assign(n.x.size(), 0.0);
  n.dw.assign(c.weights(), 0.0);
  each_product(c, [&](int64_t weight, int64_t output, int64_t input) {
    n.y[output] += weights[weight] * n.x[input];
    n.dx[input] += weights[weight] * n.dy[output];
    n.dw[weight] += static_cast<double>(n.dy[output]) * n.x[input];
  });
  return n;
}

// The gradients of the stored weights, of all or of the chosen, added to what was there.
Doubles stored_gradients(const ConvolutionNumbers& n, bool only_updated, float before) {
  Doubles result(n.stored.size(), before);
  std::vector<int32_t> chosen = n.updated;
  if (!only_updated) {
    chosen.resize(n.stored.size());
    std::iota(chosen.begin(), chosen.end(), 0);
  }
  for (int32_t i : chosen) result[n.places.empty() ? i : n.places[i]] += n.dw[n.positions[i]];
  return result;
}

double activated(double x, Activation activation) {
  const auto relu6 = [](double v) { return std::clamp(v, 0.0, 6.0); };
  switch (activation) {
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::relu6:
      return relu6(x);
    case Activation::hard_swish:
      return x * relu6(x + 3.0) / 6.0;
    case Activation::none:
      break;
  }
  return x;
}

// What a network that only predicts does on the way: scaled weights, a bias, another map added, an activation.
void run_prediction(const KernelTable& kernels, const ConvolutionCase& c, const ConvolutionNumbers& n,
                    ConvolutionLayer& layer, MapMemory& x, const Extent& out, Floats& scratch, int threads) {
  const Batch batch = batch_of(kernels, c.images);
  const Floats scale = normal(c.outputs), bias = normal(c.outputs);
  layer.refresh_scaled(n.stored.data(), scale);
  for (bool with_residual : {false, true}) {
    const auto activation = static_cast<Activation>(whole(0, activation_count - 1));
    MapMemory residual(kernels, out, batch, n.dy), y(kernels, out, batch);
    layer.forward(
        kernels, x.data(), y.data(), batch,
        {.bias = bias.data(), .residual = with_residual ? residual.data() : nullptr, .activation = activation}, scratch,
        threads);
    Doubles expected(n.y);
    double largest = 0.0, activated_largest = 0.0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const int64_t channel = static_cast<int64_t>(i) / c.out().pixels() % c.outputs;
      expected[i] = expected[i] * scale[channel] + bias[channel] + (with_residual ? n.dy[i] : 0.0f);
      largest = std::max(largest, std::abs(expected[i]));
      expected[i] = activated(expected[i], activation);
      activated_largest = std::max(activated_largest, std::abs(expected[i]));
    }
    // An activation may cut off what rounding errors are to be compared with.
    check("a prediction", y.plain(), expected, tolerance * std::max(1.0, largest / std::max(activated_largest, 1e-6)));
    check_around("a prediction", y);
  }
}

void run_convolution(const KernelTable& kernels, const ConvolutionCase& c, const ConvolutionNumbers& n,
                     const Extent& in, const Extent& out, const Knobs* knobs, int threads) {
  const Batch batch = batch_of(kernels, c.images);
  ConvolutionLayer layer({.outputs = c.outputs,
                          .inputs = c.in.channels,
                          .kernel = c.kernel,
                          .stride = c.stride,
                          .in = in,
                          .out = out,
                          .in_padded = c.in_padded,
                          .out_padded = c.out_padded},
                         kernels.lanes, kernels.accumulators);
  if (knobs != nullptr) layer.set_knobs(*knobs);
  layer.set_active(n.positions.data(), n.places.empty() ? nullptr : n.places.data(),
                   static_cast<int64_t>(n.positions.size()));
  const bool regular = c.kernel == 3 && c.stride == 1 && c.density == 1.0 && c.order != Order::shuffled;
  if (layer.uses_winograd() != (regular && c.in.channels >= 8 && c.outputs >= 8))
    fail("the wrong layers are computed after Winograd");
  layer.refresh(n.stored.data(), true);
  MapMemory x(kernels, in, batch, n.x), dy(kernels, out, batch, n.dy);
  check_around("a packed map", x);

  Floats scratch;
  MapMemory y(kernels, out, batch);
  layer.forward(kernels, x.data(), y.data(), batch, {}, scratch, threads);
  check("the output", y, n.y);

  MapMemory dx(kernels, in, batch), sum(kernels, in, batch, n.base);
  layer.data_gradient(kernels, dy.data(), dx.data(), batch, false, scratch, threads);
  check("the data gradient", dx, n.dx);
  layer.data_gradient(kernels, dy.data(), sum.data(), batch, true, scratch, threads);
  Doubles expected(n.dx);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += n.base[i];
  check("the data gradient that is added", sum, expected);

  const auto check_gradients = [&](const char* what, bool only_updated) {
    Floats gradients(n.stored.size(), 0.5f);
    layer.weight_gradient(kernels, x.data(), dy.data(), gradients.data(), batch, scratch, threads);
    check(what, gradients, stored_gradients(n, only_updated, 0.5f));
    Floats dense(c.weights(), 0.25f);
    layer.dense_weight_gradient(kernels, x.data(), dy.data(), gradients.data(), dense.data(), batch, scratch, threads);
    Doubles everywhere(n.dw);
    for (double& gradient : everywhere) gradient += 0.25;
    check("the gradient of all positions", dense, everywhere);
    Doubles twice = stored_gradients(n, only_updated, 0.25f);
    for (double& gradient : twice) gradient *= 2.0;
    check(what, gradients, twice);
  };
  check_gradients("the weight gradient", false);
  layer.set_updated(n.updated.data(), static_cast<int64_t>(n.updated.size()));
  check_gradients("the weight gradient of chosen weights", true);
  layer.clear_updated();
  check_gradients("the weight gradient of all weights again", false);
  run_prediction(kernels, c, n, layer, x, out, scratch, threads);
  layer.data_gradient(kernels, dy.data(), dx.data(), batch, false, scratch, threads);
  check("the data gradient after a prediction", dx, n.dx);
}

Knobs random_knobs() {
  return {{whole(0, tile_shape_count - 1), whole(1, 9)},
          {whole(0, tile_shape_count - 1), whole(1, 9)},
          {whole(0, tile_shape_count - 1), coin()}};
}

void test_convolution(const ConvolutionCase& c) {
  const ConvolutionNumbers numbers = convolution_numbers(c);
  const Extent in = extent_of(c.in, c.in_padded), out = extent_of(c.out(), c.out_padded);
  const std::string name = text("%dx%d/%d, %dx%dx%d -> %d%s%s, %d images, density %.2f", c.kernel, c.kernel, c.stride,
                                c.in.channels, c.in.height, c.in.width, c.outputs, c.in_padded ? "" : ", input bare",
                                c.out_padded ? "" : ", output bare", c.images, c.density);
  with_every_instruction_set(name, [&](const KernelTable& kernels) {
    const int threads = whole(1, 3);
    now += text(", %d threads", threads);
    run_convolution(kernels, c, numbers, in, out, nullptr, threads);
    const Knobs knobs = random_knobs();
    const int other_threads = whole(1, 3);
    now +=
        text(", then %d with knobs (%d %d) (%d %d) (%d %d)", other_threads, knobs.forward.shape, knobs.forward.channels,
             knobs.data.shape, knobs.data.channels, knobs.gradient.shape, knobs.gradient.over_batch);
    run_convolution(kernels, c, numbers, in, out, &knobs, other_threads);
  });
}

void test_convolutions() {
  // Maps of 4x4 may do without zeros around them, and those that lead to them.
  for (double density : {0.0, 0.1, 0.5, 1.0}) {
    test_convolution({3, 1, {5, 4, 4}, 7, 19, density, false, false});
    test_convolution({3, 1, {3, 4, 4}, 2, 2, density, false, true});
    test_convolution({3, 1, {2, 4, 4}, 3, 5, density, true, false});
    test_convolution({3, 2, {6, 8, 8}, 5, 17, density, true, false});
    test_convolution({1, 1, {9, 4, 4}, 6, 3, density, false, false});
    test_convolution({1, 2, {4, 7, 7}, 3, 9, density, true, false});
    test_convolution({1, 2, {4, 4, 4}, 3, 9, density, false, true});
    test_convolution({1, 2, {3, 8, 8}, 5, 4, density, true, false});
  }
  for (int kernel : {1, 3}) {
    for (int stride : {1, 2}) {
      test_convolution({kernel, stride, {1, 1, 1}, 1, 1, 1.0});
      test_convolution({kernel, stride, {3, 1, 17}, 4, 5, 0.6});
      test_convolution({kernel, stride, {3, 2, 33}, 2, 16, 0.5});
      test_convolution({kernel, stride, {2, 19, 1}, 3, 4, 0.6});
      test_convolution({kernel, stride, {3, 16, 16}, 3, 3, 0.4});
      test_convolution({kernel, stride, {4, 6, 5}, 3, 11, 0.0});
      if (kernel == 3) test_convolution({kernel, stride, {20, 64, 64}, stride == 1 ? 20 : 2, 17, 0.02});  // past caches
      for (int i = 0; i < 6; ++i) {
        const TestSize in{whole(1, 12), whole(1, 13), whole(1, 13)};
        test_convolution({kernel, stride, in, whole(1, 12), whole(1, 20), whole(1, 10) / 10.0});
      }
    }
  }
}

// Dense weights that are computed after Winograd: whole and cut tiles, channels that fill no block of registers, more
// tiles than are taken together, more channels than stay in L1.
void test_winograd() {
  for (Order order : {Order::position, Order::tap}) {
    test_convolution({3, 1, {8, 4, 4}, 9, 19, 1.0, false, false, order});
    test_convolution({3, 1, {9, 4, 4}, 8, 2, 1.0, false, true, order});
    test_convolution({3, 1, {9, 4, 4}, 8, 2, 1.0, true, false, order});
    test_convolution({3, 1, {8, 1, 1}, 8, 3, 1.0, true, true, order});
    test_convolution({3, 1, {11, 2, 17}, 13, 5, 1.0, true, true, order});
    test_convolution({3, 1, {8, 32, 32}, 8, 9, 1.0, true, true, order});
    test_convolution({3, 1, {776, 1, 2}, 10, 4, 1.0, true, true, order});
    for (int i = 0; i < 3; ++i) {
      const TestSize in{whole(8, 24), whole(1, 13), whole(1, 13)};
      test_convolution({3, 1, in, whole(8, 24), whole(1, 20), 1.0, true, true, order});
    }
  }
  test_convolution({3, 1, {9, 5, 5}, 8, 3, 1.0, true, true, Order::shuffled});
}

// ------------------------------------------------------------------------------------------------------- combinations

enum class NormKind { none, bias, batch };

struct Operand {
  NormKind kind = NormKind::none;
  Floats x, weight, bias, mean, variance;
  Doubles z, d_x, d_weight, d_bias, new_mean, new_variance;  // expected
  std::vector<double> used_mean, inverse;
};

struct CombineCase {
  TestSize size;
  int images, operands;
  bool padded, training;
  Activation activation;
  float momentum;
};

constexpr float epsilon = 1e-5f;

// Visits the elements of one channel.
template <typename Visit>
void each_of_channel(const CombineCase& c, int channel, Visit visit) {
  for (int image = 0; image < c.images; ++image)
    for (int64_t p = 0; p < c.size.pixels(); ++p) visit((image * c.size.channels + channel) * c.size.pixels() + p);
}

Operand random_operand(const CombineCase& c) {
  Operand o;
  const int channels = c.size.channels;
  o.kind = static_cast<NormKind>(whole(0, 2));
  o.x = normal(c.size.count(c.images));
  for (float& x : o.x) x = 2.0f * x + 0.5f;
  o.weight = normal(channels);
  o.bias = normal(channels);
  o.mean = normal(channels);
  o.variance = normal(channels);
  for (float& variance : o.variance) variance = 0.5f + variance * variance;
  o.z.resize(o.x.size());
  o.new_mean.assign(o.mean.begin(), o.mean.end());
  o.new_variance.assign(o.variance.begin(), o.variance.end());
  o.used_mean.resize(channels);
  o.inverse.resize(channels);
  const double count = static_cast<double>(c.images) * c.size.pixels();
  for (int channel = 0; channel < channels; ++channel) {
    double mean = o.mean[channel], variance = o.variance[channel];
    if (c.training) {
      mean = variance = 0.0;
      each_of_channel(c, channel, [&](int64_t i) { mean += o.x[i] / count; });
      each_of_channel(c, channel, [&](int64_t i) { variance += (o.x[i] - mean) * (o.x[i] - mean) / count; });
      if (o.kind == NormKind::batch) {
        o.new_mean[channel] += c.momentum * (mean - o.mean[channel]);
        o.new_variance[channel] += c.momentum * (variance * count / (count - 1) - o.variance[channel]);
      }
    }
    o.used_mean[channel] = mean;
    o.inverse[channel] = 1.0 / std::sqrt(variance + epsilon);
    each_of_channel(c, channel, [&](int64_t i) {
      o.z[i] = o.kind == NormKind::none   ? o.x[i]
               : o.kind == NormKind::bias ? o.x[i] + static_cast<double>(o.bias[channel])
                                          : (o.x[i] - mean) * o.inverse[channel] * o.weight[channel] + o.bias[channel];
    });
  }
  return o;
}

// The gradients of one operand, given those of the sum.
void expect_gradients(const CombineCase& c, const Doubles& dz, Operand& o) {
  o.d_x = dz;
  o.d_weight.assign(c.size.channels, 0.0);
  o.d_bias.assign(c.size.channels, 0.0);
  const double count = static_cast<double>(c.images) * c.size.pixels();
  for (int channel = 0; channel < c.size.channels; ++channel) {
    const double mean = o.used_mean[channel], inverse = o.inverse[channel];
    each_of_channel(c, channel, [&](int64_t i) {
      o.d_bias[channel] += dz[i];
      o.d_weight[channel] += dz[i] * (o.x[i] - mean) * inverse;
    });
    if (o.kind != NormKind::batch) continue;
    each_of_channel(c, channel, [&](int64_t i) {
      const double normalised = (o.x[i] - mean) * inverse;
      const double followed = (o.d_bias[channel] + normalised * o.d_weight[channel]) / count;
      o.d_x[i] = o.weight[channel] * inverse * (dz[i] - (c.training ? followed : 0.0));
    });
  }
}

struct NormMemory {
  Floats mean, variance, state, d_weight, d_bias;
  Norm norm{};

  NormMemory(const Operand& o, float momentum)
      : mean(o.mean),
        variance(o.variance),
        state(4 * o.mean.size(), nan_value),
        d_weight(o.mean.size(), 0.5f),
        d_bias(o.mean.size(), 0.25f) {
    if (o.kind == NormKind::none) return;
    norm.bias = o.bias.data();
    norm.d_bias = d_bias.data();
    if (o.kind == NormKind::bias) return;
    norm.weight = o.weight.data();
    norm.running_mean = mean.data();
    norm.running_var = variance.data();
    norm.state = state.data();
    norm.d_weight = d_weight.data();
    norm.epsilon = epsilon;
    norm.momentum = momentum;
  }

  void check_forward(const Operand& o) {
    check("a running mean", mean, o.new_mean);
    check("a running variance", variance, o.new_variance);
  }

  void check_backward(const Operand& o) {
    Doubles weight(o.d_weight), bias(o.d_bias);
    for (double& w : weight) w = o.kind == NormKind::batch ? w + 0.5 : 0.5;
    for (double& b : bias) b = o.kind != NormKind::none ? b + 0.25 : 0.25;
    check("the gradient of a norm's weight", d_weight, weight, 1e-4);
    check("the gradient of a norm's bias", d_bias, bias, 1e-4);
  }
};

void run_combine(const KernelTable& kernels, const CombineCase& c, std::vector<Operand>& operands, const Floats& d_out,
                 const Floats& base, const Extent& extent, int threads) {
  const Batch batch = batch_of(kernels, c.images);
  const bool two = c.operands == 2, gated = c.activation != Activation::none;
  MapMemory a(kernels, extent, batch, operands[0].x), b(kernels, extent, batch, operands.back().x);
  NormMemory norm_a(operands[0], c.momentum), norm_b(operands.back(), c.momentum);
  std::vector<uint16_t> mask(batch.blocks * c.size.channels * c.size.pixels());
  MapMemory out(kernels, extent, batch);
  Combine forward{.a = a.data(),
                  .b = two ? b.data() : nullptr,
                  .out = out.data(),
                  .mask = gated ? mask.data() : nullptr,
                  .norm_a = norm_a.norm,
                  .norm_b = two ? norm_b.norm : Norm{},
                  .extent = extent,
                  .batch = batch,
                  .activation = c.activation,
                  .recompute = false,
                  .training = c.training};
  kernels.combine(forward, threads);
  Doubles z(operands[0].z);
  for (size_t i = 0; two && i < z.size(); ++i) z[i] += operands[1].z[i];
  for (double& value : z) value = activated(value, c.activation);
  check("a combination", out, z);
  check_around("a combination", out);
  norm_a.check_forward(operands[0]);
  if (two) norm_b.check_forward(operands[1]);
  // Once more, without keeping the mask and without following the statistics again.
  MapMemory again(kernels, extent, batch);
  forward.out = again.data();
  forward.mask = nullptr;
  forward.recompute = true;
  kernels.combine(forward, threads);
  if (again.plain() != out.plain()) fail("a combination that is computed again differs");
  check_around("a combination that is computed again", again);
  norm_a.check_forward(operands[0]);

  // Where gradients pass is taken from the result: where rounding decided, it may have decided either way.
  const Floats result = out.plain();
  Doubles dz(d_out.begin(), d_out.end());
  for (size_t i = 0; gated && i < dz.size(); ++i)
    if (!(result[i] > 0.0f) || (c.activation == Activation::relu6 && result[i] >= 6.0f)) dz[i] = 0.0;
  for (Operand& operand : operands) expect_gradients(c, dz, operand);
  // With two operands the first pass leaves the gated gradient for the second, which may write over it.
  MapMemory gradient(kernels, extent, batch, d_out), d_first(kernels, extent, batch);
  CombineBackward backward{.d_out = gradient.data(),
                           .operand = operands[0].kind == NormKind::batch ? a.data() : nullptr,
                           .d_operand = d_first.data(),
                           .mask = gated ? mask.data() : nullptr,
                           .write_gated = two,
                           .accumulate = false,
                           .norm = norm_a.norm,
                           .extent = extent,
                           .batch = batch,
                           .training = c.training};
  kernels.combine_backward(backward, threads);
  check("the gradient of an operand", d_first, operands[0].d_x);
  check_around("the gradient of an operand", d_first);
  if (!d_first.zeros_without_image()) fail("there are gradients where there are no images");
  norm_a.check_backward(operands[0]);
  if (!two) return;
  if (gated) check("the gated gradient", gradient, dz);
  MapMemory sum(kernels, extent, batch, base);
  backward.operand = operands[1].kind == NormKind::batch ? b.data() : nullptr;
  backward.d_operand = sum.data();
  backward.mask = nullptr;
  backward.write_gated = false;
  backward.accumulate = true;
  backward.norm = norm_b.norm;
  kernels.combine_backward(backward, threads);
  Doubles expected(operands[1].d_x);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += base[i];
  check("the gradient of an operand that is added", sum, expected);
  check_around("the gradient of an operand that is added", sum);
  norm_b.check_backward(operands[1]);
  backward.d_operand = gradient.data();
  backward.accumulate = false;
  kernels.combine_backward(backward, threads);
  check("the gradient of an operand, in place", gradient, operands[1].d_x);
  check_around("the gradient of an operand, in place", gradient);
}

void test_combinations() {
  for (int i = 0; i < 40; ++i) {
    CombineCase c{{whole(1, 9), whole(1, 9), whole(1, 9)}, whole(1, 35), whole(1, 2), coin(), coin(),
                  static_cast<Activation>(whole(0, 2)),    0.1f};
    if (i % 5 == 0) c.size = {whole(1, 9), 4, 4};
    if (i % 7 == 0) c.momentum = 0.0f;
    if (i == 0) c.size = {20, 64, 64}, c.images = 17;   // a map that exceeds the caches
    while (c.images * c.size.pixels() < 6) ++c.images;  // to normalise fewer values leaves little but rounding errors
    std::vector<Operand> operands;
    for (int o = 0; o < c.operands; ++o) operands.push_back(random_operand(c));
    const Floats d_out = normal(c.size.count(c.images)), base = normal(c.size.count(c.images));
    const Extent extent = extent_of(c.size, c.padded);
    const std::string name =
        text("combine %dx%dx%d%s, %d images, norms %d %d, activation %d%s", c.size.channels, c.size.height,
             c.size.width, c.padded ? "" : " bare", c.images, static_cast<int>(operands[0].kind),
             c.operands == 2 ? static_cast<int>(operands[1].kind) : -1, static_cast<int>(c.activation),
             c.training ? ", training" : "");
    with_every_instruction_set(
        name, [&](const KernelTable& kernels) { run_combine(kernels, c, operands, d_out, base, extent, whole(1, 3)); });
  }
}

}  // namespace

int main() {
  test_convolutions();
  test_winograd();
  test_combinations();
  std::string names;
  for (auto found = available_kernels(); *found != nullptr; ++found) names += std::string(" ") + (*found)->name;
  std::printf("engine_test (%s ): %d failures\n", names.c_str(), failures);
  return failures == 0 ? 0 : 1;
}
