"""What the examples share: where they can run here, and how they show a result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from codegen.architecture import has
from runtime.device import device


def machines() -> Iterator[tuple[str, Callable[[np.ndarray], Any], Callable[[Any], np.ndarray]]]:
    """(name, array to there, array back) for the simulator and, where PyTorch or CuPy sees one, the GPU."""
    yield "simulator", lambda a: a.copy(), lambda a: a
    try:
        import torch
        if torch.cuda.is_available():
            yield f"{torch.cuda.get_device_name()} through PyTorch", lambda a: to_torch(torch, a), lambda t: from_torch(torch, t)
            return
    except ImportError:
        pass
    try:
        import cupy
        if cupy.cuda.runtime.getDeviceCount():
            yield "GPU through CuPy", cupy.asarray, cupy.asnumpy
    except Exception as missing:  # noqa: BLE001  no CuPy, or no driver below it: the simulator is enough
        print(f"(no GPU here: {type(missing).__name__})")


def to_torch(torch: Any, array: np.ndarray) -> Any:
    """A tensor on the GPU. PyTorch takes bfloat16 from NumPy by its bits alone."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(array).cuda()


def from_torch(torch: Any, tensor: Any) -> np.ndarray:
    """The inverse of `to_torch`."""
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).cpu().numpy().view(ml_dtypes.bfloat16)
    return tensor.cpu().numpy()


def run(kernel: Any, inputs: list[np.ndarray], output: np.ndarray, expected: np.ndarray, scalars: tuple[Any, ...] = (),
        tolerance: float = 1e-6) -> None:
    """Call `kernel(*inputs, output, *scalars)` wherever it can run here and compare with `expected`."""
    for name, to, back in machines():
        if name != "simulator" and not has(device(0).arch, kernel.minimum_arch):
            print(f"  {name}: needs {kernel.minimum_arch}")
            continue
        arrays = [to(a) for a in inputs]
        result = to(np.full_like(output, 77))         # poisoned, so that an element that nothing writes shows
        begin = time.perf_counter()
        kernel(*arrays, result, *scalars)
        got = back(result)
        spent = time.perf_counter() - begin
        error = float(np.max(np.abs(got.astype(np.float64) - expected), initial=0.0))
        verdict = "right" if np.allclose(got, expected, rtol=tolerance, atol=tolerance) else "WRONG"
        print(f"  {name}: {verdict}, largest error {error:.2g}, {spent * 1e3:.1f} ms")
        if verdict == "WRONG":
            raise SystemExit(1)


def show(title: str, body: Any) -> None:
    """A heading and what stands under it."""
    print(f"\n--- {title} ---\n{str(body).rstrip()}")
