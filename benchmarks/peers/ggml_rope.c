// Times ggml's RoPE: ggml_rope half|interleaved HEADS TOKENS WIDTH THREADS SECONDS. Prints {"seconds": [...]}.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ggml-cpu.h"
#include "ggml.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const int mode = strcmp(argv[1], "half") == 0 ? GGML_ROPE_TYPE_NEOX : 0;
  const long heads = atol(argv[2]), tokens = atol(argv[3]), width = atol(argv[4]);
  const int threads = atoi(argv[5]);
  const double seconds = atof(argv[6]);
  const size_t bytes = (size_t)(heads * tokens * width) * sizeof(float);
  struct ggml_init_params params = {.mem_size = 2 * bytes + ((size_t)64 << 20), .mem_buffer = NULL, .no_alloc = false};
  struct ggml_context* context = ggml_init(params);
  struct ggml_tensor* x = ggml_new_tensor_3d(context, GGML_TYPE_F32, width, heads, tokens);
  struct ggml_tensor* positions = ggml_new_tensor_1d(context, GGML_TYPE_I32, tokens);
  for (long i = 0; i < heads * tokens * width; ++i) ((float*)x->data)[i] = 1.0f;
  for (int i = 0; i < tokens; ++i) ((int*)positions->data)[i] = i;
  struct ggml_tensor* out = ggml_rope_ext(context, x, positions, NULL, (int)width, mode, 0, 10000, 1, 0, 1, 32, 1);
  struct ggml_cgraph* graph = ggml_new_graph(context);
  ggml_build_forward_expand(graph, out);
  ggml_graph_compute_with_ctx(context, graph, threads);
  printf("{\"version\": \"ggml %s\", \"seconds\": [", ggml_version());
  const double started = now();
  for (int run = 0; run == 0 || (run < 100 && now() - started < seconds); ++run) {
    const double begin = now();
    ggml_graph_compute_with_ctx(context, graph, threads);
    printf("%s%.9g", run ? ", " : "", now() - begin);
  }
  puts("]}");
  ggml_free(context);
}
