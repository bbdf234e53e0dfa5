// Converts adapters to values of slots, which compute y + x A B: one A and B per map; B includes every factor.
#include "importer/adapter/trained.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "importer/adapter/matrices.h"
#include "importer/write/patch.h"

namespace amp {
namespace {

[[noreturn]] void refuse_form(const std::string& fact) {
  fail(Exit::usage, "E_LORA_EXPORT", fact, "export with `lora_export` keep, merge or peft");
}

const AdapterSite* site_of(const LoraAdapter& a, const std::vector<AdapterSite>& sites) {
  const auto it = std::find_if(sites.begin(), sites.end(), [&](const AdapterSite& s) {
    return s.weight == a.weight && s.in == a.in && s.out == a.map_out;
  });
  return it == sites.end() ? nullptr : &*it;
}

}  // namespace

void require_slots(const std::vector<LoraAdapter>& adapters, const std::vector<AdapterSite>& sites) {
  for (const LoraAdapter& a : adapters) {
    const AdapterSite* const site = site_of(a, sites);
    if (!site)
      refuse_form(cat("'", printable(a.name), "' is not a product with a weight, an adapter file has no form for it"));
    if (a.magnitude >= 0)
      refuse_form(
          cat("'", printable(a.name), "' is adapted by DoRA, whose magnitudes an .onnx_adapter file cannot hold"));
    if (!site->one_factor)
      refuse_form(cat("the weight '", printable(a.map), "' is read with different factors, and its slot has one"));
  }
}

OnnxAdapter slot_values(const std::vector<LoraAdapter>& adapters, const std::vector<AdapterSite>& sites,
                        const TrainedValues& values) {
  require_slots(adapters, sites);
  std::map<const AdapterSite*, std::vector<const LoraAdapter*>> by_site;
  std::map<const AdapterSite*, int64_t> ranks;
  int64_t most = 0;
  for (const LoraAdapter& a : adapters) {
    const AdapterSite* const site = site_of(a, sites);
    by_site[site].push_back(&a);
    most = std::max(most, ranks[site] += a.rank);
  }
  // Slots that the file already had may share one symbol for their ranks. onnxruntime then requires equal ranks.
  const bool equal = std::any_of(sites.begin(), sites.end(), [](const AdapterSite& s) { return s.in_file; });
  OnnxAdapter out;
  for (const AdapterSite& site : sites) {
    if (!by_site.count(&site) && !(equal && site.in_file)) continue;
    const int64_t rank = equal ? most : ranks[&site];
    HostTensor a = HostTensor::zeros(DType::f32, {site.in, rank}), b = HostTensor::zeros(DType::f32, {rank, site.out});
    int64_t at = 0;
    for (const LoraAdapter* m : by_site[&site]) {
      set_block(a, values.at(m->a), 0, at);
      set_block(b, multiplied(values.at(m->b), m->scale * site.factor), at, m->first);
      at += m->rank;
    }
    out.parameters.push_back({site.a, narrow(a, site.type, site.a)});
    out.parameters.push_back({site.b, narrow(b, site.type, site.b)});
  }
  return out;
}

}  // namespace amp
