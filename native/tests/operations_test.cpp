// Operations against plain loops in double precision: random shapes, forward and backward for a batch, and rows and
// channels of a single image. Prints a line for each failing case; the exit code tells whether there was one.
//
// Maps lie in memory of exactly their size and are full of NaN before they are written: sanitizers see what is touched
// outside, and a number that was used before it was written shows in the results. Lanes without an image hold large
// numbers, which must not turn up anywhere.
#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../dispatch.h"
#include "../engine/engine.h"

namespace {

using namespace sparcl;

constexpr double tolerance = 1e-5;  // of the largest element
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
constexpr float guard = 12345.0f;  // what must not be written over

int lanes = 0;  // of the instruction set that is being tested
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

int64_t count_of(const Size& size, int images) {
  return static_cast<int64_t>(images) * size.channels * size.height * size.width;
}

void check(const char* what, const Floats& found, const Doubles& expected) {
  double largest = 0.0, error = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(found[i] - expected[i]);
    error = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(error, difference);
    largest = std::max(largest, std::abs(expected[i]));
    if (std::isinf(error)) break;
  }
  if (found.size() != expected.size()) fail(text("%s has %zu elements, not %zu", what, found.size(), expected.size()));
  if (error > tolerance * std::max(largest, 1.0))
    fail(text("%s is off by %.2e, where the largest is %.2e", what, error, largest));
}

double activated(double v, Activation activation) {
  switch (activation) {
    case Activation::none:
      return v;
    case Activation::relu:
      return std::max(v, 0.0);
    case Activation::relu6:
      return std::clamp(v, 0.0, 6.0);
    case Activation::hard_swish:
      return v * std::clamp(v + 3.0, 0.0, 6.0) / 6.0;
  }
  return v;
}

Activation any_activation() { return static_cast<Activation>(whole(0, activation_count - 1)); }

// --------------------------------------------------------------------------------------------------------------- maps

Batch batch_of(int images) { return {images, (images + lanes - 1) / lanes}; }

struct Free {
  void operator()(float* p) const { std::free(p); }
};

// A map of a batch, from and to [image][channel][row][column].
class Map {
 public:
  Map(const Size& size, bool padded, int images) : batch_(batch_of(images)) {
    const int row = size.width + (padded ? 1 : 0);
    extent_ = {size.channels, size.height, size.width, row, size.height * row + (padded ? whole(0, 3) : 0)};
    floats_ = (batch_.blocks * extent_.block() + 1) * lanes;
    memory_.reset(static_cast<float*>(std::aligned_alloc(lanes * sizeof(float), floats_ * sizeof(float))));
    std::fill_n(memory_.get(), floats_, nan_value);
  }
  Map(const Map& like) : extent_(like.extent_), batch_(like.batch_), floats_(like.floats_) {
    memory_.reset(static_cast<float*>(std::aligned_alloc(lanes * sizeof(float), floats_ * sizeof(float))));
    std::fill_n(memory_.get(), floats_, nan_value);
  }

  // `missing`: what the lanes without an image hold.
  void fill(const Floats& plain, float missing) {
    std::fill_n(memory_.get(), floats_, 0.0f);
    each_pixel([&](int image, int64_t place, int64_t in_plain) {
      data()[place] = image < batch_.images ? plain[in_plain] : missing;
    });
  }

  float* data() const { return memory_.get() + lanes; }
  const Extent& extent() const { return extent_; }
  const Batch& batch() const { return batch_; }

  Floats plain() const {
    Floats result(static_cast<int64_t>(batch_.images) * extent_.channels * extent_.height * extent_.width);
    each_pixel([&](int image, int64_t place, int64_t in_plain) {
      if (image < batch_.images) result[in_plain] = data()[place];
    });
    return result;
  }

  bool zeros_without_image() const {
    bool zeros = true;
    each_pixel([&](int image, int64_t place, int64_t) { zeros &= image < batch_.images || data()[place] == 0.0f; });
    return zeros;
  }

  // Zeros: a pixel before everything, the columns after each row, the rest of a plane.
  bool zeros_around() const {
    std::vector<bool> pixel(floats_, false);
    each_pixel([&](int, int64_t place, int64_t) { pixel[place + lanes] = true; });
    for (int64_t i = 0; i < floats_; ++i)
      if (!pixel[i] && memory_.get()[i] != 0.0f) return false;
    return true;
  }

 private:
  template <class Visit>
  void each_pixel(Visit visit) const {
    const int64_t pixels = static_cast<int64_t>(extent_.height) * extent_.width;
    for (int image = 0; image < batch_.blocks * lanes; ++image)
      for (int channel = 0; channel < extent_.channels; ++channel)
        for (int row = 0; row < extent_.height; ++row)
          for (int column = 0; column < extent_.width; ++column) {
            const int64_t pixel = image / lanes * extent_.block() + static_cast<int64_t>(channel) * extent_.plane +
                                  row * extent_.row + column;
            visit(image, pixel * lanes + image % lanes,
                  (static_cast<int64_t>(image) * extent_.channels + channel) * pixels + row * extent_.width + column);
          }
  }

