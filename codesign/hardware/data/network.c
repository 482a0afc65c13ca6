/* A host that runs a network on the machine, launch by launch. Usage: network IMAGES INPUT OUTPUT.
   IMAGES is the folder of dram.bin (weights where launches want them), settings.bin (register writes), words.bin (instruction words) and tables.bin
   (biases, scales, where elements lie). INPUT is the picture in single precision, channels outermost; OUTPUT the network's integers as 32-bit words.
   `program.h` lists the steps; arithmetic is that of ONNX. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "machine.h"
#include "program.h"

static uint32_t *tables, *settings;
static uint64_t *words;
static int32_t *integers[VALUES];
static float *picture;

static void fail(const char *what, const char *which) {
  fprintf(stderr, "%s %s\n", what, which);
  exit(2);
}

static void *read_file(const char *folder, const char *name, size_t *bytes) {
  char path[4096];
  FILE *f;
  long size;
  void *data;
  snprintf(path, sizeof path, folder ? "%s/%s" : "%s%s", folder ? folder : "", name);
  f = fopen(path, "rb");
  if (!f) fail("cannot read", path);
  fseek(f, 0, SEEK_END);
  size = ftell(f);
  rewind(f);
  data = malloc((size_t)size + 8);
  if (!data || fread(data, 1, (size_t)size, f) != (size_t)size) fail("cannot read", path);
  fclose(f);
  *bytes = (size_t)size;
  return data;
}

static float as_float(uint32_t word) {
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

static int32_t quantised(float value, const struct value *v) {
  float rounded = nearbyintf(value / v->scale) + (float)v->zero;
  return (int32_t)fminf(fmaxf(rounded, (float)v->low), (float)v->high);
}

static float dequantised(int32_t q, const struct value *v) { return (float)(q - v->zero) * v->scale; }

static void quantise(const struct step *s) {
  const struct value *made = &values[s->made];
  size_t n = (size_t)made->channels * made->rows * made->columns;
  for (size_t i = 0; i < n; i++) integers[s->made][i] = quantised(picture[i], made);
}

static void add(const struct step *s) {
  const struct value *made = &values[s->made];
  size_t n = (size_t)made->channels * made->rows * made->columns;
  for (size_t i = 0; i < n; i++)
    integers[s->made][i] = quantised(dequantised(integers[s->given][i], &values[s->given]) + dequantised(integers[s->other][i], &values[s->other]), made);
}

static void maximum(const struct step *s) {
  const struct value *given = &values[s->given], *made = &values[s->made];
  const int32_t *in = integers[s->given];
  int32_t *out = integers[s->made];
  for (int c = 0; c < made->channels; c++)
    for (int p = 0; p < made->rows; p++)
      for (int q = 0; q < made->columns; q++) {
        int32_t best = given->low;
        for (int r = 0; r < s->kernel[0]; r++)
          for (int t = 0; t < s->kernel[1]; t++) {
            int y = p * s->strides[0] + r - s->pads[0], x = q * s->strides[1] + t - s->pads[1];
            if (y >= 0 && y < given->rows && x >= 0 && x < given->columns) {
              int32_t here = in[((size_t)c * given->rows + y) * given->columns + x];
              if (here > best) best = here;
            }
          }
        *out++ = best;
      }
}

/* The padded operand into the machine's memory. */
static void pack(const struct step *s, const struct launch *l) {
  const struct value *given = &values[s->given];
  const uint32_t *by_channel = tables + l->operand_at, *by_row = by_channel + l->operand[0], *by_column = by_row + l->operand[1];
  unsigned char *dram = machine_dram();
  for (uint32_t c = 0; c < l->operand[0]; c++)
    for (uint32_t y = 0; y < l->operand[1]; y++)
      for (uint32_t x = 0; x < l->operand[2]; x++) {
        int row = (int)y - s->pads[0], column = (int)x - s->pads[1], inside = row >= 0 && row < given->rows && column >= 0 && column < given->columns;
        int32_t q = inside ? integers[s->given][((size_t)c * given->rows + row) * given->columns + column] : given->zero;
        dram[by_channel[c] + by_row[y] + by_column[x]] = (unsigned char)(q - s->shift);
      }
}

