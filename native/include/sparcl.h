/* Predicting with a model that `sparcl export` wrote, from C: no Python, no dependencies.
 *
 *   char error[SPARCL_ERROR_SIZE];
 *   sparcl_model* model = sparcl_load("shop.sparcl", error);
 *   if (model == NULL) ...                                     error says in one line what is wrong
 *   unsigned char* pixels = malloc(sparcl_image_size(model));
 *   sparcl_prepare(model, rgb, width, height, pixels, error);  any picture -> what the model takes
 *   sparcl_predict_pixels(model, pixels, 1, scores, error);    scores: one number a class, the highest wins
 *   sparcl_free(model);
 *
 * A file may come from anywhere: it is checked entirely before it is used. Functions that return int return 0 when all
 * is well, and otherwise leave a message of at most SPARCL_ERROR_SIZE bytes in `error` (which may be NULL). A model may
 * be used from several threads; they wait for each other.
 */
#ifndef SPARCL_H
#define SPARCL_H

#include <stddef.h>

#if defined(__GNUC__)
#define SPARCL_API __attribute__((visibility("default")))
#else
#define SPARCL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SPARCL_ERROR_SIZE 512

typedef struct sparcl_model sparcl_model;

SPARCL_API sparcl_model* sparcl_load(const char* path, char* error);
/* The same from memory, which is not needed afterwards. */
SPARCL_API sparcl_model* sparcl_load_bytes(const void* bytes, size_t size, char* error);
SPARCL_API void sparcl_free(sparcl_model* model);

SPARCL_API int sparcl_classes(const sparcl_model* model);
/* The name of a class, UTF-8; NULL if there is no such class. It lives as long as the model. */
SPARCL_API const char* sparcl_class_name(const sparcl_model* model, int label);
SPARCL_API int sparcl_channels(const sparcl_model* model);
SPARCL_API int sparcl_height(const sparcl_model* model);
SPARCL_API int sparcl_width(const sparcl_model* model);
/* Numbers in an image: channels * height * width. */
SPARCL_API size_t sparcl_image_size(const sparcl_model* model);
/* The instruction set in use, for example "v4"; SPARCL_ISA in the environment chooses another. */
SPARCL_API const char* sparcl_instruction_set(void);

/* How many threads a prediction may use; at first: all cores. */
SPARCL_API int sparcl_set_threads(sparcl_model* model, int threads, char* error);

/* From a picture of RGB bytes, row after row, to [channels][height][width]: the largest centred part of the right
 * proportions is cut out and resized with a smoothing filter, as it was for learning. */
SPARCL_API int sparcl_prepare(const sparcl_model* model, const unsigned char* rgb, int width, int height,
                              unsigned char* pixels, char* error);

/* scores [count][classes] of images [count][channels][height][width]: pixels from 0 to 255, or floats that are
 * normalised already. */
SPARCL_API int sparcl_predict_pixels(sparcl_model* model, const unsigned char* pixels, size_t count, float* scores,
                                     char* error);
SPARCL_API int sparcl_predict(sparcl_model* model, const float* images, size_t count, float* scores, char* error);

#ifdef __cplusplus
}
#endif

#endif
