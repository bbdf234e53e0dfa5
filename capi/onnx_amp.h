/* C interface of onnx-amp-finetune: fine-tunes ONNX models in mixed precision, from files or from batches in memory.
 *
 *   onnx_amp_session *s = NULL;
 *   onnx_amp_open("{\"model\": \"lenet.onnx\", \"loss\": \"cross_entropy\", \"max_steps\": 100}", NULL, &s);
 *   onnx_amp_train_step(s, &batch, 1, NULL);
 *   onnx_amp_export(s, "trained.onnx");
 *   onnx_amp_close(s);
 *
 * Status    Every function that can fail returns an onnx_amp_status: ONNX_AMP_OK or the exit code that the command line
 *           would end with. onnx_amp_last_error() describes the failure. No exception leaves the library.
 * Ownership The library copies what it gets before a call returns. Pointers that it returns belong to the library; each
 *           function says how long they are valid. Only sessions must be freed, by onnx_amp_close().
 * Threads   A session may be used by one thread at a time. Different sessions may be used by different threads at the
 *           same time. The number of compute threads (`threads`) is set for the thread that opens the session; it does
 *           not change results. Limits of sizes (`max_graph_nodes`, ...) are those of the session opened last.
 * Versions  ONNX_AMP_ABI_VERSION changes if a program must be compiled again. Structs may get members at their end:
 *           set `size` to sizeof(the struct), and the library reads and writes only that many bytes.
 * Strings   are UTF-8 and end with a zero byte.
 * Process   The library installs no signal handlers, reads no environment variables for settings, and prints nothing.
 */
#ifndef ONNX_AMP_H
#define ONNX_AMP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __GNUC__
#define ONNX_AMP_API __attribute__((visibility("default")))
#else
#define ONNX_AMP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ONNX_AMP_ABI_VERSION 1

/* Status codes; they equal the exit codes of the command line. */
typedef int32_t onnx_amp_status;
enum {
  ONNX_AMP_OK = 0,
  ONNX_AMP_INTERNAL = 1,    /* a bug of the library */
  ONNX_AMP_USAGE = 2,       /* wrong settings, arguments (null pointers too) or order of calls */
  ONNX_AMP_MODEL = 3,       /* the model file is malformed or unsafe */
  ONNX_AMP_UNSUPPORTED = 4, /* the model is valid, but cannot be trained */
  ONNX_AMP_DATA = 5,        /* a batch or a data file is wrong */
  ONNX_AMP_CHECKPOINT = 6,  /* no usable checkpoint */
  ONNX_AMP_STORAGE = 7,     /* writing failed */
  ONNX_AMP_NUMERICAL = 8,   /* training diverged */
  ONNX_AMP_MEMORY = 9,
  ONNX_AMP_DISTRIBUTED = 10,
  ONNX_AMP_LOCKED = 11, /* another process holds the output folder */
  ONNX_AMP_GATE = 12,   /* a quality gate (`require`) was missed */
  ONNX_AMP_STOPPED = 75 /* stopped on request, and a checkpoint holds all steps */
};

/* Element types, with the numbers of ONNX's TensorProto.DataType. */
typedef int32_t onnx_amp_dtype;
enum {
  ONNX_AMP_FLOAT32 = 1,
  ONNX_AMP_UINT8 = 2,
  ONNX_AMP_INT8 = 3,
  ONNX_AMP_UINT16 = 4,
  ONNX_AMP_INT16 = 5,
  ONNX_AMP_INT32 = 6,
  ONNX_AMP_INT64 = 7,
  ONNX_AMP_BOOL = 9,
  ONNX_AMP_FLOAT16 = 10,
  ONNX_AMP_FLOAT64 = 11,
  ONNX_AMP_UINT32 = 12,
  ONNX_AMP_UINT64 = 13,
  ONNX_AMP_BFLOAT16 = 16
};

/* Levels of messages, in rising order. */
enum { ONNX_AMP_DETAIL = 0, ONNX_AMP_INFO = 1, ONNX_AMP_NOTE = 2, ONNX_AMP_WARNING = 3 };

/* A session: a model in training. */
typedef struct onnx_amp_session onnx_amp_session;

