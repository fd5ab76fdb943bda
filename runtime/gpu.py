"""A call that has passed its host half, run on a GPU; calls like it go the short way from then on."""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codegen import host
from codegen.host import LaunchShape
from runtime import arguments, forms
from runtime.device import device
from runtime.driver import bindings
from runtime.executable import Executable, compile
from runtime.forms import EncodedMap, Forms, Launch, Passed
from runtime.hosting import host_code
from runtime.loaded import Traits, configuration
from runtime.parameters import TENSOR_MAP, Packing
from runtime.short import Shortcut, compiled, fits
from runtime.tensor_maps import encoder


@dataclass(frozen=True, slots=True)
class Call:
    """A call of `kernel`, or of `using`, an executable of it, with `args`, on `stream`, which the caller has `named` or not."""

    kernel: Any
    using: Executable | None
    args: Sequence[Any]
    stream: int
    named: bool

    @property
    def owner(self) -> Any:
        """What was called."""
        return self.kernel if self.using is None else self.using


def run_on_gpu(call: Call, ordinal: int, shape: LaunchShape, values: Sequence[Any], known: Sequence[Any]) -> None:
    """Enqueue the kernel on the GPU `ordinal`. `shape`, `values` and `known` are what its host half has made of the arguments.

    Raises `CompileError`, and `LaunchError` where the device has not what the launch asks for.
    """
    build = call.kernel.wide if shape.wide else call.kernel
    gpu = device(ordinal)
    if call.using is None:
        executable = compile(build, gpu.arch)
    else:
        executable = call.using.wide() if shape.wide else call.using
    loaded = gpu.load(executable.cubin, executable.entry)
    traits, packing = _traits(call.kernel), packing_of(build)
    maps = [EncodedMap(value[0][1], encoder(argument.tensor_map, *value[1:]))
            for argument, value in zip(build.half.arguments, values) if argument.tensor_map is not None]
    parameters = packing.filled(_plain(build, values, maps))
    try:
        loaded.launch(shape, traits, parameters, call.stream)
        if not shape.wide:
            _learn(call, Passed(call.args, known, bytes(parameters.memory)[:packing.size], maps, call.stream, call.named,
                                lambda: Launch(ordinal, configuration(shape, traits, call.stream), loaded.function, packing)))
    finally:
        packing.release(parameters)


def _plain(build: Any, values: Sequence[Any], maps: Sequence[EncodedMap]) -> list[Any]:
    """The arguments as they go into the parameter buffer."""
    encoded = iter([m.encode(m.address) for m in maps])
    return [value[1] if argument.buffer is not None else next(encoded) if argument.tensor_map is not None else value
            for argument, value in zip(build.half.arguments, values)]


def _traits(kernel: Any) -> Traits:
    asked = kernel.function.attrs
    return Traits(bool(asked.get("tirx.programmatic_dependent_launch")), bool(asked.get("tirx.cooperative_launch")))


def packing_of(build: Any) -> Packing:
    """How the parameters of a kernel lie in memory."""
    made: Packing | None = build.memo.get("packing")
    if made is None:
        made = build.memo["packing"] = Packing([
            TENSOR_MAP if a.tensor_map is not None else None if a.node is None else a.node.dtype for a in build.half.arguments])
    return made


# ---- the short way -----------------------------------------------------------------------------------------------------

def _learn(call: Call, passed: Passed) -> None:
    """Let later calls of the owner go the short way: the compiled one, else that of the host half."""
    if not any(arguments.kind_of(type(a)) in (arguments.TORCH, arguments.CUPY) for a in call.args):
        return      # the other kinds have none
    memo = call.owner.memo
    if "short" not in memo:
        made = _shortcut(call)
        if made is None and "torch" not in sys.modules:
            return      # the other one is for PyTorch alone, which may yet come
        memo["short"] = made or _forms(call)
    kept: Shortcut | Forms | None = memo["short"]
    if kept is not None:
        kept.learn(passed)


def _shortcut(call: Call) -> Shortcut | None:
    made = compiled()
    if isinstance(made, str):
        return None
    form, packing = host.short_form(call.kernel.half), packing_of(call.kernel)
    if form is None or not fits(form, packing):
        return None
    shortcut = Shortcut(form, packing, made)
    call.owner.again = shortcut.call
    return shortcut


def _forms(call: Call) -> Forms | None:
    ready = host.ready(call.kernel.half)
    if ready is None:
        return None
    kept = Forms(ready)
    scope = {"forms": kept.idle, "another": kept.another, "current_stream": forms.current_stream(),
             "enqueue": bindings().cuLaunchKernelEx, "SUCCESS": bindings().CUresult.CUDA_SUCCESS, "PackError": struct.error}
    exec(host_code(call.kernel), scope)
    call.owner.again = scope[host.again_name(call.kernel.half)]
    return kept
