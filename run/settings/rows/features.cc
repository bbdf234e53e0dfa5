// Settings of tables of features (docs/tables.md).
#include "data/features/forms.h"
#include "run/settings/rows/rows.h"
#include "run/spec/tables.h"

namespace amp {

std::vector<Setting> feature_settings() {
  return {
      setting("categorical", &TableSpec::categorical,
              "Table columns that are categories, in the order of the model's input. If `categorical` and `continuous` "
              "are both left out, columns and their kinds are guessed; otherwise only the named columns are features.")
          .shown_as("NAME")
          .by_commas()
          .read_by(kTableJobs)
          .also({"cat_names", "categorical_columns"}),
      setting("continuous", &TableSpec::continuous,
              "Table columns that are numbers, in the order of the model's input. If `categorical` and `continuous` "
              "are both left out, columns and their kinds are guessed; otherwise only the named columns are features.")
          .shown_as("NAME")
          .by_commas()
          .read_by(kTableJobs)
          .also({"cont_names", "continuous_columns"}),
      setting("date", &TableSpec::date,
              "Table columns of dates; their parts (Year, Month, Dayofweek, Is_month_end, Elapsed ...) become columns. "
              "Default: dates are found if all columns are guessed.")
          .shown_as("NAME")
          .by_commas()
          .read_by(kTableJobs),
      setting("target", &TableSpec::target,
              "Column that a model of tables predicts, as a number or a class. Default: `label_column`.")
          .shown_as("NAME")
          .read_by(kTableJobs)
          .in_short_help()
          .also({"y_names", "target_column"}),
      setting("target_transform", &TableSpec::target_transform,
              "Transform of the target y in training. log: log y; log1p: log(1 + y); standard: mean 0 and standard "
              "deviation 1; none: y itself. Metrics and predictions stay in the target's own units.")
          .one_of(target_names().names())
          .read_by(kTableJobs),
      setting("join", &TableSpec::join,
              "Second file whose columns are added to the rows with the same key: store.csv:Store, "
              "weather.csv:State,Date, or store.csv:Store=Id if the key is named Id in that file. Default: none.")
          .shown_as("FILE:KEY")
          .read_by(kTableJobs),
      setting("fill_missing", &TableSpec::fill_missing,
              "Statistic of a column's training data that replaces its missing numbers.")
          .one_of(filling_names().names())
          .read_by(jobs(Job::train, Job::plan, Job::build)),
      setting("feature_scaling", &TableSpec::feature_scaling,
              "Scaling of continuous columns. standard: mean 0 and standard deviation 1; quantiles: quantiles from 0 "
              "to 1; none: unchanged.")
          .one_of(scaling_names().names())
          .read_by(jobs(Job::train, Job::plan, Job::build)),
  };
}

}  // namespace amp