/* The description of a failed call. Strings are never null. */
typedef struct onnx_amp_error {
  onnx_amp_status status;
  const char* id;            /* such as "E_DATA_COLUMN"; the same in all versions */
  const char* fact;          /* what is wrong; settings are named in backquotes */
  const char* const* places; /* where it occurred, innermost first */
  size_t place_count;
  const char* hint; /* what to do; may be empty */
} onnx_amp_error;

/* Progress after a training step, for the callback `progress`. */
typedef struct onnx_amp_progress {
  int64_t step;  /* completed steps */
  int64_t total; /* steps of the whole run */
  double epoch;
  double loss;
  double lr;
  double seconds; /* since training began, without evaluations */
  double samples_per_second;
  int64_t skipped; /* number of steps that were skipped by loss scaling */
} onnx_amp_progress;

/* Options of a session or a job. Callbacks may be null. They are called on the thread that called the library, must not
 * throw, and must not use the session; the strings passed to them are valid only during the call. `log` may also be
 * called by other threads, by one at a time. */
typedef struct onnx_amp_options {
  size_t size;               /* sizeof(onnx_amp_options) */
  int64_t samples_per_epoch; /* needed by settings in epochs; 0: only `max_steps` ends the training */
  void* user;                /* passed to the callbacks */
  void (*log)(void* user, int32_t level, const char* text); /* one line, without newline */
  void (*progress)(void* user, const onnx_amp_progress* progress);
  int32_t (*stop)(void* user);                  /* nonzero stops a job after the current step, with a checkpoint */
  void (*result)(void* user, const char* json); /* called once when onnx_amp_run() succeeds or is stopped */
} onnx_amp_options;

/* A tensor in memory; row-major and contiguous. */
typedef struct onnx_amp_tensor {
  const char* name; /* name of a graph input or of a label ("label" if the loss names no other) */
  onnx_amp_dtype dtype;
  int32_t rank;        /* number of dims */
  const int64_t* dims; /* may be null if rank is 0 */
  const void* data;
} onnx_amp_tensor;

/* A micro-batch: the inputs and labels of some rows. The tensors may be in any order. */
typedef struct onnx_amp_batch {
  const onnx_amp_tensor* tensors;
  size_t count;
} onnx_amp_batch;

/* The result of onnx_amp_train_step(). */
typedef struct onnx_amp_step {
  size_t size;     /* sizeof(onnx_amp_step), set by the caller */
  int64_t step;    /* number of steps so far, this one included */
  int64_t applied; /* number of steps that changed the weights */
  double loss;
  double grad_norm; /* norm before clipping */
  double lr;
  double loss_scale; /* the scale that this step used */
  int32_t skipped;   /* nonzero: gradients were not finite and nothing was changed */
  int32_t reserved;
} onnx_amp_step;

/* The result of an evaluation of one batch or of several. */
typedef struct onnx_amp_evaluation {
  size_t size; /* sizeof(onnx_amp_evaluation), set by the caller */
  double loss;
  int64_t samples;
} onnx_amp_evaluation;

/* A parameter of the model. */
typedef struct onnx_amp_parameter {
  size_t size;         /* sizeof(onnx_amp_parameter), set by the caller */
  const char* name;    /* the tensor's name in the model file */
  const int64_t* dims; /* name and dims are valid until the session is closed */
  int32_t rank;
  int32_t trained;   /* nonzero: the optimizer changes it */
  int32_t statistic; /* nonzero: a running statistic, which training changes without a gradient */
  int32_t reserved;
  int64_t elements;
} onnx_amp_parameter;

/* Returns the version of the program, such as "0.2.0". The text is valid until the process ends. Thread-safe. */
ONNX_AMP_API const char* onnx_amp_version(void);

/* Returns the ABI version of the library. A program works with the library if this equals the ONNX_AMP_ABI_VERSION with
 * which the program was compiled. Thread-safe. */
ONNX_AMP_API int32_t onnx_amp_abi_version(void);

/* Returns the last failure of a call with this session. With null, returns the last failure on this thread of
 * onnx_amp_open(), onnx_amp_run() or a call with a null session. Never null; without a failure its status is
 * ONNX_AMP_OK. Valid until the next call that fails with the same session (null: on this thread), or its close. */
ONNX_AMP_API const onnx_amp_error* onnx_amp_last_error(const onnx_amp_session* session);

