"""The compiled short way, without a GPU: what it launches, what it leaves to the long way, and that it stays right under threads."""

import ctypes
import gc
import os
import struct
import subprocess
import sys
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from codegen.host import short_form
from runtime import short
from runtime.forms import Launch, Passed
from runtime.parameters import CODES, TENSOR_MAP, Packing
from tests.runtime.kernels import ALL, affine, in_place, k, offset, scalars, scale, vectors
from tracer import T, trace
from tracer.dtypes import dtype

Made = short.compiled()
pytestmark = pytest.mark.skipif(isinstance(Made, str), reason=str(Made))
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)


class Memory:
    def __init__(self, ptr, device_id=0):
        self.ptr, self.device_id = ptr, device_id


class Plain:
    """An array as CuPy's looks to the short way."""

    def __init__(self, ptr, shape=(1000,), strides=(4,), kind="float32", device=0):
        self.data, self.shape, self.strides, self.dtype = Memory(ptr, device), shape, strides, kind


class Tensor:
    """One as PyTorch's looks."""

    def __init__(self, ptr, form="one"):
        self.ptr, self.form = ptr, form

    def data_ptr(self):
        return self.ptr


class Config:
    def getPtr(self):
        return 0xC0


class Driver:
    """Stands for cuLaunchKernelEx: notes the parameters of each launch, as `layout` says."""

    def __init__(self, layout, answer=0):
        self.layout, self.answer, self.launches = layout, answer, []
        self.callback = LAUNCH(self.launch)
        self.address = ctypes.cast(self.callback, ctypes.c_void_p).value

    def launch(self, config, function, parameters, extra):
        assert extra is None
        read = [struct.unpack(f"={code}", ctypes.string_at(parameters[i], struct.calcsize(f"={code}")))[0] for i, code in enumerate(self.layout)]
        self.launches.append((config, function, *read))
        return self.answer


def shortcut(kernel, driver, monkeypatch):
    monkeypatch.setattr(short, "driver_function", lambda name: driver.address)
    kinds = [TENSOR_MAP if a.tensor_map is not None else None if a.node is None else a.node.dtype for a in kernel.half.arguments]
    return short.Shortcut(short_form(kernel.half), Packing(kinds), Made)


def learn(made, monkeypatch, args, known, values, stream=7, current=None, named=False):
    """Keep a form as the launcher does, for arrays of these tests."""
    tensors = isinstance(args[0], Tensor)

    def same(*others):
        return all(type(o) is Tensor and o.form == a.form for o, a in zip(others, args))
    kind = short.Kind(lambda arrays: True,
                      lambda arrays: (same, None) if tensors else (None, short._cupy_form(arrays)), lambda arrays: None,
                      lambda: current or (lambda device: stream), lambda array: 4000)
    monkeypatch.setattr(short, "KINDS", (kind,))
    filled = made.packing.filled(values)
    made.learn(Passed(args, known, bytes(filled.memory)[:made.packing.size], (), stream, named,
                      lambda: Launch(0, Config(), 0xF0, made.packing)))


@pytest.fixture
def scaling(monkeypatch):
    """`scale`, whose call on 1000 elements has passed."""
    driver = Driver("QQif")
    made = shortcut(scale, driver, monkeypatch)
    learn(made, monkeypatch, (Plain(0x10000), Plain(0x20000), 2.0), (1000, 2.0), [0x10000, 0x20000, 1000, 2.0])
    return driver, made


def test_a_launch(scaling):
    driver, made = scaling
    assert made.call(Plain(0x30000), Plain(0x40000), 1.5) is True
    assert made.call(Plain(0x30000), Plain(0x40000), 3) is True
    assert driver.launches == [(0xC0, 0xF0, 0x30000, 0x40000, 1000, 1.5), (0xC0, 0xF0, 0x30000, 0x40000, 1000, 3.0)]


