// A libnccl whose ranks are threads of one process (fake_nccl.h). Groups of calls are collected until ncclGroupEnd().
// Every rank waits until all ranks have arrived, then adds the ranks' data in order and rounds after each rank. Results
// of calls can be planned by a test.
#include "tests/nccl/fake_nccl.h"

#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 4, kFloat16 = 6, kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9;

struct UniqueId {
  char bytes[128];
};

struct Sum {  // a sum over the ranks, or a broadcast from a root
  const void* send;
  void* receive;
  size_t count;
  int type;
  int root = -1;
};

struct Group {  // the ranks of a communicator
  int size = 0, here = 0;
  long round = 0;
  std::vector<const Sum*> shown;
};

struct Communicator {
  Group* group;
  int rank;
};

std::mutex mutex;
std::condition_variable changed;
std::map<std::string, Group> groups;
std::map<std::string, std::vector<int>> planned;  // by function: the results of its later calls
std::string calls;
int async_error = kSuccess, released = kSuccess, ids = 0;
thread_local int depth = 0;
thread_local std::vector<std::pair<Communicator*, Sum>> waiting;

// Returns the planned result of this call.
int planned_result(const char* function) {
  const std::lock_guard lock(mutex);
  std::vector<int>& results = planned[function];
  if (results.empty()) return kSuccess;
  const int code = results.front();
  results.erase(results.begin());
  return code;
}

int meet(Group& g, std::unique_lock<std::mutex>& lock) {
  const long round = g.round;
  if (++g.here == g.size) {
    g.here = 0;
    ++g.round;
    changed.notify_all();
    return released;
  }
  changed.wait(lock, [&] { return g.round != round || released != kSuccess; });
  return released;
}

template <class T>
void add(const Group& g, std::vector<char>& out) {
  T* const sum = reinterpret_cast<T*>(out.data());
  const size_t n = out.size() / sizeof(T);
  std::memcpy(sum, g.shown[0]->send, out.size());
  for (int r = 1; r < g.size; ++r) {
    const T* const x = static_cast<const T*>(g.shown[static_cast<size_t>(r)]->send);
    for (size_t i = 0; i < n; ++i) {
      if constexpr (sizeof(T) == 2)
        sum[i] = T(static_cast<float>(sum[i]) + static_cast<float>(x[i]));  // rounded after each rank, as in NCCL
      else
        sum[i] += x[i];
    }
  }
}

size_t size_of_type(int type) { return type == kFloat64 ? 8 : type == kFloat32 ? 4 : 2; }

int run(Communicator& c, const Sum& s) {
  std::unique_lock lock(mutex);
  Group& g = *c.group;
  g.shown[static_cast<size_t>(c.rank)] = &s;
  if (const int code = meet(g, lock)) return code;
  for (const Sum* other : g.shown) {
    if (other->count != s.count || other->type != s.type || other->root != s.root) return kInvalidArgument;
  }
  std::vector<char> sum(s.count * size_of_type(s.type));
  if (s.root >= 0) {
    std::memcpy(sum.data(), g.shown[static_cast<size_t>(s.root)]->send, sum.size());
  } else if (s.count > 0) {
    if (s.type == kFloat64) add<double>(g, sum);
    if (s.type == kFloat32) add<float>(g, sum);
    if (s.type == kFloat16) add<amp::Half>(g, sum);
    if (s.type == kBfloat16) add<amp::BFloat16>(g, sum);
  }
  if (const int code = meet(g, lock)) return code;
  if (s.count > 0) std::memcpy(s.receive, sum.data(), sum.size());
  return meet(g, lock);
}

void note(char what) {
  const std::lock_guard lock(mutex);
  calls += what;
}

int submit(void* comm, const Sum& s) {
  auto* const c = static_cast<Communicator*>(comm);
  if (depth == 0) return run(*c, s);
  waiting.emplace_back(c, s);
  return kSuccess;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22809;
  return planned_result("ncclGetVersion");
}

int ncclGetUniqueId(UniqueId* id) {
  const std::lock_guard lock(mutex);
  std::snprintf(id->bytes, sizeof id->bytes, "communicator %d", ++ids);
  return kSuccess;
}

int ncclCommInitRank(void** comm, int ranks, UniqueId id, int rank) {
  if (const int code = planned_result("ncclCommInitRank")) return code;
  std::unique_lock lock(mutex);
  Group& g = groups[id.bytes];
  g.size = ranks;
  g.shown.resize(static_cast<size_t>(ranks));
  *comm = new Communicator{&g, rank};
  return meet(g, lock);
}

int ncclCommDestroy(void* comm) {
  delete static_cast<Communicator*>(comm);
  return kSuccess;
}

int ncclCommGetAsyncError(void*, int* error) {
  const std::lock_guard lock(mutex);
  *error = async_error;
  return kSuccess;
}

int ncclGroupStart() {
  note('(');
  ++depth;
  return planned_result("ncclGroupStart");
}

int ncclAllReduce(const void* send, void* receive, size_t count, int type, int, void* comm, void*) {
  note('+');
  if (const int code = planned_result("ncclAllReduce")) return code;
  return submit(comm, {send, receive, count, type});
}

int ncclBroadcast(const void* send, void* receive, size_t count, int type, int root, void* comm, void*) {
  note('>');
  if (const int code = planned_result("ncclBroadcast")) return code;
  return submit(comm, {send, receive, count, type, root});
}

int ncclGroupEnd() {
  note(')');
  if (--depth > 0) return kSuccess;
  const std::vector<std::pair<Communicator*, Sum>> all = std::move(waiting);
  waiting.clear();
  for (const auto& [c, s] : all) {
    if (const int code = run(*c, s)) return code;
  }
  return planned_result("ncclGroupEnd");
}

const char* ncclGetErrorString(int result) { return result == 6 ? "remote process exited" : "unhandled system error"; }
const char* ncclGetLastError(void*) { return "said by the fake"; }

const char* fake_nccl_calls() {
  const std::lock_guard lock(mutex);
  static std::string copy;
  copy = calls;
  return copy.c_str();
}

void fake_nccl_reset() {
  const std::lock_guard lock(mutex);
  planned.clear();
  calls.clear();
  async_error = released = kSuccess;
  for (auto& [id, g] : groups) g.here = 0;
}

void fake_nccl_fail(const char* function, int at, int code) {
  const std::lock_guard lock(mutex);
  std::vector<int>& results = planned[function];
  results.assign(static_cast<size_t>(at), kSuccess);
  results.push_back(code);
}

void fake_nccl_break(int code) {
  const std::lock_guard lock(mutex);
  async_error = code;
}

void fake_nccl_release(int code) {
  const std::lock_guard lock(mutex);
  released = code;
  changed.notify_all();
}
}
