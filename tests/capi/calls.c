/* Checks what the calls of the C interface do, beside training: errors and their order, parameters, learning rate, loss
 * scale, evaluation, callbacks.
 *   calls LENET.onnx BERT.onnx FOLDER
 * LeNet has the input "input" (rows, 1, 28, 28). It exits with 0 if everything is as onnx_amp.h says. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_amp/onnx_amp.h"

enum { ROWS = 4, PIXELS = ROWS * 28 * 28 };

static int failures = 0;
static float pixels[PIXELS];
static int64_t labels[ROWS];
static const int64_t image_dims[] = {ROWS, 1, 28, 28}, label_dims[] = {ROWS};

static void expect(int ok, const char *what) {
  if (ok) return;
  printf("FAILED: %s\n", what);
  ++failures;
}

/* Checks that a call failed with this status and id, and left a fact. */
static void expect_error(onnx_amp_status status, const onnx_amp_session *session, onnx_amp_status want, const char *id) {
  const onnx_amp_error *e = onnx_amp_last_error(session);
  if (status == want && e->status == want && strcmp(e->id, id) == 0 && e->fact[0]) return;
  printf("FAILED: status %d (wanted %d), %s (wanted %s): %s\n", (int)status, (int)want, e->id, id, e->fact);
  ++failures;
}

static void expect_ok(onnx_amp_status status, const onnx_amp_session *session, const char *call) {
  const onnx_amp_error *e = onnx_amp_last_error(session);
  if (status == ONNX_AMP_OK) return;
  printf("FAILED: %s: %s: %s\n  hint: %s\n", call, e->id, e->fact, e->hint);
  exit(1);
}

typedef struct {
  int messages, steps;
} counts;

static void count_message(void *user, int32_t level, const char *text) {
  if (level >= ONNX_AMP_DETAIL && level <= ONNX_AMP_WARNING && text[0]) ++((counts *)user)->messages;
}

static void count_step(void *user, const onnx_amp_progress *progress) {
  ++((counts *)user)->steps;
  expect(progress->step >= 1 && progress->step <= 3 && isfinite(progress->loss), "progress after a step");
}

static onnx_amp_session *open_with(const char *model, const char *settings, counts *c) {
  char spec[2000];
  onnx_amp_options options;
  onnx_amp_session *session = NULL;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.user = c;
  options.log = count_message;
  options.progress = count_step;
  sprintf(spec, "{\"model\": \"%s\", \"device\": \"cpu\", \"loss\": \"cross_entropy\", %s}", model, settings);
  expect_ok(onnx_amp_open(spec, &options, &session), NULL, "onnx_amp_open");
  return session;
}

static void check_open(const char *model) {
  char spec[2000];
  onnx_amp_session *session = (onnx_amp_session *)&failures; /* must become null */
  onnx_amp_options options;
  memset(&options, 0, sizeof options);
  expect_error(onnx_amp_open("{}", &options, &session), NULL, ONNX_AMP_USAGE, "E_STRUCT_SIZE");
  expect(session == NULL, "a failed onnx_amp_open() gives no session");
  expect_error(onnx_amp_open(NULL, NULL, &session), NULL, ONNX_AMP_USAGE, "E_NULL");
  expect(session == NULL, "a failed onnx_amp_open() gives no session");
  expect_error(onnx_amp_open("{", NULL, &session), NULL, ONNX_AMP_USAGE, "E_USAGE");
  expect_error(onnx_amp_open("{\"lr\": 1}", NULL, &session), NULL, ONNX_AMP_USAGE, "E_USAGE");
  expect_error(onnx_amp_open("{\"model\": \"no.onnx\", \"max_steps\": 1}", NULL, &session), NULL, ONNX_AMP_USAGE,
               "E_MODEL_OPEN");
  sprintf(spec, "{\"model\": \"%s\", \"learning_rat\": 1}", model);
  expect_error(onnx_amp_open(spec, NULL, &session), NULL, ONNX_AMP_USAGE, "E_USAGE");
  expect(strstr(onnx_amp_last_error(NULL)->hint, "learning_rate") != NULL, "the hint names the nearest key");
  sprintf(spec, "{\"model\": \"%s\", \"max_steps\": 1, \"train\": \"data.safetensors\"}", model);
  expect_error(onnx_amp_open(spec, NULL, &session), NULL, ONNX_AMP_USAGE, "E_USAGE");
  sprintf(spec, "{\"model\": \"%s\"}", model); /* neither max_steps nor samples_per_epoch */
  expect_error(onnx_amp_open(spec, NULL, &session), NULL, ONNX_AMP_USAGE, "E_USAGE");
  sprintf(spec, "{\"model\": \"%s\", \"max_steps\": 1, \"loss\": \"cross_entropy,class_weights=balanced\"}", model);
  expect_error(onnx_amp_open(spec, NULL, &session), NULL, ONNX_AMP_USAGE, "E_FED_DATA");
  expect_error(onnx_amp_prepare(NULL, NULL), NULL, ONNX_AMP_USAGE, "E_NULL");
  onnx_amp_close(NULL);
}

