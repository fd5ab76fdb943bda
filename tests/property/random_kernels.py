"""Random small kernels, each as a kernel of ours and as plain per-thread NumPy: the two must agree bit for bit.

A `Program` is a list of statements over a thread's own row of several buffers (one a dtype) and of its own local array, so that
threads never race while loads and stores alias within a row. `Program.kernel()` records it through `T`; `Program.expected()` runs it
thread by thread on NumPy scalars. The two share the program and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

from tracer import T, trace

THREADS, BLOCKS, WIDTH = 32, 2, 4
ROWS = THREADS * BLOCKS

STORAGE: dict[str, Any] = {
    "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
    "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64, "bool": np.bool_,
}
INTEGERS = [name for name in STORAGE if "int" in name]
FLOATS = [name for name in STORAGE if "float" in name]
BUFFERS = list(STORAGE)


# ---------------------------------------------------------------------- the program

@dataclass
class Expr:
    """`op` of `args`, of dtype `dtype`; `value` is a literal, a name or an attribute."""

    op: str
    dtype: str
    args: tuple[Expr, ...] = ()
    value: Any = None


@dataclass
class Stmt:
    """`op` with operands and nested bodies."""

    op: str
    args: tuple[Expr, ...] = ()
    bodies: tuple[list[Stmt], ...] = ()
    value: Any = None


BINARY: dict[str, tuple[list[str], Callable[[Any, Any], Any]]] = {
    "add": (INTEGERS + FLOATS, lambda a, b: a + b),
    "sub": (INTEGERS + FLOATS, lambda a, b: a - b),
    "mul": (INTEGERS + FLOATS, lambda a, b: a * b),
    "div": (FLOATS, lambda a, b: a / b),
    "floordiv": (INTEGERS, lambda a, b: a // b),
    "floormod": (INTEGERS, lambda a, b: a % b),
    "and": ([*INTEGERS, "bool"], lambda a, b: a & b),
    "or": ([*INTEGERS, "bool"], lambda a, b: a | b),
    "xor": ([*INTEGERS, "bool"], lambda a, b: a ^ b),
    "shl": (INTEGERS, lambda a, b: a << b),
    "shr": (INTEGERS, lambda a, b: a >> b),
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
}


class Generator:
    """Draws programs. Every division has a divisor that is not zero, every shift an amount below the width, every index is in range."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lets: list[tuple[str, str]] = []       # (name, dtype) of values in scope
        self.cells: list[tuple[str, str]] = []
        self.loops: list[str] = []
        self.count = 0
        self.in_index = False

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def literal(self, dtype: str) -> Expr:
        if dtype == "bool":
            return Expr("literal", dtype, value=self.random.random() < 0.5)
        if dtype in FLOATS:
            return Expr("literal", dtype, value=self.random.choice([0.0, 1.0, -1.5, 0.25, 3.0, -7.0, 100.0]))
        info = np.iinfo(STORAGE[dtype])
        choices = [0, 1, 2, 3, 7, 100, info.max, info.min, info.max - 1]
        return Expr("literal", dtype, value=int(self.random.choice(choices)))

    def index(self, depth: int) -> Expr:
        """An int32 in [0, WIDTH)."""
        r = self.random.random()
        if r < 0.35 or depth <= 0:
            return Expr("literal", "int32", value=self.random.randrange(WIDTH))
        if r < 0.6 and self.loops:
            return Expr("floormod", "int32", (Expr("loop", "int32", value=self.random.choice(self.loops)), Expr("literal", "int32", value=WIDTH)))
        if r < 0.7:
            return Expr("floormod", "int32", (Expr("thread", "int32"), Expr("literal", "int32", value=WIDTH)))
        # Index arithmetic on thread and loop indices may not overflow (that is an error), so what follows is made of data.
        outer, self.in_index = self.in_index, True
        data = self.expr("int32", depth - 1)
        self.in_index = outer
        return Expr("floormod", "int32", (data, Expr("literal", "int32", value=WIDTH)))

    def expr(self, dtype: str, depth: int) -> Expr:
        r = self.random.random()
        if depth <= 0 or r < 0.2:
            return self.leaf(dtype, depth)
        if r < 0.32:
            return Expr("cast", dtype, (self.expr(self.random.choice(BUFFERS), depth - 1),))
        if dtype == "bool" and r < 0.75:
            of = self.random.choice(INTEGERS + FLOATS)
            return Expr(self.random.choice(list(COMPARE)), "bool", (self.expr(of, depth - 1), self.expr(of, depth - 1)))
        if r < 0.40:
            return Expr(self.random.choice(["select", "if_then_else"]), dtype,
                        (self.expr("bool", depth - 1), self.expr(dtype, depth - 1), self.expr(dtype, depth - 1)))
        if r < 0.48 and dtype != "bool":
            return Expr(self.random.choice(["min", "max"]), dtype, (self.expr(dtype, depth - 1), self.expr(dtype, depth - 1)))
        if r < 0.56:
            unary = ["neg", "abs"] if dtype in FLOATS else ["not"] if dtype == "bool" else ["neg", "abs", "not"]
            return Expr(self.random.choice(unary), dtype, (self.expr(dtype, depth - 1),))
        op = self.random.choice([name for name, (dtypes, _) in BINARY.items() if dtype in dtypes])
        left, right = self.expr(dtype, depth - 1), self.expr(dtype, depth - 1)
        if op in ("floordiv", "floormod"):
            low = Expr("and", dtype, (right, Expr("literal", dtype, value=15)))
            right = Expr("add", dtype, (low, Expr("literal", dtype, value=1)))
            if "u" not in dtype and self.random.random() < 0.4:
                right = Expr("sub", dtype, (low, Expr("literal", dtype, value=17)))      # a negative divisor, -17 to -2
        if op in ("shl", "shr"):
            right = Expr("and", dtype, (right, Expr("literal", dtype, value=np.iinfo(STORAGE[dtype]).bits - 1)))
        return Expr(op, dtype, (left, right))

    def leaf(self, dtype: str, depth: int) -> Expr:
        named = [Expr("let", dtype, value=n) for n, d in self.lets if d == dtype and not self.in_index]
        named += [Expr("cell", dtype, value=n) for n, d in self.cells if d == dtype]
        if dtype == "int32" and not self.in_index:
            named += [Expr("loop", dtype, value=n) for n in self.loops] + [Expr("thread", dtype)]
        r = self.random.random()
        if named and r < 0.45:
            return self.random.choice(named)
        if r < 0.85:
            return Expr(self.random.choice(["load", "local"]) if dtype == "int32" else "load", dtype, (self.index(depth - 1),))
        return self.literal(dtype)

    def block(self, size: int, nesting: int) -> list[Stmt]:
        lets, cells = len(self.lets), len(self.cells)
        body = [self.statement(nesting) for _ in range(self.random.randint(1, size))]
        del self.lets[lets:], self.cells[cells:]
        return body

    def statement(self, nesting: int) -> Stmt:
        r = self.random.random()
        dtype = self.random.choice(BUFFERS)
        if r < 0.35 or nesting <= 0:
            if self.random.random() < 0.2:
                return Stmt("store_local", (self.index(1), self.expr("int32", 3)))
            return Stmt("store", (self.index(1), self.expr(dtype, 3)), value=dtype)
        if r < 0.5:
            value = self.expr(dtype, 3)
            name = self.name("x")
            self.lets.append((name, dtype))
            return Stmt("let", (value,), value=name)
        if r < 0.6:
            value = self.expr(dtype, 2)
            name = self.name("cell")
            self.cells.append((name, dtype))
            return Stmt("new_cell", (value,), value=name)
        if r < 0.7 and self.cells:
            name, dtype = self.random.choice(self.cells)
            return Stmt("assign", (self.expr(dtype, 3),), value=name)
        if r < 0.85:
            chain = [self.expr("bool", 2) for _ in range(self.random.randint(1, 3))]
            bodies = [self.block(2, nesting - 1) for _ in chain]
            otherwise = self.block(2, nesting - 1) if self.random.random() < 0.5 else []
            return Stmt("if", tuple(chain), (*bodies, otherwise))
        name = self.name("k")
        bounds = self.random.choice([(0, 3, 1), (1, 6, 2), (5, 0, -2), (0, None, 1)])
        stop = Expr("and", "int32", (self.expr("int32", 2), Expr("literal", "int32", value=3)))
        self.loops.append(name)
        leave = Stmt("leave", (self.expr("bool", 2),), value=self.random.choice(["break", "continue"])) if self.random.random() < 0.3 else None
        body = self.block(2, nesting - 1)
        self.loops.pop()
        if leave is not None:
            body.insert(self.random.randint(0, len(body)), leave)
        kind = self.random.choice(["serial", "unroll", "while"]) if bounds[1] is not None and bounds[2] > 0 and leave is None else "serial"
        return Stmt("for", (stop,), (body,), value=(name, kind, bounds))