  Extent extent_;
  Batch batch_;
  int64_t floats_;
  std::unique_ptr<float, Free> memory_;
};

// A map of one image, which begins anywhere in memory of exactly its size.
struct FlatMap {
  Size size;
  int32_t pitch;
  int64_t plane;
  int offset = whole(0, 5);
  Floats memory;

  FlatMap(const Size& given, int given_pitch, float value)
      : size(given), pitch(given_pitch), plane(static_cast<int64_t>(given.height - 1) * pitch + given.width) {
    plane += whole(0, 9);
    const int64_t last = static_cast<int64_t>(size.height - 1) * pitch + size.width;
    memory.assign(offset + (size.channels - 1) * plane + last, value);
  }
  float* data() { return memory.data() + offset; }
  float& at(int channel, int row, int column) { return data()[channel * plane + row * pitch + column]; }
  void fill(const float* plain) {
    for (int c = 0; c < size.channels; ++c)
      for (int r = 0; r < size.height; ++r)
        for (int k = 0; k < size.width; ++k) at(c, r, k) = *plain++;
  }
};

// ------------------------------------------------------------------------------------------------------- convolutions

struct Case {
  const Operation* operation;
  bool depthwise;
  int32_t attributes[max_attributes];  // kernel, stride, padding
  Size in, out;
  int images;
  int threads;

  int inputs() const { return depthwise ? 1 : in.channels; }
  int64_t weights() const { return static_cast<int64_t>(out.channels) * inputs() * attributes[0] * attributes[0]; }
  std::string name() const {
    return text("%s kernel %d stride %d padding %d, %dx%dx%d to %dx%dx%d, %d images", operation->name, attributes[0],
                attributes[1], attributes[2], in.channels, in.height, in.width, out.channels, out.height, out.width,
                images);
  }
};

// For every weight, output pixel and image: visit(weight, output element, input element).
template <class Visit>
void each_product(const Case& c, Visit visit) {
  const auto [kernel, stride, padding, none] = c.attributes;
  for (int image = 0; image < c.images; ++image)
    for (int o = 0; o < c.out.channels; ++o)
      for (int r = 0; r < c.out.height; ++r)
        for (int k = 0; k < c.out.width; ++k)
          for (int tap = 0; tap < kernel * kernel; ++tap)
            for (int i = 0; i < c.inputs(); ++i) {
              const int y = r * stride + tap / kernel - padding, x = k * stride + tap % kernel - padding;
              if (y < 0 || y >= c.in.height || x < 0 || x >= c.in.width) continue;
              const int channel = c.depthwise ? o : i;
              visit((static_cast<int64_t>(o) * kernel * kernel + tap) * c.inputs() + i,
                    ((static_cast<int64_t>(image) * c.out.channels + o) * c.out.height + r) * c.out.width + k,
                    ((static_cast<int64_t>(image) * c.in.channels + channel) * c.in.height + y) * c.in.width + x);
            }
}

struct Numbers {
  Floats weight, bias, x, dy, residual;
  Doubles y, dx, dw;
};

Numbers numbers_of(const Case& c) {
  Numbers n{.weight = normal(c.weights()),
            .bias = normal(c.out.channels),
            .x = normal(count_of(c.in, c.images)),
            .dy = normal(count_of(c.out, c.images)),
            .residual = normal(count_of(c.out, c.images)),
            .y = Doubles(count_of(c.out, c.images)),
            .dx = Doubles(count_of(c.in, c.images)),
            .dw = Doubles(c.weights())};
  each_product(c, [&](int64_t weight, int64_t output, int64_t input) {
    n.y[output] += static_cast<double>(n.weight[weight]) * n.x[input];
    n.dx[input] += static_cast<double>(n.weight[weight]) * n.dy[output];
    n.dw[weight] += static_cast<double>(n.dy[output]) * n.x[input];
  });
  return n;
}

Doubles finished(const Case& c, const Numbers& n, bool bias, bool residual, Activation activation) {
  Doubles result(n.y);
  const int64_t pixels = static_cast<int64_t>(c.out.height) * c.out.width;
  for (size_t i = 0; i < result.size(); ++i) {
    if (bias) result[i] += n.bias[static_cast<int64_t>(i) / pixels % c.out.channels];
    if (residual) result[i] += n.residual[i];
    result[i] = activated(result[i], activation);
  }
  return result;
}