/* Opens a model for training. spec: a JSON object with the keys of a configuration file of the command line (--config);
 * "model" is required; "train", "val" and other settings that name data are errors. options may be null. Reads the
 * model file and checks all settings; writes nothing. On success *session must be freed with onnx_amp_close(); on
 * failure it is null. Errors: those of the command line before training. Thread-safe. */
ONNX_AMP_API onnx_amp_status onnx_amp_open(const char* spec, const onnx_amp_options* options,
                                           onnx_amp_session** session);

/* Frees a session; null is allowed. No thread may use the session any more. */
ONNX_AMP_API void onnx_amp_close(onnx_amp_session* session);

/* Returns the number of graph inputs that a batch must hold. */
ONNX_AMP_API size_t onnx_amp_input_count(const onnx_amp_session* session);

/* Describes input `index`: name, the model's element type, rank and dims. A dim of -1 stands for any size, a rank of -1
 * for an unknown rank. data is null. The pointers are valid as long as the session. A batch may hold other types of the
 * same kind: any integers for integers, any numbers for floating-point inputs. Fails with ONNX_AMP_USAGE for an index
 * out of range. */
ONNX_AMP_API onnx_amp_status onnx_amp_input(onnx_amp_session* session, size_t index, onnx_amp_tensor* input);

/* Encodes texts as the program encodes a table with one text column, or two if `pairs` is not null: token ids, mask and
 * types, padded as `pad_to_multiple` says. The tokenizer is that of `tokenizer`, `vocab` or the model's folder. *batch
 * receives the model's inputs without labels: copy its tensors to an array of your own and add the label. It is valid
 * until the next onnx_amp_encode() of the session or its close. Works before preparation. Errors: ONNX_AMP_USAGE
 * without a tokenizer; ONNX_AMP_DATA if a text is not UTF-8, or if the model has inputs that texts do not give. */
ONNX_AMP_API onnx_amp_status onnx_amp_encode(onnx_amp_session* session, const char* const* texts,
                                             const char* const* pairs, size_t count, const onnx_amp_batch** batch);

/* Prepares the session: compiles the training step for batches like this one, and allocates weights, gradients and
 * the optimizer's state. The batch must be valid, with labels; it is copied, and an export compares outputs on it.
 * Does nothing if the session is prepared already. onnx_amp_train_step() prepares a session by its first
 * micro-batch. Other functions below fail with ONNX_AMP_USAGE if it is not prepared. Errors: ONNX_AMP_DATA (wrong
 * batch), ONNX_AMP_MEMORY. */
ONNX_AMP_API onnx_amp_status onnx_amp_prepare(onnx_amp_session* session, const onnx_amp_batch* batch);

/* Computes one optimizer step. The loss is the mean over the items of all `count` micro-batches, so they equal one
 * large batch. step may be null. The results have the same bits as the command line's on the same batches. Errors:
 * ONNX_AMP_DATA for a wrong batch (nothing changed), ONNX_AMP_NUMERICAL if training diverged, ONNX_AMP_MEMORY. */
ONNX_AMP_API onnx_amp_status onnx_amp_train_step(onnx_amp_session* session, const onnx_amp_batch* micro_batches,
                                                 size_t count, onnx_amp_step* step);

/* Evaluates a batch without training. evaluation receives the batch's loss and number of samples, and may be null. */
ONNX_AMP_API onnx_amp_status onnx_amp_eval_step(onnx_amp_session* session, const onnx_amp_batch* batch,
                                                onnx_amp_evaluation* evaluation);

/* Ends an evaluation: evaluation (may be null) receives the loss and number of samples of all batches since the last
 * onnx_amp_eval_finish(). *metrics (metrics may be null) receives a JSON object {"accuracy": 0.9, ...} that is valid
 * until the next onnx_amp_eval_finish() of the session or its close. Fails with ONNX_AMP_USAGE without a batch. */
ONNX_AMP_API onnx_amp_status onnx_amp_eval_finish(onnx_amp_session* session, onnx_amp_evaluation* evaluation,
                                                  const char** metrics);

/* Returns how many outputs the last onnx_amp_eval_step() has: those that the loss reads. 0 before the first call. */
ONNX_AMP_API size_t onnx_amp_output_count(const onnx_amp_session* session);

