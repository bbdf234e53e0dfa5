// The plugin libonnx_amp_mpi.so. This is the only file that includes MPI's headers and links MPI.
#include <mpi.h>
#include <time.h>

#include <algorithm>
#include <string>
#include <vector>

#include "trainer/comm/mpi.h"

namespace {

const char* error_text(int code) {
  if (code == MPI_SUCCESS) return nullptr;
  static std::string text;
  char buffer[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, buffer, &length);
  text.assign(buffer, static_cast<size_t>(length));
  return text.c_str();
}

const char* start(int* rank, int* size) {
  int provided = 0;
  // Several threads call MPI, but only one at a time.
  if (const char* why = error_text(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided))) return why;
  if (provided < MPI_THREAD_SERIALIZED) return "this MPI was built without threads (MPI_THREAD_SERIALIZED)";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
  return nullptr;
}

const char* exchange(const amp::RankMessage* sent, int64_t sends, const amp::RankMessage* received, int64_t receives) {
  constexpr int64_t kMost = int64_t{1} << 30;  // bytes per MPI call, because MPI's counts are of type int
  std::vector<MPI_Request> requests;
  const auto post = [&](const amp::RankMessage& m, auto&& operation) {
    for (int64_t at = 0; at < m.bytes; at += kMost) {
      requests.emplace_back();
      operation(m.data + at, static_cast<int>(std::min(kMost, m.bytes - at)), MPI_BYTE, m.rank, 0, MPI_COMM_WORLD,
                &requests.back());
    }
  };
  for (int64_t i = 0; i < receives; ++i) post(received[i], MPI_Irecv);
  for (int64_t i = 0; i < sends; ++i) post(sent[i], MPI_Isend);
  // MPI_Waitall would spin, which slows down the other ranks on shared cores. This loop polls with short sleeps
  // instead.
  for (int64_t tries = 0;; ++tries) {
    int done = 0;
    const int code = MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS) return error_text(code);
    if (done) return nullptr;
    if (tries < 200) continue;
    const timespec pause{0, tries < 2000 ? 20'000 : 200'000};
    nanosleep(&pause, nullptr);
  }
}

const char* end() { return error_text(MPI_Finalize()); }
void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

const amp::MpiApi api{amp::kMpiAbi, start, exchange, end, abort_all};

}  // namespace

extern "C" const amp::MpiApi* onnx_amp_mpi_plugin() { return &api; }
