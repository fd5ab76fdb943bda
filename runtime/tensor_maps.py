"""Tensor maps, encoded by the driver: what the copy engine of a GPU is told of an array, 128 opaque bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from codegen.tensor_maps import TensorForm, tensor_form
from runtime.driver import ask, bindings
from tracer.ir import TensorMap

_REMEMBERED = 1024      # encoded maps
_BYTES = 128            # CUtensorMap in cuda.h
_ONE_AXIS = 16          # the stride of an axis that is not there: the driver does not read it, but wants to be given one
_OOB_FILL = {"zeros": "NONE", "nan": "NAN_REQUEST_ZERO_FMA"}
_form = lru_cache(_REMEMBERED)(tensor_form)
_encoded: dict[tuple[Any, ...], bytes] = {}


def encoder(tensor_map: TensorMap, first: int, dims: tuple[int, ...], strides: tuple[int, ...]) -> Callable[[int], bytes]:
    """From the address of an array's storage, its map: `first` are the bytes from there to the map's first element; `dims` count
    elements and `strides` bytes, innermost first, its stride left out.

    Maps are remembered by what they are made of. The host half has checked what the driver asks for; raises `LaunchError` where it refuses.
    """
    form = _form(tensor_map)

    def encoded(address: int) -> bytes:
        key = (tensor_map, address + first, dims, strides)
        made = _encoded.get(key)
        if made is None:
            if len(_encoded) >= _REMEMBERED:
                _encoded.clear()
            made = _encoded[key] = _encode(form, address + first, dims, strides)
        return made

    return encoded


def _encode(form: TensorForm, address: int, dims: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    driver = bindings()

    def chosen(enumeration: str, name: str) -> Any:
        prefix = {"CUtensorMapDataType": "DATA_TYPE", "CUtensorMapInterleave": "INTERLEAVE", "CUtensorMapSwizzle": "SWIZZLE",
                  "CUtensorMapL2promotion": "L2_PROMOTION", "CUtensorMapFloatOOBfill": "FLOAT_OOB_FILL"}[enumeration]
        return getattr(getattr(driver, enumeration), f"CU_TENSOR_MAP_{prefix}_{name}")

    promotion = form.l2_promotion.upper() if form.l2_promotion == "none" else f"L2_{form.l2_promotion.upper()}"
    strides = strides or (_ONE_AXIS,)
    made = ask("cuTensorMapEncodeTiled", chosen("CUtensorMapDataType", form.data_type), form.rank, address,
               [driver.cuuint64_t(size) for size in dims], [driver.cuuint64_t(step) for step in strides],
               [driver.cuuint32_t(size) for size in form.box], [driver.cuuint32_t(step) for step in form.element_strides],
               chosen("CUtensorMapInterleave", "NONE"), chosen("CUtensorMapSwizzle", form.swizzle.upper()),
               chosen("CUtensorMapL2promotion", promotion), chosen("CUtensorMapFloatOOBfill", _OOB_FILL[form.oob_fill]))
    return ctypes.string_at(made.getPtr(), _BYTES)
