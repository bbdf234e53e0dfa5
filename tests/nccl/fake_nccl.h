// A libnccl for tests: its ranks are threads, its GPUs' memory is the host's, its sums are made in the order of the
// ranks. What it exports beside NCCL's functions:
#pragma once

extern "C" {
// The calls so far of all ranks, one character each: ( of a group's start, + of a sum, > of a broadcast, ) of its end.
// Valid until the next call.
const char* fake_nccl_calls();
// Everything as at the start; nobody is in a sum.
void fake_nccl_reset();
// The at-th call from now (from 0) of that function, on any rank, returns the code.
void fake_nccl_fail(const char* function, int at, int code);
// What ncclCommGetAsyncError says of every communicator from now on.
void fake_nccl_break(int code);
// Whoever waits in a sum, or will, leaves with the code.
void fake_nccl_release(int code);
}
