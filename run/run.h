// The library: all of it that a program needs to fine-tune, judge, plan, check and export a model.
//
//   amp::RunSpec spec;
//   spec.model = "model.onnx";
//   spec.train = "train.tsv";
//   spec.text_columns = {"text"};
//   const auto run = amp::prepare(spec);      // refuses what could not be done; nothing is written yet
//   const amp::TrainReport report = amp::train(*run);
//
// Errors are thrown as amp::Error (base/error.h). Nothing is printed: messages and progress go to a Host (run/host.h).
#pragma once

#include "base/error.h"
#include "run/bench.h"
#include "run/check.h"
#include "run/check_data.h"
#include "run/evaluate.h"
#include "run/export.h"
#include "run/generate.h"
#include "run/host.h"
#include "run/plan.h"
#include "run/predict.h"
#include "run/prepare.h"
#include "run/settings.h"
#include "run/spec.h"
#include "run/train.h"