GOOD = (Plain(0x10000), Plain(0x20000), 1.0)
LEFT = {
    "fewer arguments": GOOD[:2], "more arguments": (*GOOD, 1), "no array": (None, GOOD[1], 1.0), "another kind": (Tensor(0x10000), GOOD[1], 1.0),
    "another shape": (Plain(0x10000, (999,)), GOOD[1], 1.0), "other strides": (Plain(0x10000, strides=(8,)), GOOD[1], 1.0),
    "another dtype": (Plain(0x10000, kind="int32"), GOOD[1], 1.0), "another device": (Plain(0x10000, device=1), GOOD[1], 1.0),
    "a null pointer": (Plain(0), GOOD[1], 1.0), "not aligned": (Plain(0x10002), GOOD[1], 1.0),
    "the same memory": (GOOD[0], GOOD[0], 1.0), "overlapping": (GOOD[0], Plain(0x10000 + 3996), 1.0),
    "overlapping the other way": (Plain(0x20000 + 3996), GOOD[1], 1.0),
    "a bool": (*GOOD[:2], True), "a NumPy scalar": (*GOOD[:2], np.float32(1)), "a str": (*GOOD[:2], "x"), "None": (*GOOD[:2], None),
    "too large": (*GOOD[:2], 1e300), "an int beyond floats": (*GOOD[:2], 10**400),
}


@pytest.mark.parametrize("what", LEFT)
def test_what_is_left_to_the_long_way(scaling, what):
    driver, made = scaling
    assert made.call(*LEFT[what]) is False
    assert driver.launches == [] and made.call(*GOOD) is True


def test_memory_side_by_side_is_taken(scaling):
    driver, made = scaling
    assert made.call(Plain(0x10000), Plain(0x10000 + 4000), 1.0) and made.call(Plain(0x20000), Plain(0x20000 - 4000), 1.0)


def test_other_keywords_are_left_to_the_long_way(scaling):
    assert scaling[1].call(*GOOD[:2], s=1.0) is False and scaling[1].call(*GOOD, stream=7, s=1.0) is False


class TorchStream:
    cuda_stream = 7


class CupyStream:
    ptr = 7


@pytest.mark.parametrize("stream, taken", [
    (7, True), (TorchStream(), True), (CupyStream(), True), (8, False), (0, False), (None, False), ("7", False), (-1, False), (2**70, False),
])
def test_a_stream_that_the_call_names(scaling, stream, taken):
    assert scaling[1].call(*GOOD, stream=stream) is taken and scaling[1].call.knows(*GOOD, stream=stream) is taken


def test_forms_of_named_streams_are_kept_once(monkeypatch):
    driver = Driver("QQif")
    made = shortcut(scale, driver, monkeypatch)
    for _ in range(3):
        for stream in (8, 9):       # the current one is 7
            learn(made, monkeypatch, GOOD, (1000, 2.0), [1, 2, 1000, 2.0], stream=stream, current=lambda device: 7, named=True)
    assert made.call.count() == 2
    assert made.call(*GOOD, stream=8) and made.call(*GOOD, stream=9) and not made.call(*GOOD)


def test_a_launch_that_the_driver_refuses_is_left_to_the_long_way(monkeypatch):
    driver = Driver("QQif", answer=201)
    made = shortcut(scale, driver, monkeypatch)
    learn(made, monkeypatch, GOOD, (1000, 2.0), [1, 2, 1000, 2.0])
    assert made.call(*GOOD) is False and len(driver.launches) == 1


def test_another_stream_is_another_form(monkeypatch):
    driver = Driver("QQif")
    made = shortcut(scale, driver, monkeypatch)
    now = [7]
    for stream in (7, 8):
        now[0] = stream
        learn(made, monkeypatch, GOOD, (1000, 2.0), [1, 2, 1000, 2.0], stream=stream, current=lambda device: now[0])
    assert made.call.count() == 2
    for stream, taken in ((8, True), (7, True), (9, False)):
        now[0] = stream
        assert made.call(*GOOD) is taken


