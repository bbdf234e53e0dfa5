// Fault injection by LD_PRELOAD: causes a fault in the rank FAULT_RANK, FAULT_MS milliseconds after its start.
// FAULT_KIND: kill, stop (SIGSTOP), exit (status 1), memory (allocation fails), message (MPI refuses to send).
// init_kill and init_stop act within MPI_Init, regardless of FAULT_MS.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static volatile int refuses;
static const char* faulty;  // the kind of fault if this is the rank FAULT_RANK, else null

static void* strike(void* kind) {
  const long ms = atol(getenv("FAULT_MS"));
  const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
  if (!strcmp(kind, "kill")) kill(getpid(), SIGKILL);
  if (!strcmp(kind, "stop")) kill(getpid(), SIGSTOP);
  if (!strcmp(kind, "exit")) _exit(1);
  if (!strcmp(kind, "message")) refuses = 1;
  if (!strcmp(kind, "memory")) {
    const struct rlimit none = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_AS, &none);
  }
  return NULL;
}

__attribute__((constructor)) static void begin(void) {
  const char* const rank = getenv("OMPI_COMM_WORLD_RANK");
  char* const kind = getenv("FAULT_KIND");
  pthread_t thread;
  if (rank && kind && getenv("FAULT_MS") && getenv("FAULT_RANK") && !strcmp(rank, getenv("FAULT_RANK"))) {
    faulty = kind;
    pthread_create(&thread, NULL, strike, kind);
  }
}

int MPI_Init_thread(int* argc, char*** argv, int wanted, int* provided) {
  if (faulty && !strcmp(faulty, "init_kill")) kill(getpid(), SIGKILL);
  if (faulty && !strcmp(faulty, "init_stop")) kill(getpid(), SIGSTOP);
  return PMPI_Init_thread(argc, argv, wanted, provided);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  if (refuses) return MPI_ERR_OTHER;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