@dataclass
class Program:
    """A random kernel over one (ROWS, WIDTH) buffer of every dtype, in and out."""

    body: list[Stmt]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    @staticmethod
    def draw(random: Random, statements: int = 5) -> Program:
        """Draw one from `random`, with data."""
        program = Program(Generator(random).block(statements, 2))
        rng = np.random.default_rng(random.getrandbits(32))
        for name, storage in STORAGE.items():
            if name in FLOATS:
                data = (rng.standard_normal((ROWS, WIDTH)) * rng.choice([0.01, 1, 300], (ROWS, WIDTH))).astype(storage)
            elif name == "bool":
                data = rng.random((ROWS, WIDTH)) < 0.5
            else:
                info = np.iinfo(storage)
                wide = rng.integers(info.min, info.max, (ROWS, WIDTH), dtype=storage, endpoint=True)
                data = np.where(rng.random((ROWS, WIDTH)) < 0.5, wide, rng.integers(0, 10, (ROWS, WIDTH)).astype(storage)).astype(storage)
            program.arrays[name] = data
        return program

    # ------------------------------------------------------------------ as a kernel of ours

    def kernel(self) -> Any:
        """Record it."""
        def random_kernel(**buffers: Any) -> None:
            T.device_entry()
            bx = T.cta_id([BLOCKS])
            tx = T.thread_id([THREADS])
            i = bx * THREADS + tx
            local = T.alloc_local((WIDTH,), "int32")
            for w in range(WIDTH):
                local[w] = w
            Recorded(buffers, i, local).run(self.body)

        parameters = ", ".join(f"b_{n}: T.Buffer(({ROWS}, {WIDTH}), {n!r})" for n in BUFFERS)
        listed = ", ".join(f"{n}=b_{n}" for n in BUFFERS)
        namespace: dict[str, Any] = {"T": T, "body": random_kernel}
        exec(f"def random_kernel({parameters}):\n    body({listed})\n", namespace)
        return trace(namespace["random_kernel"])

    # ------------------------------------------------------------------ as plain NumPy

    def expected(self) -> dict[str, np.ndarray]:
        """The buffers after running it thread by thread on NumPy scalars."""
        results = {name: data.copy() for name, data in self.arrays.items()}
        with np.errstate(all="ignore"):
            for row in range(ROWS):
                Direct({name: data[row] for name, data in results.items()}, row).run(self.body)
        return results