/* The sums out of the machine's memory, scaled to 8 bits. */
static void unpack(const struct step *s, const struct launch *l) {
  const struct value *made = &values[s->made];
  const uint32_t *by_channel = tables + l->result_at, *by_row = by_channel + made->channels, *by_column = by_row + made->rows;
  const unsigned char *dram = machine_dram();
  const float low = (float)(made->low - made->zero), high = (float)(made->high - made->zero);
  int32_t *out = integers[s->made];
  for (int c = 0; c < made->channels; c++) {
    const int32_t bias = (int32_t)tables[l->bias_at + (uint32_t)c];
    const float scale = as_float(tables[l->scale_at + (uint32_t)c]);
    for (int y = 0; y < made->rows; y++)
      for (int x = 0; x < made->columns; x++) {
        uint32_t sum;
        memcpy(&sum, dram + by_channel[c] + by_row[y] + by_column[x], sizeof sum);
        float scaled = (float)(int32_t)(sum + (uint32_t)bias) * scale;
        *out++ = (int32_t)nearbyintf(fminf(fmaxf(scaled, low), high)) + made->zero;
      }
  }
}

static uint64_t launch(const struct launch *l) {
  struct machine_status status;
  machine_regions(tables + l->regions_at, 3);
  for (uint32_t i = 0; i < l->settings; i++) machine_write(settings[2 * (l->settings_at + i)], settings[2 * (l->settings_at + i) + 1]);
  if (machine_run(words + l->words_at, l->array_words, words + l->words_at + l->array_words, l->dma_words, &status)) {
    fprintf(stderr, "launch %s: %s\n", l->name, status.text);
    exit(status.code);
  }
  printf("launch %s cycles %llu predicted %llu\n", l->name, (unsigned long long)status.cycles, (unsigned long long)l->cycles);
  fflush(stdout);
  return status.cycles;
}

int main(int argc, char **argv) {
  size_t bytes, count = 0;
  uint64_t cycles = 0;
  void *image;
  FILE *f;
  if (argc != 4) fail("usage: network IMAGES INPUT OUTPUT", "");
  image = read_file(argv[1], "dram.bin", &bytes);
  if (bytes > DRAM_BYTES || machine_open(DRAM_BYTES)) fail("no machine with the memory of", argv[1]);
  memcpy(machine_dram(), image, bytes);
  free(image);
  settings = read_file(argv[1], "settings.bin", &bytes);
  words = read_file(argv[1], "words.bin", &bytes);
  tables = read_file(argv[1], "tables.bin", &bytes);
  picture = read_file(NULL, argv[2], &bytes);
  if (bytes != sizeof(float) * INPUT_ELEMENTS) fail("not a picture of this network:", argv[2]);
  for (int i = 0; i < VALUES; i++) {
    integers[i] = malloc(sizeof(int32_t) * values[i].channels * values[i].rows * values[i].columns + 4);
    if (!integers[i]) fail("no memory for", "the pictures");
  }
  for (int i = 0; i < STEPS; i++) {
    const struct step *s = &steps[i];
    switch (s->kind) {
      case STEP_QUANTISE: quantise(s); break;
      case STEP_ADD: add(s); break;
      case STEP_MAXIMUM: maximum(s); break;
      case STEP_LAUNCH: pack(s, &launches[s->launch]); cycles += launch(&launches[s->launch]); unpack(s, &launches[s->launch]); count++; break;
      case STEP_LAUNCH_ALONE: cycles += launch(&launches[s->launch]); count++; break;
    }
  }
  f = fopen(argv[3], "wb");
  if (!f) fail("cannot write", argv[3]);
  if (steps[STEPS - 1].kind == STEP_LAUNCH_ALONE) {
    const struct launch *l = &launches[steps[STEPS - 1].launch];
    const uint32_t *region = tables + l->regions_at + 4;
    fwrite(machine_dram() + region[0], 1, region[1] - region[0], f);
  } else {
    const struct value *v = &values[steps[STEPS - 1].made];
    fwrite(integers[steps[STEPS - 1].made], sizeof(int32_t), (size_t)v->channels * v->rows * v->columns, f);
  }
  fclose(f);
  printf("launches %llu cycles %llu\n", (unsigned long long)count, (unsigned long long)cycles);
  return 0;
}
