#include "trainer/ranks/mpi.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/error.h"

namespace amp {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void no_mpi(const std::string& why) {
  fail(Exit::distributed, "E_MPI", cat("this process was started as one of several, but ", why),
       "build where MPI's headers are (libopenmpi-dev), or start the program without mpirun; --ranks N needs no MPI");
}

const MpiApi& load_mpi() {
  std::string path;
  if (const char* named = std::getenv("ONNX_AMP_MPI_PLUGIN"); named && *named) path = named;
  std::error_code ignored;
  const fs::path beside = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& p : {beside / "libonnx_amp_mpi.so", beside / "../lib/libonnx_amp_mpi.so"}) {
    if (path.empty() && fs::exists(p, ignored)) path = p.string();
  }
  if (path.empty()) no_mpi("there is no libonnx_amp_mpi.so beside the program");
  // MPI opens modules of its own that look for its symbols.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    const char* why = dlerror();
    no_mpi(why ? why : path);
  }
  const auto entry = reinterpret_cast<const MpiApi* (*)()>(dlsym(library, "onnx_amp_mpi_plugin"));
  if (!entry) no_mpi(cat(path, " is no plugin of this program"));
  if (entry()->abi != kMpiAbi) no_mpi(cat(path, " was built for another version of this program"));
  return *entry();
}

class MpiRank final : public Collective {
 public:
  MpiRank(const MpiApi& api, int rank, int size) : Collective(rank, size), api_(api) {}

  void end(const std::function<void()>& meanwhile) {
    barrier();
    meanwhile();
    finish();
    api_.end();
  }

 private:
  void exchange(const std::vector<MpiMessage>& sent, const std::vector<MpiMessage>& received) const {
    const char* const why = api_.exchange(sent.data(), static_cast<int64_t>(sent.size()), received.data(),
                                          static_cast<int64_t>(received.size()));
    if (why) fail(Exit::distributed, "E_RANK_LOST", cat("a message between ranks was lost: ", why));
  }

  void do_reduce_scatter(const Block& block, Reduction how) override {
    const Share mine = share(block.count, rank());
    const int64_t bytes = mine.count * block.size;
    if (static_cast<int64_t>(space_.size()) < bytes * size()) space_.resize(static_cast<size_t>(bytes * size()));
    std::vector<MpiMessage> sent, received;
    const auto of = [&](int r) { return space_.data() + r * bytes; };
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      const Share theirs = share(block.count, r);
      sent.push_back({r, block.data + theirs.begin * block.size, theirs.count * block.size});
      received.push_back({r, of(r), bytes});
    }
    char* const own = block.data + mine.begin * block.size;
    if (bytes > 0) std::memcpy(of(rank()), own, static_cast<size_t>(bytes));
    exchange(sent, received);
    for (int r = 1; r < size() && bytes > 0; ++r) block.reduce(how, of(0), of(r), mine.count);
    if (bytes > 0) std::memcpy(own, of(0), static_cast<size_t>(bytes));
  }
  void do_all_gather(const Block& block) override {
    const auto message = [&](int to, int whose) {
      const Share s = share(block.count, whose);
      return MpiMessage{to, block.data + s.begin * block.size, s.count * block.size};
    };
    std::vector<MpiMessage> sent, received;
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      sent.push_back(message(r, rank()));
      received.push_back(message(r, r));
    }
    exchange(sent, received);
  }
  void do_broadcast(char* data, int64_t bytes, int root) override {
    std::vector<MpiMessage> sent;
    for (int r = 0; r < size() && rank() == root; ++r) {
      if (r != root) sent.push_back({r, data, bytes});
    }
    exchange(sent, rank() == root ? std::vector<MpiMessage>{} : std::vector<MpiMessage>{{root, data, bytes}});
  }
  void do_barrier() override {
    std::vector<char> in(static_cast<size_t>(size())), out(static_cast<size_t>(size()));
    std::vector<MpiMessage> sent, received;
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      sent.push_back({r, &out[static_cast<size_t>(r)], 1});
      received.push_back({r, &in[static_cast<size_t>(r)], 1});
    }
    exchange(sent, received);
  }

  const MpiApi& api_;
  std::vector<char> space_;
};

}  // namespace

bool started_by_mpi() {
  // OpenMPI; MPICH and others by PMI; srun with PMI2 or PMIx.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
    if (const char* const value = std::getenv(name); value && *value) return true;
  }
  return false;
}

static MpiRank* started = nullptr;

Collective& start_mpi() {
  const MpiApi& api = load_mpi();
  int rank = 0, size = 1;
  if (const char* const why = api.start(&rank, &size)) no_mpi(cat("MPI does not start: ", why));
  started = new MpiRank(api, rank, size);
  return *started;
}

void end_mpi(const std::function<void()>& meanwhile) {
  if (started) started->end(meanwhile);
}

}  // namespace amp
