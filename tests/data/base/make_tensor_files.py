"""Small tensor files written by the reference libraries (numpy, safetensors). Run in this folder."""
import numpy as np
from safetensors.numpy import save_file

n = np.arange(24)
tensors = {
    "b/weight": (n.reshape(2, 3, 4) * 0.5 - 3).astype(np.float32),
    "a": (n[:6].reshape(3, 2) - 2).astype(np.float16),
    "ids": (n[:8].reshape(4, 2) * 1000003).astype(np.int64),
    "mask": np.array([True, False, True]),
    "byte": n[:5].astype(np.uint8),
    "short": (n[:4] * -7).astype(np.int16),
    "wide": n[:3].astype(np.float64) / 7,
    "small": (n[:7] - 3).astype(np.int32),
    "scalar": np.array(1.25, dtype=np.float32),
    "empty": np.zeros((0, 3), dtype=np.float32),
}
save_file(tensors, "mixed.safetensors", {"step": "17"})
flat = {k.replace("/", "_"): v for k, v in tensors.items()}
np.savez("stored.npz", **flat)
np.savez_compressed("deflated.npz", **flat)
np.save("fortran.npy", np.asfortranarray(n[:6].reshape(2, 3)))
np.save("object.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
np.save("big_endian.npy", n[:4].astype(">i4"))
