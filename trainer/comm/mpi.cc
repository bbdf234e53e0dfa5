// Loads the MPI plugin at runtime and wraps its message functions as a MessageCommunicator. The interface MpiApi is
// plain C with a version number, because plugin and program may come from different builds.

#include "trainer/comm/mpi.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/plugin_folders.h"

namespace amp {

namespace {

[[noreturn]] void no_mpi(const std::string& why) {
  fail(Exit::distributed, "E_MPI", cat("this process was started as one of several, but ", why),
       "build where MPI's headers are (libopenmpi-dev), or start the program by torchrun, or by srun without MPI "
       "(docs/scaling.md); `ranks` N needs neither");
}

const MpiApi& load_mpi() {
  std::string path;
  if (const char* named = std::getenv("ONNX_AMP_MPI_PLUGIN"); named && *named) path = named;
  if (path.empty()) path = find_plugin_file("libonnx_amp_mpi.so");
  if (path.empty()) no_mpi("there is no libonnx_amp_mpi.so beside the program");
  // RTLD_GLOBAL is needed because Open MPI loads modules that use libmpi's symbols.
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

class MpiRank final : public MessageCommunicator {
 public:
  MpiRank(const MpiApi& api, int rank, int size) : MessageCommunicator(rank, size), api_(api) {}

  void end(const std::function<void()>& meanwhile) {
    barrier();
    meanwhile();
    finish();
    api_.end();
  }

 private:
  void exchange(const std::vector<RankMessage>& sent, const std::vector<RankMessage>& received) override {
    const char* const why = api_.exchange(sent.data(), static_cast<int64_t>(sent.size()), received.data(),
                                          static_cast<int64_t>(received.size()));
    if (why) fail(Exit::distributed, "E_RANK_LOST", cat("a message between ranks was lost: ", why));
  }

  const MpiApi& api_;
};

}  // namespace

bool started_by_mpi() {
  // These variables are set by Open MPI, by MPICH and other libraries with PMI, and by srun with PMI2 or PMIx.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
    if (const char* const value = std::getenv(name); value && *value) return true;
  }
  return false;
}

static MpiRank* started = nullptr;

Communicator& start_mpi() {
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
