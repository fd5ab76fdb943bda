"""Every module that registers how operations run (`program.statement`): importing this one registers them all."""

from runtime.simulator import (  # noqa: F401
    access,
    addresses,
    atomics,
    barriers,
    bits,
    control,
    convergent,
    matrix,
    matrix_addresses,
    mbarriers,
    order,
    packed,
    votes,
    wgmma,
)
