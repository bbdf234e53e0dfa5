// Settings of tables of features (docs/tables.md).
#include "data/features/forms.h"
#include "run/settings/rows/rows.h"
#include "run/spec/tables.h"

namespace amp {

std::vector<Setting> feature_settings() {
  return {
      setting("categorical", &TableSpec::categorical,
              "Table columns that are categories, in the order of the model's input. With `continuous`: all features; "
              "without both: guessed.")
          .shown_as("NAME")
          .by_commas()
          .read_by(kFeed)
          .also({"cat_names", "categorical_columns"}),
      setting("continuous", &TableSpec::continuous,
              "Table columns that are numbers, in the order of the model's input.")
          .shown_as("NAME")
          .by_commas()
          .read_by(kFeed)
          .also({"cont_names", "continuous_columns"}),
      setting("date", &TableSpec::date,
              "Columns of dates; their parts (Year, Month, Dayofweek, Is_month_end, Elapsed ...) become columns.")
          .shown_as("NAME")
          .by_commas()
          .read_by(kFeed),
      setting("target", &TableSpec::target, "Column that a table's model predicts, a number or a class.")
          .shown_as("NAME")
          .read_by(kFeed)
          .also({"y_names", "target_column"}),
      setting("target_transform", &TableSpec::target_transform,
              "Train on log y, log(1 + y) or standardized y. Metrics and predictions are in the target's own units.")
          .one_of(target_names().names())
          .read_by(kFeed),
      setting("join", &TableSpec::join,
              "Second file whose columns are added to the rows with the same key: store.csv:Store, "
              "weather.csv:State,Date, or store.csv:Store=Id.")
          .shown_as("FILE:KEY")
          .read_by(kFeed),
      setting("fill_missing", &TableSpec::fill_missing,
              "Replacement for missing numbers, computed from the training data.")
          .one_of(filling_names().names())
          .read_by(jobs(Job::train, Job::plan)),
      setting("feature_scaling", &TableSpec::feature_scaling,
              "Scale of continuous columns: mean 0 and deviation 1, quantiles from 0 to 1, or unchanged.")
          .one_of(scaling_names().names())
          .read_by(jobs(Job::train, Job::plan)),
  };
}

}  // namespace amp
