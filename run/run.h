// Public entry point of the library: includes everything to train, evaluate, plan, check and export a model.
//
//   amp::RunSpec spec;
//   spec.model.model = "model.onnx";
//   spec.data.train = "train.tsv";
//   spec.data.text.text_columns = {"text"};
//   const auto run = amp::prepare(spec);      // throws if the run is impossible; writes nothing
//   const amp::TrainReport report = amp::train(*run);
//
// Errors are thrown as amp::Error (base/error.h). Nothing is printed: messages and progress go to a Host (run/host.h).
#pragma once

#include "base/error.h"
#include "run/check/check.h"
#include "run/check/check_data.h"
#include "run/evaluate/bench.h"
#include "run/evaluate/evaluate.h"
#include "run/evaluate/generate.h"
#include "run/evaluate/predict.h"
#include "run/export/export.h"
#include "run/host.h"
#include "run/prepare/plan.h"
#include "run/prepare/prepare.h"
#include "run/settings/settings.h"
#include "run/spec/spec.h"
#include "run/steps/step_session.h"
#include "run/train/train.h"
