/* Trains a model from batches in memory through the C interface, and the same model from a file, as a job.
 *   train lenet|bert MODEL.onnx FOLDER [SETTINGS [CHECKPOINT]]
 * writes to FOLDER: data.safetensors (the batches in their order), config.json (settings for the command line), fed.onnx
 * (trained from memory), resumed.onnx (trained from memory by two sessions, the second one from the state of the first)
 * and job/ (trained from the file by onnx_amp_run). train.sh compares the models with the command line's. SETTINGS are
 * further members of the JSON object; "" means none. With CHECKPOINT, of step 3, it only writes taken.onnx: the model
 * trained from there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_amp/onnx_amp.h"

enum { STEPS = 6, MICRO = 2, ROWS = 4, SAMPLES = STEPS * MICRO * ROWS, COLUMNS = 4 };

/* Ends the program with the description of an unexpected failure. */
static void require(onnx_amp_status status, const onnx_amp_session *session, const char *call) {
  const onnx_amp_error *e = onnx_amp_last_error(session);
  size_t i;
  if (status == ONNX_AMP_OK) return;
  printf("%s: status %d, %s: %s\n", call, (int)status, e->id, e->fact);
  for (i = 0; i < e->place_count; ++i) printf("  %s\n", e->places[i]);
  printf("  hint: %s\n", e->hint);
  exit(1);
}

/* Returns a pseudo-random number. The sequence is the same on every machine. */
static uint32_t next_number(void) {
  static uint32_t state = 12345;
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

/* A column of the data: one tensor with SAMPLES rows. */
typedef struct {
  const char *name, *dtype; /* the names that safetensors uses */
  onnx_amp_dtype type;
  int32_t rank;
  int64_t dims[4];
  size_t row_bytes;
  char *bytes;
} column;

static void make_floats(column *c, const char *name, int64_t a, int64_t b, int64_t d) {
  size_t i, n = (size_t)(a * b * d);
  column made = {NULL, "F32", ONNX_AMP_FLOAT32, 4, {SAMPLES, 0, 0, 0}, 0, NULL};
  made.name = name;
  made.dims[1] = a, made.dims[2] = b, made.dims[3] = d;
  made.row_bytes = n * sizeof(float);
  made.bytes = malloc(made.row_bytes * SAMPLES);
  for (i = 0; i < n * SAMPLES; ++i) ((float *)made.bytes)[i] = (float)(next_number() % 2048) / 1024.0f - 1.0f;
  *c = made;
}

/* Makes a column of integers from `low` to below `high`: `length` for each sample; one if `length` is 0. */
static void make_integers(column *c, const char *name, int64_t length, int64_t low, int64_t high) {
  size_t i, n = length > 0 ? (size_t)length : 1;
  column made = {NULL, "I64", ONNX_AMP_INT64, 1, {SAMPLES, 0, 0, 0}, 0, NULL};
  made.name = name;
  made.dims[1] = length;
  made.rank = length > 0 ? 2 : 1;
  made.row_bytes = n * sizeof(int64_t);
  made.bytes = malloc(made.row_bytes * SAMPLES);
  for (i = 0; i < n * SAMPLES; ++i) ((int64_t *)made.bytes)[i] = low + (int64_t)(next_number() % (uint32_t)(high - low));
  *c = made;
}

static void write_file(const char *folder, const column *columns, size_t count) {
  char path[1000], header[2000];
  size_t i, at = 0, length = (size_t)sprintf(header, "{");
  int32_t d;
  FILE *file;
  uint64_t size;
  for (i = 0; i < count; ++i) {
    const column *c = &columns[i];
    length += (size_t)sprintf(header + length, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "", c->name, c->dtype);
    for (d = 0; d < c->rank; ++d) length += (size_t)sprintf(header + length, "%s%d", d ? "," : "", (int)c->dims[d]);
    length += (size_t)sprintf(header + length, "],\"data_offsets\":[%lu,%lu]}", (unsigned long)at,
                              (unsigned long)(at + c->row_bytes * SAMPLES));
    at += c->row_bytes * SAMPLES;
  }
  length += (size_t)sprintf(header + length, "}");
  while (length % 8) header[length++] = ' ';
  sprintf(path, "%s/data.safetensors", folder);
  file = fopen(path, "wb");
  if (!file) exit(2);
  size = length;
  fwrite(&size, sizeof size, 1, file);
  fwrite(header, 1, length, file);
  for (i = 0; i < count; ++i) fwrite(columns[i].bytes, columns[i].row_bytes, SAMPLES, file);
  if (fclose(file) != 0) exit(2);
}

/* The tensors of one micro-batch, which point into the columns. */
typedef struct {
  onnx_amp_tensor tensors[COLUMNS];
  int64_t dims[COLUMNS][4];
} micro_batch;

static onnx_amp_batch micro_batch_of(micro_batch *m, const column *columns, size_t count, int index) {
  onnx_amp_batch batch;
  size_t i;
  for (i = 0; i < count; ++i) {
    const column *c = &columns[i];
    memcpy(m->dims[i], c->dims, sizeof m->dims[i]);
    m->dims[i][0] = ROWS;
    m->tensors[i].name = c->name;
    m->tensors[i].dtype = c->type;
    m->tensors[i].rank = c->rank;
    m->tensors[i].dims = m->dims[i];
    m->tensors[i].data = c->bytes + (size_t)(index * ROWS) * c->row_bytes;
  }
  batch.tensors = m->tensors;
  batch.count = count;
  return batch;
}

/* Trains the steps from `first` to before `end`. */
static void train(onnx_amp_session *session, const column *columns, size_t count, int first, int end) {
  micro_batch micro[MICRO];
  onnx_amp_batch batches[MICRO];
  onnx_amp_step result;
  int step, m;
  for (step = first; step < end; ++step) {
    for (m = 0; m < MICRO; ++m) batches[m] = micro_batch_of(&micro[m], columns, count, step * MICRO + m);
    result.size = sizeof result;
    require(onnx_amp_train_step(session, batches, MICRO, &result), session, "onnx_amp_train_step");
    if (result.step != step + 1) exit(3);
    printf("step %d: loss %.9g, norm %.9g, rate %.9g\n", (int)result.step, result.loss, result.grad_norm, result.lr);
  }
}

static onnx_amp_session *open_session(const char *spec) {
  onnx_amp_session *session = NULL;
  require(onnx_amp_open(spec, NULL, &session), NULL, "onnx_amp_open");
  return session;
}

/* Trains the second half of the steps from a checkpoint and writes the model. */
static void continue_from(const char *spec, const char *checkpoint, const column *columns, size_t count, const char *model) {
  onnx_amp_session *session = open_session(spec);
  micro_batch micro;
  const onnx_amp_batch batch = micro_batch_of(&micro, columns, count, 0);
  require(onnx_amp_prepare(session, &batch), session, "onnx_amp_prepare");
  require(onnx_amp_load_state(session, checkpoint), session, "onnx_amp_load_state");
  train(session, columns, count, STEPS / 2, STEPS);
  require(onnx_amp_export(session, model), session, "onnx_amp_export");
  onnx_amp_close(session);
}

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  if (!file) exit(2);
  fputs(text, file);
  if (fclose(file) != 0) exit(2);
}