void run_forward(const Case& c, const Numbers& n, OperationCall call, const Map& like) {
  Map y(like);
  call.y = y.data();
  call.training = true;
  c.operation->forward(call, c.threads);
  check("the output", y.plain(), n.y);
  if (!y.zeros_around()) fail("there are no zeros around the output");

  Map prediction(like), residual(like);
  const bool with_residual = coin(), with_bias = whole(0, 3) > 0;
  call.training = false;
  call.y = prediction.data();
  residual.fill(n.residual, guard);
  call.residual = with_residual ? residual.data() : nullptr;
  call.bias = with_bias ? n.bias.data() : nullptr;
  call.activation = any_activation();
  c.operation->forward(call, c.threads);
  check("a prediction", prediction.plain(), finished(c, n, with_bias, with_residual, call.activation));
  if (!prediction.zeros_around()) fail("there are no zeros around a prediction");
}

void run_backward(const Case& c, const Numbers& n, OperationCall call, const Map& like) {
  Map dx(like);
  Floats dw(c.weights(), 0.5f), again(c.weights(), 0.5f);
  call.training = true;
  call.dx = dx.data();
  call.d_weight = dw.data();
  c.operation->backward(call, c.threads);
  check("the data gradient", dx.plain(), n.dx);
  if (!dx.zeros_around()) fail("there are no zeros around the data gradient");
  if (!dx.zeros_without_image()) fail("lanes without an image have a gradient");
  Doubles expected(n.dw);
  for (double& number : expected) number += 0.5;
  check("the weight gradient", dw, expected);
  call.dx = nullptr;
  call.d_weight = again.data();
  c.operation->backward(call, c.threads);
  if (again != dw) fail("the weight gradient is not the same twice");
  call.d_weight = nullptr;
  Map alone(like);
  call.dx = alone.data();
  c.operation->backward(call, c.threads);
  if (alone.plain() != dx.plain()) fail("the data gradient is not the same alone");
}

void run_batch(const Case& c, const Numbers& n) {
  Map x(c.in, coin(), c.images), y(c.out, coin(), c.images), dy(y);
  x.fill(n.x, guard);
  dy.fill(n.dy, 0.0f);
  OperationCall call{};
  call.x = x.data();
  call.dy = dy.data();
  call.weight = n.weight.data();
  call.in = &x.extent();
  call.out = &y.extent();
  call.batch = &x.batch();
  call.attributes = c.attributes;
  run_forward(c, n, call, y);
  run_backward(c, n, call, x);
}

// Some rows and channels of the first image.
void run_flat(const Case& c, const Numbers& n) {
  const int in_pitch = c.in.width + (coin() ? 0 : whole(1, 3));
  const int out_pitch = coin() && in_pitch >= c.out.width ? in_pitch : c.out.width + whole(0, 3);
  FlatMap x(c.in, in_pitch, guard), y(c.out, out_pitch, guard), residual(y);
  x.fill(n.x.data());
  residual.fill(n.residual.data());
  const bool with_residual = coin(), with_bias = whole(0, 3) > 0;
  FlatCall call{.x = x.data(),
                .y = y.data(),
                .residual = with_residual ? residual.data() : nullptr,
                .weight = n.weight.data(),
                .bias = with_bias ? n.bias.data() : nullptr,
                .in = c.in,
                .out = c.out,
                .x_plane = x.plane,
                .y_plane = y.plane,
                .x_pitch = x.pitch,
                .y_pitch = y.pitch,
                .first = 0,
                .last = c.out.channels,
                .first_row = 0,
                .last_row = c.out.height,
                .activation = any_activation(),
                .attributes = c.attributes};
  if (coin()) {
    call.first = whole(0, c.out.channels - 1);
    call.last = whole(call.first, c.out.channels);
    call.first_row = whole(0, c.out.height - 1);
    call.last_row = whole(call.first_row, c.out.height);
  }
  c.operation->flat(call);
  const Doubles expected = finished(c, n, with_bias, with_residual, call.activation);
  Floats found;
  Doubles wanted;
  const int64_t pixels = static_cast<int64_t>(c.out.height) * c.out.width;
  for (int o = call.first; o < call.last; ++o)
    for (int r = call.first_row; r < call.last_row; ++r)
      for (int k = 0; k < c.out.width; ++k) {
        found.push_back(y.at(o, r, k));
        wanted.push_back(expected[o * pixels + r * c.out.width + k]);
        y.at(o, r, k) = guard;
      }
  check("one image", found, wanted);
  if (std::any_of(y.memory.begin(), y.memory.end(), [](float v) { return v != guard; }))
    fail("one image: something was written outside of the wanted rows and channels");
}