def test_a_form_is_kept_once_and_the_oldest_goes(monkeypatch):
    made = shortcut(in_place, Driver("Q"), monkeypatch)
    for n, kept in ((5, 1), (5, 1), *((n, min(n + 2 - (n >= 5), 64)) for n in range(100))):
        learn(made, monkeypatch, (Plain(0x10000, (n,)),), (n,), [0x10000])
        assert made.call.count() == kept
    assert made.call(Plain(0x10000, (99,))) and not made.call(Plain(0x10000, (3,)))


def test_tensors_are_compared_all_at_once_and_their_form_becomes_the_last_used(monkeypatch):
    driver = Driver("QQif")
    made = shortcut(scale, driver, monkeypatch)
    for form, n in (("one", 10), ("two", 20), ("three", 30)):
        learn(made, monkeypatch, (Tensor(0x10000, form), Tensor(0x20000, form), 2.0), (n, 2.0), [1, 2, n, 2.0])
    for form in ("one", "three", "one", "two"):
        assert made.call(Tensor(0x30000, form), Tensor(0x40000, form), 1.0)
    assert [launch[4] for launch in driver.launches] == [10, 30, 10, 20]
    assert not made.call(Tensor(0x30000, "one"), Tensor(0x40000, "two"), 1.0)


def test_every_kind_of_scalar(monkeypatch):
    driver = Driver("QibBfq".replace("ibBfq", "iBf?q"))
    made = shortcut(scalars, driver, monkeypatch)
    learn(made, monkeypatch, (Plain(0x10000, (5,)), 1, 2, 3.5, 7, True), (1, 2, 3.5, 7, True), [0x10000, 1, 2, 3.5, True, 7])
    a = Plain(0x20000, (5,))
    assert made.call(a, -2**31, 255, 0.1, 2**63 - 1, False)
    assert driver.launches == [(0xC0, 0xF0, 0x20000, -2**31, 255, float(np.float32(0.1)), False, 2**63 - 1)]
    for wrong in ((2**31, 1, 1.0, 1, True), (1, 256, 1.0, 1, True), (1, -1, 1.0, 1, True), (1, 1, 1.0, 2**63, True), (1, 1, 1.0, 1, 1),
                  (1.0, 1, 1.0, 1, True), (True, 1, 1.0, 1, True), (1, 1, "1", 1, True)):
        assert made.call(a, *wrong) is False
    assert len(driver.launches) == 1


@pytest.mark.parametrize("name", [name for name in CODES if name != "bfloat16"])
def test_numbers_are_packed_as_struct_packs_them(monkeypatch, name):
    kind = getattr(T, name)

    @trace
    def put(A: T.Buffer((1,), name), x: kind):
        T.device_entry()
        T.thread_id([1])
        A[0] = x

    driver = Driver("Q" + CODES[name])
    made = shortcut(put, driver, monkeypatch)
    learn(made, monkeypatch, (Plain(0x10000, (1,)), 1), (1,), [0x10000, 1])
    limits = dtype(name).limits if dtype(name).kind != "float" else (-1.0, 1.0)
    values = [True, False] if name == "bool" else [0, 1, *limits]
    values += [0.1, -65504.0, 1e-30, float("inf"), 65519.9] if dtype(name).kind == "float" else []
    for value in values:
        assert made.call(Plain(0x10000, (1,)), value), value
        expected, = struct.unpack(f"={CODES[name]}", struct.pack(f"={CODES[name]}", value))
        assert driver.launches[-1][3] == expected
    if dtype(name).kind in ("int", "uint"):
        assert not made.call(Plain(0x10000, (1,)), limits[0] - 1) and not made.call(Plain(0x10000, (1,)), limits[1] + 1)


def test_a_scalar_that_the_launch_depends_on_is_part_of_the_form(monkeypatch):
    @trace
    def stepping(A: T.Buffer(("n",), "int32"), step: T.int32):
        n = A.shape[0]
        T.assume(step > 0)
        T.device_entry()
        bx = T.cta_id([T.ceildiv(n, step)])
        T.thread_id([1])
        A[bx] = step

    driver = Driver("Qi")
    made = shortcut(stepping, driver, monkeypatch)
    for step in (2, 3):
        learn(made, monkeypatch, (Plain(0x10000, (8,)), step), (8, step), [0x10000, step])
    for step, taken in ((2, True), (3, True), (4, False), (2, True)):
        assert made.call(Plain(0x10000, (8,)), step) is taken
    assert [launch[3] for launch in driver.launches] == [2, 3, 2]