int main(int argc, char **argv) {
  column columns[COLUMNS];
  char common[1500], spec[3000], path[1000], model[1000];
  size_t count = 0, i;
  onnx_amp_session *session;
  int bert;
  if (argc < 4 || argc > 6 || onnx_amp_abi_version() != ONNX_AMP_ABI_VERSION) return 2;
  bert = strcmp(argv[1], "bert") == 0;
  if (bert) {
    make_integers(&columns[count++], "input_ids", 12, 1, 60);
    make_integers(&columns[count++], "attention_mask", 12, 1, 2);
    make_integers(&columns[count++], "token_type_ids", 12, 0, 2);
  } else {
    make_floats(&columns[count++], "input", 1, 28, 28);
  }
  make_integers(&columns[count++], "label", 0, 0, 2);
  write_file(argv[3], columns, count);
  sprintf(common,
          "\"model\": \"%s\", \"loss\": \"cross_entropy\", \"lr\": 0.001, \"warmup_steps\": 2, \"device\": \"cpu\", "
          "\"max_steps\": %d, \"batch_size\": %d, \"gradient_accumulation_steps\": %d%s%s",
          argv[2], (int)STEPS, (int)ROWS, (int)MICRO, argc > 4 && argv[4][0] ? ", " : "", argc > 4 ? argv[4] : "");

  sprintf(spec, "{%s}", common);
  if (argc > 5) {
    sprintf(model, "%s/taken.onnx", argv[3]);
    continue_from(spec, argv[5], columns, count, model);
    return 0;
  }
  session = open_session(spec);
  train(session, columns, count, 0, STEPS / 2);
  sprintf(path, "%s/state", argv[3]);
  require(onnx_amp_save_state(session, path, NULL), session, "onnx_amp_save_state");
  train(session, columns, count, STEPS / 2, STEPS);
  sprintf(path, "%s/fed.onnx", argv[3]);
  require(onnx_amp_export(session, path), session, "onnx_amp_export");
  onnx_amp_close(session);

  sprintf(path, "%s/state", argv[3]);
  sprintf(model, "%s/resumed.onnx", argv[3]);
  continue_from(spec, path, columns, count, model);

  sprintf(spec, "{%s, \"train\": \"%s/data.safetensors\", \"shuffle\": false, \"output_dir\": \"%s/job\"}", common, argv[3],
          argv[3]);
  require(onnx_amp_run(spec, NULL), NULL, "onnx_amp_run");
  sprintf(spec, "{%s, \"train\": \"%s/data.safetensors\", \"shuffle\": false, \"output_dir\": \"%s/cli\"}\n", common, argv[3],
          argv[3]);
  sprintf(path, "%s/config.json", argv[3]);
  write_text(path, spec);
  for (i = 0; i < count; ++i) free(columns[i].bytes);
  return 0;
}