static void check_batches(onnx_amp_session *s, onnx_amp_tensor *tensors, onnx_amp_batch *batch, const char *folder) {
  onnx_amp_tensor input;
  onnx_amp_step step;
  double lr = 0;
  expect(onnx_amp_input_count(s) == 1, "LeNet has one input");
  expect_ok(onnx_amp_input(s, 0, &input), s, "onnx_amp_input");
  expect(strcmp(input.name, "input") == 0 && input.dtype == ONNX_AMP_FLOAT32 && input.rank == 4, "the input");
  expect(input.dims[2] == 28 && input.data == NULL, "the input's dims");
  expect_error(onnx_amp_input(s, 1, &input), s, ONNX_AMP_USAGE, "E_USAGE");
  expect(onnx_amp_parameter_count(s) == 0, "no parameters before preparation");
  expect_error(onnx_amp_get_lr(s, &lr), s, ONNX_AMP_USAGE, "E_NOT_PREPARED");
  expect_error(onnx_amp_export(s, folder), s, ONNX_AMP_USAGE, "E_NOT_PREPARED");
  expect_error(onnx_amp_train_step(s, batch, 0, NULL), s, ONNX_AMP_USAGE, "E_USAGE");
  batch->count = 1;
  expect_error(onnx_amp_prepare(s, batch), s, ONNX_AMP_DATA, "E_DATA_COLUMN"); /* no label */
  batch->count = 2;
  tensors[0].name = "inputs";
  expect_error(onnx_amp_prepare(s, batch), s, ONNX_AMP_DATA, "E_DATA_COLUMN");
  expect(strstr(onnx_amp_last_error(s)->hint, "'input'") || strstr(onnx_amp_last_error(s)->hint, "inputs"), "hint");
  tensors[0].name = "input";
  tensors[0].rank = 3;
  expect_error(onnx_amp_prepare(s, batch), s, ONNX_AMP_DATA, "E_DATA_SHAPE");
  tensors[0].rank = 4;
  tensors[0].dtype = 99;
  expect_error(onnx_amp_prepare(s, batch), s, ONNX_AMP_USAGE, "E_USAGE");
  tensors[0].dtype = ONNX_AMP_FLOAT32;
  labels[2] = 10;
  expect_error(onnx_amp_prepare(s, batch), s, ONNX_AMP_DATA, "E_DATA_LABEL");
  labels[2] = 1;
  pixels[5] = NAN;
  expect_error(onnx_amp_prepare(s, batch), s, ONNX_AMP_DATA, "E_DATA_NONFINITE");
  pixels[5] = 0;
  expect_ok(onnx_amp_prepare(s, batch), s, "onnx_amp_prepare");
  expect_ok(onnx_amp_prepare(s, batch), s, "a second onnx_amp_prepare");
  step.size = offsetof(onnx_amp_step, loss); /* as a program that was compiled with an earlier header */
  step.loss = -1;
  expect_ok(onnx_amp_train_step(s, batch, 1, &step), s, "onnx_amp_train_step");
  expect(step.step == 1 && step.applied == 1 && step.loss == -1, "members beyond `size` stay");
}

