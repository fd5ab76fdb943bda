"""Tensor maps as the driver is told of them: `cuTensorMapEncodeTiled` counts axes from the innermost one and strides in bytes."""

from __future__ import annotations

from dataclasses import dataclass

from symbolic import integers as si
from symbolic.facts import Facts
from symbolic.integers import Int
from tracer.addressing import axis_strides, first_element
from tracer.dtypes import DType
from tracer.ir import TensorMap
from tracer.tensor_maps import MOST_EXTENT, STRIDE_LIMIT, UNIT

# CUtensorMapDataType, less its prefix. What is only moved may go by an unsigned type of its width.
DATA_TYPES = {
    "bool": "UINT8", "int8": "UINT8", "uint8": "UINT8", "float8_e4m3fn": "UINT8", "float8_e5m2": "UINT8", "float8_e8m0fnu": "UINT8",
    "int16": "UINT16", "uint16": "UINT16", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "int32": "INT32", "uint32": "UINT32",
    "float32": "FLOAT32", "int64": "INT64", "uint64": "UINT64", "float64": "FLOAT64",
}


@dataclass(frozen=True, slots=True)
class TensorForm:
    """The arguments of `cuTensorMapEncodeTiled`, innermost axis first.

    `first` is where the array begins, in bytes behind the parameter's storage; `strides`, in bytes, leave out the innermost axis.
    `data_type` is the name in `CUtensorMapDataType` behind its prefix.
    """

    dtype: DType
    data_type: str
    first: Int
    dims: tuple[Int, ...]
    strides: tuple[Int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    l2_promotion: str
    oob_fill: str

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.box)


def tensor_form(tensor_map: TensorMap) -> TensorForm:
    """What the driver is told of a map; `T.tensor_map` has checked what can be known before a call."""
    buffer = tensor_map.buffer
    size = buffer.dtype.bytes
    steps = axis_strides(buffer.shape, buffer.layout)
    assert steps is not None
    return TensorForm(
        buffer.dtype, DATA_TYPES[buffer.dtype.name], first_element(buffer) * size, buffer.shape[::-1],
        tuple(step * size for step in steps[-2::-1]), tensor_map.box[::-1], tensor_map.element_strides[::-1],
        tensor_map.swizzle, tensor_map.l2_promotion, tensor_map.oob_fill)


@dataclass(frozen=True, slots=True)
class Requirement:
    """What must hold at a call: `relation` over the extents; `told` names the quantity, `value` it is, `wanted` what it should be."""

    relation: Int
    told: str
    value: Int
    wanted: str
    of_launch: bool = False     # only where there is something to launch


def requirements(tensor_map: TensorMap, facts: Facts) -> list[Requirement]:
    """What an array's shape must satisfy to be described, apart from what `facts` prove. An empty array cannot be, which is no
    matter to a call of no blocks."""
    buffer, form = tensor_map.buffer, tensor_form(tensor_map)
    last = form.rank - 1
    found = []
    for axis, size in enumerate(form.dims):
        told, wanted = f"{buffer.name}.shape[{last - axis}]", "1 to 2**32 for a tensor map"
        found.append(Requirement(si.le(size, si.const(MOST_EXTENT)), told, size, wanted))
        found.append(Requirement(si.ge(size, si.const(1)), told, size, wanted, of_launch=True))
    found.append(Requirement(si.eq(si.floormod(form.first, si.const(UNIT)), si.const(0)), f"{buffer.name}.elem_offset", form.first,
                             f"a multiple of {UNIT} bytes for a tensor map"))
    for axis, step in enumerate(form.strides):
        told = f"{buffer.name}.strides[{last - axis - 1}]"
        found.append(Requirement(si.eq(si.floormod(step, si.const(UNIT)), si.const(0)), told, step,
                                 f"a multiple of {UNIT} bytes for a tensor map"))
        found.append(Requirement(si.lt(step, si.const(STRIDE_LIMIT)), told, step, "less than 2**40 bytes for a tensor map"))
    return [r for r in found if facts.prove(r.relation) is not True]
