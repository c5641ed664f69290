/* Says what pictures show:  classify MODEL.sparcl PICTURE.ppm ...
 *
 * Pictures are PPM files (binary, "P6"), which any tool can make: convert photo.jpg photo.ppm
 * Built by: cmake -S native -B build/native && cmake --build build/native
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sparcl.h"

/* The next number of a PPM header; comments are skipped. -1: there is none. */
static int header_number(FILE* file) {
  int c = getc(file), value = 0;
  while (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '#') {
    if (c == '#')
      while (c != '\n' && c != EOF) c = getc(file);
    c = getc(file);
  }
  if (c < '0' || c > '9') return -1;
  for (; c >= '0' && c <= '9'; c = getc(file)) {
    value = value * 10 + (c - '0');
    if (value > 65536) return -1;
  }
  return value; /* the one white space that follows is gone */
}

/* RGB bytes, to be freed; NULL if it is no such file. */
static unsigned char* read_ppm(const char* path, int* width, int* height) {
  FILE* file = fopen(path, "rb");
  unsigned char* rgb = NULL;
  if (file == NULL) return NULL;
  if (getc(file) == 'P' && getc(file) == '6') {
    *width = header_number(file);
    *height = header_number(file);
    if (header_number(file) == 255 && *width > 0 && *height > 0) {
      const size_t size = (size_t)*width * (size_t)*height * 3;
      rgb = malloc(size);
      if (rgb != NULL && fread(rgb, 1, size, file) != size) {
        free(rgb);
        rgb = NULL;
      }
    }
  }
  fclose(file);
  return rgb;
}

static int classify(sparcl_model* model, const char* path, unsigned char* pixels, float* scores) {
  char error[SPARCL_ERROR_SIZE];
  int width = 0, height = 0, best = 0, i;
  double total = 0.0;
  unsigned char* rgb = read_ppm(path, &width, &height);
  if (rgb == NULL) {
    fprintf(stderr, "classify: %s is not a readable PPM picture (P6, 8 bits)\n", path);
    return 1;
  }
  if (sparcl_prepare(model, rgb, width, height, pixels, error) != 0 ||
      sparcl_predict_pixels(model, pixels, 1, scores, error) != 0) {
    fprintf(stderr, "classify: %s: %s\n", path, error);
    free(rgb);
    return 1;
  }
  free(rgb);
  for (i = 1; i < sparcl_classes(model); ++i)
    if (scores[i] > scores[best]) best = i;
  for (i = 0; i < sparcl_classes(model); ++i) total += exp((double)scores[i] - (double)scores[best]);
  printf("%s: %s %.1f%%\n", path, sparcl_class_name(model, best), 100.0 / total);
  return 0;
}

int main(int count, char** arguments) {
  char error[SPARCL_ERROR_SIZE];
  int failures = 0, i;
  sparcl_model* model;
  unsigned char* pixels;
  float* scores;
  if (count < 3) {
    fprintf(stderr, "usage: classify MODEL.sparcl PICTURE.ppm ...\n");
    return 2;
  }
  model = sparcl_load(arguments[1], error);
  if (model == NULL) {
    fprintf(stderr, "classify: %s is not a usable model: %s\n", arguments[1], error);
    return 1;
  }
  pixels = malloc(sparcl_image_size(model));
  scores = malloc((size_t)sparcl_classes(model) * sizeof *scores);
  if (pixels == NULL || scores == NULL) {
    fprintf(stderr, "classify: there is not enough memory\n");
    return 1;
  }
  for (i = 2; i < count; ++i) failures += classify(model, arguments[i], pixels, scores);
  free(pixels);
  free(scores);
  sparcl_free(model);
  return failures == 0 ? 0 : 1;
}