static void check_values(onnx_amp_session *s, const onnx_amp_batch *batch) {
  onnx_amp_parameter p;
  onnx_amp_evaluation before, after, whole;
  onnx_amp_tensor output;
  const char *metrics = NULL;
  float *values, scale = 0;
  double lr = 0;
  size_t i, trained = 0;
  expect(onnx_amp_parameter_count(s) > 4, "LeNet has parameters");
  p.size = sizeof p;
  for (i = 0; i < onnx_amp_parameter_count(s); ++i) {
    expect_ok(onnx_amp_parameter_info(s, i, &p), s, "onnx_amp_parameter_info");
    trained += p.trained != 0;
  }
  expect(trained == onnx_amp_parameter_count(s), "all are trained");
  expect_ok(onnx_amp_parameter_info(s, 0, &p), s, "onnx_amp_parameter_info");
  values = malloc((size_t)p.elements * sizeof *values);
  expect_error(onnx_amp_get_parameter(s, "none", values, 1), s, ONNX_AMP_USAGE, "E_PARAMETER");
  expect_error(onnx_amp_get_parameter(s, p.name, values, (size_t)p.elements + 1), s, ONNX_AMP_USAGE, "E_PARAMETER");
  expect_ok(onnx_amp_get_parameter(s, p.name, values, (size_t)p.elements), s, "onnx_amp_get_parameter");
  before.size = after.size = whole.size = sizeof before;
  expect_error(onnx_amp_eval_finish(s, &before, &metrics), s, ONNX_AMP_USAGE, "E_USAGE");
  expect_ok(onnx_amp_eval_step(s, batch, &before), s, "onnx_amp_eval_step");
  for (i = 0; i < (size_t)p.elements; ++i) values[i] += 0.5f;
  expect_ok(onnx_amp_set_parameter(s, p.name, values, (size_t)p.elements), s, "onnx_amp_set_parameter");
  expect_ok(onnx_amp_eval_step(s, batch, &after), s, "onnx_amp_eval_step");
  expect(before.loss != after.loss && before.samples == ROWS, "a parameter changes the loss");
  for (i = 0; i < (size_t)p.elements; ++i) values[i] -= 0.5f;
  expect_ok(onnx_amp_eval_finish(s, &whole, &metrics), s, "onnx_amp_eval_finish");
  expect(whole.samples == 2 * ROWS && fabs(whole.loss - (before.loss + after.loss) / 2) < 1e-6, "the mean loss");
  expect(metrics && strstr(metrics, "\"accuracy\":") && strstr(metrics, "\"loss\":"), "the metrics");
  expect(onnx_amp_output_count(s) == 1, "one output");
  expect_ok(onnx_amp_output(s, 0, &output), s, "onnx_amp_output");
  expect(output.rank == 2 && output.dims[0] == ROWS && output.dims[1] == 10 && output.data, "logits");
  free(values);

  expect_ok(onnx_amp_set_lr(s, 0.0123), s, "onnx_amp_set_lr");
  expect_ok(onnx_amp_get_lr(s, &lr), s, "onnx_amp_get_lr");
  expect(lr == 0.0123, "the rate is the one that was set");
  expect_error(onnx_amp_set_lr(s, -1), s, ONNX_AMP_USAGE, "E_LR");
  expect_ok(onnx_amp_get_loss_scale(s, &scale), s, "onnx_amp_get_loss_scale");
  expect(scale == 65536, "the loss scale of fp16");
  expect_ok(onnx_amp_set_loss_scale(s, 1024), s, "onnx_amp_set_loss_scale");
  expect_ok(onnx_amp_get_loss_scale(s, &scale), s, "onnx_amp_get_loss_scale");
  expect(scale == 1024, "the loss scale is the one that was set");
  expect_error(onnx_amp_set_loss_scale(s, 0), s, ONNX_AMP_USAGE, "E_LOSS_SCALE");
}

