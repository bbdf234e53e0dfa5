#include "trainer/shared_evaluation.h"

#include <cstring>
#include <nlohmann/json.hpp>

namespace amp {

EvaluatedWeights::EvaluatedWeights(Session& session, const HostTensor& evaluated) : session_(session) {
  if (!evaluated) return;
  const HostTensor now = session.host_params();
  kept_ = HostTensor::empty(now.dtype(), now.dims());
  std::memcpy(kept_.mutable_data(), now.data(), static_cast<size_t>(now.bytes()));
  session.set_params(evaluated);
}

EvaluatedWeights::~EvaluatedWeights() {
  if (kept_) session_.set_params(kept_);
}

void share_metrics(Collective& ranks, std::optional<Metrics>& m) {
  nlohmann::json j;
  if (m) j = {{"loss", m->loss}, {"samples", m->samples}, {"values", m->values}, {"brief", m->brief}};
  std::string bytes;
  nlohmann::json::to_cbor(j, bytes);
  ranks.broadcast(bytes, 0);
  if (ranks.leads()) return;
  j = nlohmann::json::from_cbor(bytes);
  if (j.is_null()) return;
  m.emplace();
  m->loss = j.at("loss").get<double>();
  m->samples = j.at("samples").get<int64_t>();
  m->values = j.at("values").get<MetricValues>();
  m->brief = j.at("brief").get<size_t>();
}

}  // namespace amp