/* Describes output `index` of the last onnx_amp_eval_step(). The pointers are valid until the next such call. */
ONNX_AMP_API onnx_amp_status onnx_amp_output(onnx_amp_session* session, size_t index, onnx_amp_tensor* output);

/* Get and set the learning rate of the next step. onnx_amp_set_lr() multiplies the schedule by a factor, so that the
 * next step has this rate. The factor also applies to later steps, and a saved state contains it. With `lr_scheduler`
 * constant and no warm-up the rate then stays the same. Fails with ONNX_AMP_USAGE for a negative rate, or if the
 * schedule's rate is 0 now and `lr` is not. */
ONNX_AMP_API onnx_amp_status onnx_amp_get_lr(onnx_amp_session* session, double* lr);
ONNX_AMP_API onnx_amp_status onnx_amp_set_lr(onnx_amp_session* session, double lr);

/* Get and set the loss scale of the next step; 1 without loss scaling. onnx_amp_set_loss_scale() fails with
 * ONNX_AMP_USAGE if the run has no dynamic loss scale, or if the scale is not in `min_loss_scale` to
 * `max_loss_scale`. */
ONNX_AMP_API onnx_amp_status onnx_amp_get_loss_scale(onnx_amp_session* session, float* scale);
ONNX_AMP_API onnx_amp_status onnx_amp_set_loss_scale(onnx_amp_session* session, float scale);

/* Returns the number of parameters, including running statistics; 0 for a session that is not prepared. */
ONNX_AMP_API size_t onnx_amp_parameter_count(const onnx_amp_session* session);

/* Describes parameter `index`, in the order of the model file. */
ONNX_AMP_API onnx_amp_status onnx_amp_parameter_info(onnx_amp_session* session, size_t index,
                                                     onnx_amp_parameter* parameter);

/* Copy a parameter's fp32 values to or from `values`, which holds `elements` floats. They fail with ONNX_AMP_USAGE for
 * a wrong name or number of elements. Setting a parameter leaves the optimizer's state as it is. */
ONNX_AMP_API onnx_amp_status onnx_amp_get_parameter(onnx_amp_session* session, const char* name, float* values,
                                                    size_t elements);
ONNX_AMP_API onnx_amp_status onnx_amp_set_parameter(onnx_amp_session* session, const char* name, const float* values,
                                                    size_t elements);

/* Writes a checkpoint, FOLDER/checkpoint-N: weights, optimizer, schedule, loss scale. It becomes visible only when it
 * is complete. *path (path may be null) receives the checkpoint's path, valid until the next save or the close. The
 * command line continues from the checkpoint with --resume FOLDER. */
ONNX_AMP_API onnx_amp_status onnx_amp_save_state(onnx_amp_session* session, const char* folder, const char** path);

/* Continues from a checkpoint folder, or from the newest usable checkpoint in a folder. The command line may have
 * written it, with the same model and settings. Fails with ONNX_AMP_CHECKPOINT, leaving the session unchanged, if there
 * is no checkpoint, if it is damaged, or if it is from another run. */
ONNX_AMP_API onnx_amp_status onnx_amp_load_state(onnx_amp_session* session, const char* path);

/* Writes the model with the current weights, or with those that `export_weights` names, in the types of
 * `export_precision`. A failure leaves no partial file. With `verify_export` (the default), the file is run and its
 * outputs are compared with the session's. */
ONNX_AMP_API onnx_amp_status onnx_amp_export(onnx_amp_session* session, const char* path);

/* Runs a whole training job from files, as the command line does: writes model.onnx, checkpoints, metrics and report to
 * `output_dir`. spec: a JSON object with the keys of --config; "model" and "train" are required. options->result
 * receives {"model": path, "steps": .., "stopped": .., "metrics": {..}}. Returns ONNX_AMP_STOPPED if options->stop or
 * `max_minutes` ended the job with a checkpoint; a job with "resume": "auto" continues it. Returns ONNX_AMP_GATE if a
 * gate of `require` was missed. Thread-safe for different output folders (else ONNX_AMP_LOCKED). */
ONNX_AMP_API onnx_amp_status onnx_amp_run(const char* spec, const onnx_amp_options* options);

#ifdef __cplusplus
}
#endif

#endif