def test_alignment_of_vectors(monkeypatch):
    made = shortcut(vectors, Driver("QQ"), monkeypatch)
    learn(made, monkeypatch, (Plain(0x10000, (64,)), Plain(0x20000, (64,))), (), [1, 2])
    assert made.call(Plain(0x10010, (64,)), Plain(0x20000, (64,)))
    assert not made.call(Plain(0x10008, (64,)), Plain(0x20000, (64,)))


def test_kernels_that_have_none():
    assert short_form(offset.half) is None and short_form(affine.half) is None       # an offset; an assumption on a float
    assert {name for name, kernel in ALL.items() if short_form(kernel.half) is not None} == {
        "scale", "k", "scalars", "transposed", "vectors", "product", "in_place"}


def test_tensor_maps_are_encoded_anew_for_another_address(monkeypatch):
    packing = Packing([TENSOR_MAP, None])
    driver = Driver(("128s", "Q"))
    encoded = []

    def encode(address):
        encoded.append(address)
        return bytes([address >> 16 & 255]) * 128
    call = Made(2, ((0, 16, 0), (1, 4, 0)), ((1, packing.offsets[1], 0),), ((0, packing.offsets[0]),), (), (), tuple(packing.offsets),
                packing.size, 4, driver.address)
    filled = packing.filled([encode(0x10000), 0x20000])
    call.add(lambda *arrays: True, None, None, lambda device: 7, 0, 7, 0xC0, 0xF0, bytes(filled.memory)[:packing.size], (), (64, 64),
             (encode,), (0x10000,), None)
    for address in (0x10000, 0x10000, 0x30000, 0x30000, 0x10000):
        assert call(Tensor(address), Tensor(0x20000))
    assert [launch[2][:1] for launch in driver.launches] == [b"\1", b"\1", b"\3", b"\3", b"\1"]
    assert [launch[3] for launch in driver.launches] == [0x20000] * 5
    assert encoded == [0x10000, 0x30000, 0x10000]
    assert not call(Tensor(0x10008), Tensor(0x20000))