class Recorded:
    """Runs the statements against proxies."""

    def __init__(self, buffers: dict[str, Any], row: Any, local: Any) -> None:
        self.buffers, self.row, self.local = buffers, row, local
        self.values: dict[str, Any] = {}

    def run(self, body: list[Stmt]) -> None:
        for statement in body:
            getattr(self, f"do_{statement.op}")(statement)

    def do_store(self, s: Stmt) -> None:
        index, value = s.args
        self.buffers[s.value][self.row, self.expr(index)] = self.expr(value)

    def do_store_local(self, s: Stmt) -> None:
        index, value = s.args
        self.local[self.expr(index)] = self.expr(value)

    def do_let(self, s: Stmt) -> None:
        self.values[s.value] = self.expr(s.args[0])

    def do_new_cell(self, s: Stmt) -> None:
        self.values[s.value] = T.local_scalar(s.args[0].dtype, self.expr(s.args[0]))

    def do_assign(self, s: Stmt) -> None:
        self.values[s.value].assign(self.expr(s.args[0]))

    def do_if(self, s: Stmt) -> None:
        *bodies, otherwise = s.bodies
        for position, (condition, body) in enumerate(zip(s.args, bodies)):
            with (T.If if position == 0 else T.Elif)(self.expr(condition)):
                self.run(body)
        if otherwise:
            with T.Else():
                self.run(otherwise)

    def do_leave(self, s: Stmt) -> None:
        with T.If(self.expr(s.args[0])):
            (T.break_ if s.value == "break" else T.continue_)()

    def do_for(self, s: Stmt) -> None:
        name, kind, (start, stop, step) = s.value
        if kind == "while":
            counter = T.local_scalar("int32", start)
            with T.While(lambda: counter < stop):
                self.values[name] = counter + 0
                self.run(s.bodies[0])
                counter += step
            return
        bound = self.expr(s.args[0]) if stop is None else stop
        for k in (T.unroll if kind == "unroll" else T.serial)(start, bound, step):
            self.values[name] = k
            self.run(s.bodies[0])

    def expr(self, e: Expr) -> Any:
        if e.op == "literal":
            return getattr(T, e.dtype)(e.value)
        if e.op in ("let", "cell", "loop"):
            value = self.values[e.value]
            return +value if e.op == "cell" else value
        if e.op == "thread":
            return self.row
        if e.op == "load":
            return self.buffers[e.dtype][self.row, self.expr(e.args[0])]
        if e.op == "local":
            return self.local[self.expr(e.args[0])]
        if e.op == "if_then_else":
            return T.if_then_else(*[self.expr(a) for a in e.args])
        args = [self.expr(a) for a in e.args]
        return RECORD[e.op](*args) if e.op != "cast" else args[0].astype(e.dtype)


