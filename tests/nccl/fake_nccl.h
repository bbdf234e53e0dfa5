// A libnccl for tests: its ranks are threads, GPU memory is host memory, and sums are computed in the order of the
// ranks. Functions that it exports in addition to NCCL's:
#pragma once

extern "C" {
// Returns the calls of all ranks so far, one character each: ( start of a group, + sum, > broadcast, ) end of a group.
// The result is valid until the next call.
const char* fake_nccl_calls();
// Resets all state. Requires that no rank is in a collective.
void fake_nccl_reset();
// Makes the at-th call (from 0) of `function` from now on return the code, on any rank.
void fake_nccl_fail(const char* function, int at, int code);
// Sets the result of ncclCommGetAsyncError for every communicator from now on.
void fake_nccl_break(int code);
// Makes all current and later waits in a sum return the code.
void fake_nccl_release(int code);
}
