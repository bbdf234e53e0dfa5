#include "trainer/comm/evaluation.h"

#include <cstring>
#include <string>
#include <utility>

#include "trainer/comm/tensor_bytes.h"

namespace amp {

namespace {

std::string pack_batch(const EvaluatedBatch& b) {
  nlohmann::json j{{"stop", b.stop}, {"rows", b.rows}, {"items", b.items}, {"sums", b.sums}, {"samples", b.samples}};
  j["label"] = tensor_to_json(b.label);
  for (const HostTensor& t : b.outputs) j["outputs"].push_back(tensor_to_json(t));
  std::string out;
  nlohmann::json::to_cbor(j, out);
  return out;
}

EvaluatedBatch unpack_batch(const std::string& bytes) {
  const nlohmann::json j = nlohmann::json::from_cbor(bytes);
  EvaluatedBatch b;
  b.stop = j.at("stop");
  b.rows = j.at("rows");
  j.at("items").get_to(b.items);
  j.at("sums").get_to(b.sums);
  j.at("samples").get_to(b.samples);
  b.label = tensor_from_json(j.at("label"));
  if (j.contains("outputs")) {
    for (const nlohmann::json& t : j.at("outputs")) b.outputs.push_back(tensor_from_json(t));
  }
  return b;
}

}  // namespace

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

std::vector<EvaluatedBatch> of_all_ranks(Communicator& ranks, EvaluatedBatch mine) {
  std::vector<EvaluatedBatch> out;
  for (int r = 0; r < ranks.size(); ++r) {
    if (ranks.size() == 1) {
      out.push_back(std::move(mine));
      break;
    }
    std::string bytes = r == ranks.rank() ? pack_batch(mine) : std::string();
    ranks.broadcast(bytes, r);
    out.push_back(r == ranks.rank() ? mine : unpack_batch(bytes));
  }
  return out;
}

}  // namespace amp
