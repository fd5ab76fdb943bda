"""Many random kernels on the GPU against plain NumPy: `python -m tests.gpu.random_kernels 2000`.

Workers draw, trace, run plain NumPy and compile (into the cubin cache); this process then runs each on the GPU. Prints what differs and
a closing count; exits with 1 where anything differed.
"""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from random import Random

import numpy as np

from tests.gpu.transfer import from_gpu, to_gpu
from tests.property.random_kernels import BUFFERS, Program, same

OPTIONS = ("--fmad=false",)      # a fused multiply-add rounds once where NumPy rounds twice


def prepare(seed: int) -> dict[str, np.ndarray]:
    """Compile the program of `seed` into the cache; its expected buffers."""
    program = Program.draw(Random(seed), 6)
    program.kernel().compile("sm_90a", OPTIONS)
    return program.expected()


def main(count: int, first: int = 0) -> int:
    import torch
    begin = time.perf_counter()
    wrong = 0
    elements = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for seed, expected in zip(range(first, first + count), pool.map(prepare, range(first, first + count), chunksize=4)):
            program = Program.draw(Random(seed), 6)
            arrays = {name: to_gpu(torch, data) for name, data in program.arrays.items()}
            program.kernel().compile("sm_90a", OPTIONS)(*[arrays[name] for name in BUFFERS])
            bad = []
            for name in BUFFERS:
                got = from_gpu(torch, arrays[name], expected[name].dtype)
                elements += got.size
                bad += [f"{name}{tuple(int(k) for k in at)}: GPU {got[tuple(at)]!r}, NumPy {expected[name][tuple(at)]!r}"
                        for at in np.argwhere(~same(got, expected[name]))[:2]]
            if bad:
                wrong += 1
                print(f"seed {seed}: {'; '.join(bad[:4])}")
    print(f"{count} random kernels, {elements} elements, {wrong} kernels differ, {time.perf_counter() - begin:.0f} s, "
          f"on {torch.cuda.get_device_name()}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