/* A step uses the rate and the scale that were set; a state of the session restores both. */
static void check_state(onnx_amp_session *s, const onnx_amp_batch *batch, const char *model, const char *folder) {
  char path[1000];
  counts c = {0, 0};
  onnx_amp_step step, again;
  const char *saved = NULL;
  onnx_amp_session *other;
  step.size = again.size = sizeof step;
  sprintf(path, "%s/states", folder);
  expect_ok(onnx_amp_save_state(s, path, &saved), s, "onnx_amp_save_state");
  expect(saved && strstr(saved, "checkpoint-1"), "the checkpoint's path");
  expect_error(onnx_amp_load_state(s, folder), s, ONNX_AMP_CHECKPOINT, "E_CKPT_MISSING");
  expect_ok(onnx_amp_train_step(s, batch, 1, &step), s, "onnx_amp_train_step");
  expect(step.lr == 0.0123 && step.loss_scale == 1024, "the step's rate and scale");
  expect_ok(onnx_amp_load_state(s, saved), s, "onnx_amp_load_state");
  expect_ok(onnx_amp_train_step(s, batch, 1, &again), s, "onnx_amp_train_step");
  expect(memcmp(&step, &again, sizeof step) == 0, "the step after a load is the same");
  other = open_with(model, "\"max_steps\": 9, \"lr_scheduler\": \"constant\", \"lr\": 0.5", &c);
  expect_ok(onnx_amp_prepare(other, batch), other, "onnx_amp_prepare");
  expect_error(onnx_amp_load_state(other, saved), other, ONNX_AMP_CHECKPOINT, "E_CKPT_MISMATCH");
  expect_error(onnx_amp_set_loss_scale(other, 2), other, ONNX_AMP_USAGE, "E_LOSS_SCALE");
  sprintf(path, "%s/no/such/folder/model.onnx", folder);
  expect_error(onnx_amp_export(other, path), other, ONNX_AMP_STORAGE, "E_WRITE");
  onnx_amp_close(other);
}

/* Texts become the ids of a vocabulary that this test writes. */
static void check_text(const char *model, const char *folder) {
  static const char *const words[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "##s"};
  static const char *const texts[] = {"Good films", "bad"}, *const pairs[] = {"film", "good good"};
  static const int64_t ids[] = {2, 4, 6, 7, 3, 6, 3}; /* [CLS] good film ##s [SEP] film [SEP] */
  static const int64_t more_ids[] = {2, 5, 3, 4, 4, 3};
  char path[1000], settings[1200];
  counts c = {0, 0};
  const onnx_amp_batch *batch = NULL;
  onnx_amp_session *s;
  size_t i;
  int found = 0;
  FILE *file;
  sprintf(path, "%s/vocab.txt", folder);
  file = fopen(path, "w");
  if (!file) exit(2);
  for (i = 0; i < sizeof words / sizeof *words; ++i) fprintf(file, "%s\n", words[i]);
  fclose(file);
  s = open_with(model, "\"max_steps\": 1", &c);
  expect_error(onnx_amp_encode(s, texts, pairs, 2, &batch), s, ONNX_AMP_USAGE, "E_USAGE"); /* no tokenizer */
  onnx_amp_close(s);
  sprintf(settings, "\"max_steps\": 1, \"vocab\": \"%s\"", path);
  s = open_with(model, settings, &c);
  expect_error(onnx_amp_encode(s, texts, pairs, 0, &batch), s, ONNX_AMP_USAGE, "E_USAGE");
  expect_ok(onnx_amp_encode(s, texts, pairs, 2, &batch), s, "onnx_amp_encode");
  for (i = 0; i < batch->count; ++i) {
    const onnx_amp_tensor *t = &batch->tensors[i];
    const int64_t *data = t->data;
    expect(t->dtype == ONNX_AMP_INT64 && t->rank == 2 && t->dims[0] == 2, "an input of two rows");
    if (strcmp(t->name, "input_ids") == 0)
      found |= memcmp(data, ids, sizeof ids) == 0 && memcmp(data + t->dims[1], more_ids, sizeof more_ids) == 0;
    if (strcmp(t->name, "attention_mask") == 0) found |= data[6] == 1 && data[7] == 0 ? 2 : 0;
    if (strcmp(t->name, "token_type_ids") == 0) found |= data[4] == 0 && data[5] == 1 ? 4 : 0;
  }
  expect(batch->count == 3 && found == 7, "ids, mask and types of pairs");
  onnx_amp_close(s);
}

