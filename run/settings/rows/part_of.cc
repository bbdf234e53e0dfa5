#include "run/settings/rows/rows.h"
#include "run/spec/spec.h"

namespace amp {

template <>
ModelSpec& part_of(RunSpec& spec) {
  return spec.model;
}
template <>
ObjectiveSpec& part_of(RunSpec& spec) {
  return spec.objective;
}
template <>
DataSpec& part_of(RunSpec& spec) {
  return spec.data;
}
template <>
TextSpec& part_of(RunSpec& spec) {
  return spec.data.text;
}
template <>
LanguageSpec& part_of(RunSpec& spec) {
  return spec.data.language;
}
template <>
ImageSpec& part_of(RunSpec& spec) {
  return spec.data.images;
}
template <>
TableSpec& part_of(RunSpec& spec) {
  return spec.data.tables;
}
template <>
PrecisionSpec& part_of(RunSpec& spec) {
  return spec.precision;
}
template <>
OptimizationSpec& part_of(RunSpec& spec) {
  return spec.optimization;
}
template <>
ScheduleSpec& part_of(RunSpec& spec) {
  return spec.schedule;
}
template <>
EvaluationSpec& part_of(RunSpec& spec) {
  return spec.evaluation;
}
template <>
OutputSpec& part_of(RunSpec& spec) {
  return spec.output;
}
template <>
DistributionSpec& part_of(RunSpec& spec) {
  return spec.distribution;
}
template <>
DeviceSpec& part_of(RunSpec& spec) {
  return spec.device;
}

}  // namespace amp