Case any_case(const Operation& operation, bool depthwise, int largest) {
  for (;;) {
    Case c{.operation = &operation,
           .depthwise = depthwise,
           .attributes = {},
           .in = {},
           .out = {},
           .images = 1,
           .threads = whole(1, 3)};
    const int kernel = whole(0, 4) == 0 ? 2 * whole(0, 3) + 1 : coin() ? 3 : depthwise ? 5 : 7;
    const int stride = whole(0, 4) == 0 ? whole(1, 4) : whole(1, 2);
    const int padding = coin() ? kernel / 2 : whole(0, kernel - 1);
    c.attributes[0] = kernel;
    c.attributes[1] = stride;
    c.attributes[2] = padding;
    c.in = {whole(1, 6), whole(1, largest), whole(1, largest)};
    c.out.channels = depthwise ? c.in.channels : whole(1, 11);
    const auto size = [&](int in) {  // with 0 to kernel-1 rows or columns of zeros after the map
      const int room = in + padding - kernel + (coin() ? padding : whole(0, kernel - 1));
      return room < 0 ? 1 : room / stride + 1;
    };
    c.out.height = size(c.in.height);
    c.out.width = size(c.in.width);
    c.images = coin() ? whole(1, lanes) : whole(1, 2 * lanes + 3);
    now = c.name();
    if (operation.fits(c.in, c.out, c.attributes)) return c;
  }
}

void run_case(const Case& c) {
  now = c.name();
  if (!c.operation->fits(c.in, c.out, c.attributes)) return fail("is said not to fit");
  if (c.operation->weights(c.in, c.out, c.attributes) != c.weights()) fail("has another number of weights");
  const Numbers n = numbers_of(c);
  run_batch(c, n);
  for (int i = 0; i < 3; ++i) run_flat(c, n);
}

// Shapes of real networks, and maps that exceed the caches.
void run_known(const Operation& depthwise, const Operation& dense) {
  for (int size : {1, 2, 4, 7, 8, 14, 16, 28, 33})
    for (int kernel : {3, 5})
      for (int stride : {1, 2}) {
        const Size in{3, size, size}, out{3, (size - 1) / stride + 1, (size - 1) / stride + 1};
        run_case({&depthwise, true, {kernel, stride, kernel / 2}, in, out, whole(1, lanes + 1), 2});
        // "same" padding of other frameworks: less before than after
        if (stride == 2 && size % 2 == 0)
          run_case({&depthwise, true, {kernel, stride, kernel / 2 - 1}, in, out, whole(1, lanes + 1), 2});
      }
  run_case({&depthwise, true, {3, 1, 1}, {9, 130, 130}, {9, 130, 130}, 1, 2});
  run_case({&dense, false, {7, 2, 3}, {3, 45, 38}, {16, 23, 19}, 3, 2});
  run_case({&dense, false, {3, 2, 1}, {3, 32, 64}, {32, 16, 32}, 2, 2});
  run_case({&dense, false, {5, 1, 2}, {24, 9, 9}, {10, 9, 9}, 2, 2});  // more weights than are taken at once
  run_case({&dense, false, {3, 1, 1}, {3, 64, 64}, {70, 64, 64}, 1, 2});
  run_case({&dense, false, {3, 2, 0}, {3, 16, 16}, {8, 8, 8}, 2, 2});
}

void check_refusals(const Operation& operation, bool depthwise) {
  now = operation.name;
  const Size in{4, 8, 8}, out{4, 8, 8};
  const auto refuse = [&](const char* what, const Size& from, const Size& to, int kernel, int stride, int padding) {
    const int32_t attributes[max_attributes] = {kernel, stride, padding, 0};
    if (operation.fits(from, to, attributes)) fail(text("takes %s", what));
  };
  refuse("an even kernel", in, {4, 7, 7}, 2, 1, 0);
  refuse("a kernel of 9", in, out, 9, 1, 4);
  refuse("a negative kernel", in, out, -3, 1, 1);
  refuse("stride 0", in, out, 3, 0, 1);
  refuse("a negative padding", in, {4, 6, 6}, 3, 1, -1);
  refuse("more padding than windows", in, out, 3, 1, 3);
  refuse("an output that is too large", in, {4, 10, 8}, 3, 1, 1);
  refuse("an output that is too small", in, {4, 8, 6}, 3, 1, 1);
  refuse("no rows", {4, 0, 8}, {4, 0, 8}, 3, 1, 1);
  if (depthwise) refuse("other channels", in, {5, 8, 8}, 3, 1, 1);
}

}  // namespace

int main() {
  for (auto kernels = available_kernels(); *kernels != nullptr; ++kernels) {
    lanes = (*kernels)->lanes;
    const Operation& depthwise = *find_operation(**kernels, "depthwise");
    const Operation& dense = *find_operation(**kernels, "dense_conv");
    for (const bool with_channels : {true, false}) {
      const Operation& operation = with_channels ? depthwise : dense;
      check_refusals(operation, with_channels);
      for (int i = 0; i < 100; ++i) run_case(any_case(operation, with_channels, i < 50 ? 9 : 40));
    }
    run_known(depthwise, dense);
  }
  std::printf("operations_test: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