typedef struct {
  int steps, results, stopped;
} job;

static void count_job_step(void *user, const onnx_amp_progress *progress) {
  ((job *)user)->steps = (int)progress->step;
}
static int32_t stop_in_third_step(void *user) { return ((job *)user)->steps == 2; }
static void take_result(void *user, const char *json) {
  ++((job *)user)->results;
  ((job *)user)->stopped = strstr(json, "\"stopped\":true") != NULL;
  expect(strstr(json, "\"model\":") && strstr(json, "\"steps\":"), "the result of a job");
}

/* A job stops on request, continues from its checkpoint, and misses a gate. */
static void check_job(const char *model, const char *folder) {
  char spec[5000], common[4000], data[1000];
  job j = {0, 0, 0};
  onnx_amp_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.user = &j;
  options.progress = count_job_step;
  options.stop = stop_in_third_step;
  options.result = take_result;
  sprintf(data, "%.*sbatch.safetensors", (int)(strlen(model) - strlen("model.onnx")), model);
  sprintf(common,
          "\"model\": \"%s\", \"train\": \"%s\", \"val\": \"%s\", \"device\": \"cpu\", \"loss\": \"cross_entropy\", "
          "\"max_steps\": 4",
          model, data, data);
  sprintf(spec, "{%s, \"output_dir\": \"%s/job\"}", common, folder);
  expect_error(onnx_amp_run(spec, &options), NULL, ONNX_AMP_STOPPED, "E_STOPPED");
  expect(j.steps == 3 && j.results == 1 && j.stopped, "a stopped job");
  sprintf(spec, "{%s, \"output_dir\": \"%s/job\", \"resume\": \"auto\"}", common, folder);
  options.stop = NULL;
  expect_ok(onnx_amp_run(spec, &options), NULL, "onnx_amp_run");
  expect(j.steps == 4 && j.results == 2 && !j.stopped, "a resumed job");
  sprintf(spec, "{%s, \"output_dir\": \"%s/gate\", \"require\": \"accuracy>2\"}", common, folder);
  expect_error(onnx_amp_run(spec, &options), NULL, ONNX_AMP_GATE, "E_GATE");
  sprintf(spec, "{\"model\": \"%s\"}", model);
  expect_error(onnx_amp_run(spec, NULL), NULL, ONNX_AMP_USAGE, "E_USAGE"); /* no data */
}

int main(int argc, char **argv) {
  counts c = {0, 0};
  onnx_amp_session *s;
  onnx_amp_tensor tensors[2];
  onnx_amp_batch batch;
  int i;
  if (argc != 4) return 2;
  for (i = 0; i < PIXELS; ++i) pixels[i] = (float)((i * 7919) % 2048) / 1024.0f - 1.0f;
  for (i = 0; i < ROWS; ++i) labels[i] = i % 2;
  memset(tensors, 0, sizeof tensors);
  tensors[0].name = "input", tensors[0].dtype = ONNX_AMP_FLOAT32, tensors[0].rank = 4;
  tensors[0].dims = image_dims, tensors[0].data = pixels;
  tensors[1].name = "label", tensors[1].dtype = ONNX_AMP_INT64, tensors[1].rank = 1;
  tensors[1].dims = label_dims, tensors[1].data = labels;
  batch.tensors = tensors, batch.count = 2;
  expect(onnx_amp_abi_version() == ONNX_AMP_ABI_VERSION, "the ABI version");
  expect(onnx_amp_version()[strspn(onnx_amp_version(), "0123456789.")] == 0, "the version");
  expect(onnx_amp_last_error(NULL)->status == ONNX_AMP_OK, "no error before the first call");
  check_open(argv[1]);
  s = open_with(argv[1], "\"max_steps\": 9, \"lr_scheduler\": \"constant\", \"use_fp16\": true", &c);
  check_batches(s, tensors, &batch, argv[3]);
  check_values(s, &batch);
  check_state(s, &batch, argv[1], argv[3]);
  expect(c.steps == 3 && c.messages > 0, "one call of progress for each step");
  onnx_amp_close(s);
  check_text(argv[2], argv[3]);
  check_job(argv[1], argv[3]);
  printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
