"""NumPy arrays of any dtype of ours to PyTorch on the GPU and back."""

import numpy as np


def to_gpu(torch, array: np.ndarray):
    """A CUDA tensor with the array's bits; bfloat16 and the wide unsigned types included."""
    dtype = getattr(torch, array.dtype.name)
    flat = torch.from_numpy(np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()).cuda()
    return flat.view(dtype).reshape(array.shape)


def from_gpu(torch, tensor, dtype) -> np.ndarray:
    """The tensor's bits as a NumPy array of `dtype`."""
    flat = tensor.contiguous().reshape(-1).view(torch.uint8).cpu().numpy()
    return flat.view(dtype).reshape(tuple(tensor.shape))