RECORD: dict[str, Callable[..., Any]] = {
    **{op: fn for op, (_, fn) in BINARY.items()}, **COMPARE,
    "min": lambda a, b: T.min(a, b), "max": lambda a, b: T.max(a, b), "select": lambda c, a, b: T.select(c, a, b),
    "neg": lambda a: -a, "abs": abs, "not": lambda a: ~a,
}


class _Leave(Exception):  # noqa: N818
    pass


class Direct:
    """Runs the statements for one thread on NumPy scalars."""

    def __init__(self, rows: dict[str, np.ndarray], row: int) -> None:
        self.rows, self.row = rows, np.int32(row)
        self.local = np.arange(WIDTH, dtype=np.int32)
        self.values: dict[str, Any] = {}

    def run(self, body: list[Stmt]) -> None:
        for statement in body:
            getattr(self, f"do_{statement.op}")(statement)

    def do_store(self, s: Stmt) -> None:
        index, value = s.args
        number = self.expr(value)
        self.rows[s.value][self.expr(index)] = number

    def do_store_local(self, s: Stmt) -> None:
        index, value = s.args
        number = self.expr(value)
        self.local[self.expr(index)] = number

    def do_let(self, s: Stmt) -> None:
        self.values[s.value] = self.expr(s.args[0])

    do_new_cell = do_assign = do_let

    def do_if(self, s: Stmt) -> None:
        *bodies, otherwise = s.bodies
        for condition, body in zip(s.args, bodies):
            if self.expr(condition):
                self.run(body)
                return
        self.run(otherwise)

    def do_leave(self, s: Stmt) -> None:
        if self.expr(s.args[0]):
            raise _Leave(s.value)

    def do_for(self, s: Stmt) -> None:
        name, _, (start, stop, step) = s.value
        bound = int(self.expr(s.args[0])) if stop is None else stop
        for k in range(start, bound, step):
            self.values[name] = np.int32(k)
            try:
                self.run(s.bodies[0])
            except _Leave as leave:
                if leave.args[0] == "break":
                    break

    def expr(self, e: Expr) -> Any:
        storage = STORAGE[e.dtype]
        if e.op == "literal":
            return storage(e.value)
        if e.op in ("let", "cell", "loop"):
            return self.values[e.value]
        if e.op == "thread":
            return self.row
        if e.op == "load":
            return self.rows[e.dtype][self.expr(e.args[0])]
        if e.op == "local":
            return self.local[self.expr(e.args[0])]
        if e.op in ("select", "if_then_else"):
            condition, a, b = e.args
            return self.expr(a) if self.expr(condition) else self.expr(b)
        args = [self.expr(a) for a in e.args]
        return storage(DIRECT[e.op](*args)) if e.op != "cast" else convert(args[0], e.args[0].dtype, e.dtype)