def test_threads(monkeypatch):
    """Launches under way share no memory: each thread sees its own numbers in the driver, which lets other threads run."""
    problems = []
    seen = {}

    def launch(config, function, parameters, extra):
        pointer = ctypes.cast(parameters[0], ctypes.POINTER(ctypes.c_uint64))
        number = ctypes.cast(parameters[3], ctypes.POINTER(ctypes.c_float))
        before = pointer[0], number[0]
        for _ in range(3):
            threading.Event().wait(0)       # lets another thread run
        if (pointer[0], number[0]) != before or before[0] != 0x10000 * int(before[1]):
            problems.append(before)
        seen[before[0]] = seen.get(before[0], 0) + 1
        return 0

    driver = Driver("")
    driver.callback = LAUNCH(launch)
    driver.address = ctypes.cast(driver.callback, ctypes.c_void_p).value
    made = shortcut(scale, driver, monkeypatch)
    learn(made, monkeypatch, GOOD, (1000, 2.0), [1, 2, 1000, 2.0])

    def work(number):
        for _ in range(100):
            assert made.call(Plain(0x10000 * number), Plain(0x900000), float(number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems and seen == {0x10000 * number: 100 for number in range(1, 9)}


def test_nothing_is_kept_alive(monkeypatch):
    driver = Driver("QQif")
    made = shortcut(scale, driver, monkeypatch)
    args = (Tensor(0x10000), Tensor(0x20000), 2.0)
    learn(made, monkeypatch, args, (1000, 2.0), [1, 2, 1000, 2.0])
    passed = Tensor(0x30000)
    alive = weakref.ref(passed)
    for _ in range(3):
        assert made.call(passed, Tensor(0x40000), 1.0)
    del passed
    gc.collect()
    assert alive() is None


def test_what_a_form_must_agree_with(monkeypatch):
    made = shortcut(scale, Driver("QQif"), monkeypatch)
    with pytest.raises(ValueError, match="the form is another kernel's"):
        made.call.add(None, (), None, None, 0, 0, 0, 0, b"short", (), (), (), (), None)
    with pytest.raises(ValueError, match="more bytes of parameters than MOST_BYTES"):
        Made(1, (), (), (), (), (), (), short.LIMITS["MOST_BYTES"] + 1, 4, 0)
    with pytest.raises(ValueError, match="more parameters than"):
        Made(1, ((0, 1, 0),) * (short.LIMITS["MOST_ARRAYS"] + 1), (), (), (), (), (), 8, 4, 0)


def test_a_kernel_with_more_arrays_than_the_limit_goes_the_long_way():
    def many(*arrays):
        T.device_entry()
        tx = T.thread_id([4])
        arrays[0][tx] = 1.0

    def kernel(count):
        names = [f"A{i}" for i in range(count)]
        scope = {"T": T, "many": many}
        exec(f"def made({', '.join(f'{n}: T.Buffer((4,), {chr(34)}float32{chr(34)})' for n in names)}):\n    many({', '.join(names)})", scope)
        return trace(scope["made"])
    for count, taken in ((32, True), (33, False)):
        half = kernel(count).half
        packing = Packing([None if a.node is None else a.node.dtype for a in half.arguments])
        assert short.fits(short_form(half), packing) is taken


def test_a_module_that_is_torn_on_the_disk_is_built_anew(tmp_path):
    program = [sys.executable, "-c", "from runtime import short; print(short.compiled())"]
    environment = {**os.environ, "KERNELWRIGHT_CACHE": str(tmp_path)}
    for _ in range(2):
        told = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
        assert told.stdout == "<class 'kernelwright_short.Short'>\n"
        built, = tmp_path.iterdir()
        assert built.suffix == ".so" and built.read_bytes()[:4] == b"\x7fELF"
        built.write_bytes(b"torn")


def test_two_processes_may_build_it_at_once(tmp_path):
    program = [sys.executable, "-c", "from runtime import short; print(short.compiled())"]
    racers = [subprocess.Popen(program, env={**os.environ, "KERNELWRIGHT_CACHE": str(tmp_path)}, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [racer.communicate(timeout=120)[0] for racer in racers] == ["<class 'kernelwright_short.Short'>\n"] * 2
    assert [path.suffix for path in tmp_path.iterdir()] == [".so"]


def test_a_cache_that_cannot_be_written_is_no_hindrance(tmp_path):
    (tmp_path / "file").write_text("in the way")
    told = subprocess.run([sys.executable, "-c", "from runtime import short; print(short.compiled())"], capture_output=True, text=True, check=True,
                          env={**os.environ, "KERNELWRIGHT_CACHE": str(tmp_path / "file" / "below")})
    assert told.stdout == "<class 'kernelwright_short.Short'>\n"


def test_without_a_compiler_the_reason_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(short.shutil, "which", lambda name: None)
    short.compiled.cache_clear()
    try:
        assert short.compiled() == "no C compiler (cc, gcc or clang) on PATH"
    finally:
        short.compiled.cache_clear()


def test_k_has_it_too():
    assert short_form(k.half).arrays == ((0, 16, 0), (1, 4, 0))


@pytest.mark.parametrize("function, fast", [
    (lambda device: 77, True), (lambda: 77, False), (lambda device: 5, False), (None, False)], ids=["its own", "of before", "another", "none"])
def test_cupys_current_stream(monkeypatch, function, fast):
    module = SimpleNamespace() if function is None else SimpleNamespace(get_current_stream_ptr=function)
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.stream", module)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=77))))
    current = short._cupy_stream()
    assert (current is function) is fast and current(0) == 77
