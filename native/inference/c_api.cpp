// The functions of include/sparcl.h. No exception leaves this file.
#include <atomic>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>

#include "../dispatch.h"
#include "../include/sparcl.h"
#include "../parallel/parallel_for.h"
#include "../parallel/usable_cores.h"
#include "container.h"
#include "model.h"
#include "model_error.h"
#include "picture.h"

struct sparcl_model {
  explicit sparcl_model(std::string_view file) : model(sparcl::kernels(), file) {}
  sparcl::Model model;
  std::atomic<int> threads = sparcl::usable_cores();  // may be set while another thread predicts
};

namespace {

void say(char* error, const char* message) {
  if (error != nullptr) std::snprintf(error, SPARCL_ERROR_SIZE, "%s", message);
}

// Whether `work` could be done; if not, `error` says why.
template <typename Work>
bool done(char* error, Work work) {
  try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
    say(error, "there is not enough memory");
  } catch (const std::exception& problem) {
    say(error, problem.what());
  }
  return false;
}

const sparcl::ModelNode& input(const sparcl_model* model) { return model->model.input(); }

}  // namespace

sparcl_model* sparcl_load(const char* path, char* error) {
  sparcl_model* model = nullptr;
  done(error, [&] { model = new sparcl_model(sparcl::read_file(path)); });
  return model;
}

sparcl_model* sparcl_load_bytes(const void* bytes, size_t size, char* error) {
  sparcl_model* model = nullptr;
  done(error, [&] { model = new sparcl_model({static_cast<const char*>(bytes), size}); });
  return model;
}

void sparcl_free(sparcl_model* model) { delete model; }

int sparcl_classes(const sparcl_model* model) { return static_cast<int>(model->model.spec().classes.size()); }

const char* sparcl_class_name(const sparcl_model* model, int label) {
  return label >= 0 && label < sparcl_classes(model) ? model->model.spec().classes[label].c_str() : nullptr;
}

int sparcl_channels(const sparcl_model* model) { return input(model).channels; }
int sparcl_height(const sparcl_model* model) { return input(model).height; }
int sparcl_width(const sparcl_model* model) { return input(model).width; }
size_t sparcl_image_size(const sparcl_model* model) { return static_cast<size_t>(input(model).floats()); }
const char* sparcl_instruction_set(void) {
  const char* name = "none";
  done(nullptr, [&] { name = sparcl::kernels().name; });
  return name;
}

int sparcl_set_threads(sparcl_model* model, int threads, char* error) {
  if (threads < 1 || threads > sparcl::max_threads) {
    say(error, "a prediction needs between 1 and 512 threads");
    return 1;
  }
  model->threads = threads;
  return 0;
}

int sparcl_prepare(const sparcl_model* model, const unsigned char* rgb, int width, int height, unsigned char* pixels,
                   char* error) {
  return done(error, [&] { sparcl::prepare_picture(input(model), rgb, width, height, pixels); }) ? 0 : 1;
}

int sparcl_predict_pixels(sparcl_model* model, const unsigned char* pixels, size_t count, float* scores, char* error) {
  const auto images = static_cast<int64_t>(count);
  return done(error, [&] { model->model.predict_pixels(pixels, images, scores, model->threads); }) ? 0 : 1;
}

int sparcl_predict(sparcl_model* model, const float* images, size_t count, float* scores, char* error) {
  return done(error, [&] { model->model.predict(images, static_cast<int64_t>(count), scores, model->threads); }) ? 0
                                                                                                                 : 1;
}