def _fminmax(pick: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def choose(a: Any, b: Any) -> Any:
        if a != a:
            return b
        return a if b != b else pick(a, b)
    return choose


DIRECT: dict[str, Callable[..., Any]] = {
    **{op: fn for op, (_, fn) in BINARY.items()}, **COMPARE,
    "min": _fminmax(lambda a, b: b if b < a or (a == b and np.signbit(float(b))) else a),
    "max": _fminmax(lambda a, b: b if b > a or (a == b and np.signbit(float(a))) else a),
    "neg": lambda a: -a, "abs": abs, "not": lambda a: ~a,
}


def convert(value: Any, source: str, target: str) -> Any:
    """CUDA's conversion: float to int truncates and saturates, NaN gives 0; integers wrap; everything else rounds to nearest even."""
    storage = STORAGE[target]
    if source in FLOATS and target in INTEGERS:
        number, info = float(value), np.iinfo(storage)
        if number != number:
            return storage(0)
        return storage(info.max if number >= info.max else info.min if number <= info.min else int(number))
    if target == "bool":
        return np.bool_(value != 0)
    if source in INTEGERS and target in INTEGERS:
        return np.asarray(value).astype(storage)[()]
    if source == "bool":
        return storage(int(value))
    return _rounded(value, target)


def _rounded(value: Any, target: str) -> Any:
    """To a float type, rounded once: through exact integers and float64 where those hold the value."""
    storage = STORAGE[target]
    if isinstance(value, np.integer) and target in ("float32", "float16", "bfloat16"):
        return storage(_round_integer(int(value), target))
    return storage(value)


def _round_integer(value: int, target: str) -> float:
    """The nearest value with the target's significand, ties to even, as a float64 (exact, so that no second rounding follows)."""
    digits = {"float32": 24, "float16": 11, "bfloat16": 8}[target]
    magnitude = abs(value)
    drop = max(magnitude.bit_length() - digits, 0)
    if drop:
        kept, rest = magnitude >> drop, magnitude & ((1 << drop) - 1)
        half = 1 << (drop - 1)
        kept += rest > half or (rest == half and kept & 1)
        magnitude = kept << drop
    return float(-magnitude if value < 0 else magnitude)


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Element-wise: equal bits, or both NaN."""
    if np.issubdtype(a.dtype, np.integer) or a.dtype == np.bool_:
        return a == b
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    return (wide_a == wide_b) | (np.isnan(wide_a) & np.isnan(wide_b))
