// Compares the declarations of backend/cuda/nccl.h with NVIDIA's header if that is installed. Contains no code.
#if __has_include(<nccl.h>)
#include <nccl.h>

#include <type_traits>

#include "backend/cuda/nccl.h"

namespace amp::cuda::nccl {

namespace {

// True if values of both types are passed alike: both are pointers, or both have the same size and kind.
template <class A, class B>
constexpr bool kAlike = std::is_pointer_v<A> == std::is_pointer_v<B> &&
                        sizeof(A) == sizeof(B) && std::is_class_v<A> == std::is_class_v<B>;

template <class A, class B>
struct SameAbi : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameAbi<R (*)(A...), S (*)(B...)>
    : std::bool_constant<kAlike<R, S> && (kAlike<A, B> && ...)> {
};

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(kSuccess == ncclSuccess && kInProgress == ncclInProgress);
static_assert(kFloat16 == ncclFloat16 && kBfloat16 == ncclBfloat16);
static_assert(kFloat32 == ncclFloat32 && kFloat64 == ncclFloat64 && kSum == ncclSum);
static_assert(SameAbi<decltype(Api::get_version), decltype(&ncclGetVersion)>::value);
static_assert(SameAbi<decltype(Api::get_unique_id), decltype(&ncclGetUniqueId)>::value);
static_assert(SameAbi<decltype(Api::comm_init_rank), decltype(&ncclCommInitRank)>::value);
static_assert(SameAbi<decltype(Api::comm_destroy), decltype(&ncclCommDestroy)>::value);
static_assert(SameAbi<decltype(Api::comm_get_async_error), decltype(&ncclCommGetAsyncError)>::value);
static_assert(SameAbi<decltype(Api::all_reduce), decltype(&ncclAllReduce)>::value);
static_assert(SameAbi<decltype(Api::broadcast), decltype(&ncclBroadcast)>::value);
static_assert(SameAbi<decltype(Api::group_start), decltype(&ncclGroupStart)>::value);
static_assert(SameAbi<decltype(Api::group_end), decltype(&ncclGroupEnd)>::value);
static_assert(SameAbi<decltype(Api::get_error_string), decltype(&ncclGetErrorString)>::value);
static_assert(SameAbi<decltype(Api::get_last_error), decltype(&ncclGetLastError)>::value);

}  // namespace

}  // namespace amp::cuda::nccl
#endif
