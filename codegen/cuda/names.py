"""Names in the emitted source: what C++ and CUDA have taken, and scopes that keep the author's names apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, count

# C++20 [lex.key], with the alternative tokens.
_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl concept const
    consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast else
    enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr
    operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void
    volatile wchar_t while xor xor_eq"""

# CUDA C++ Programming Guide, "C++ Language Extensions": variables and types that a kernel sees without asking.
_CUDA = """
    threadIdx blockIdx blockDim gridDim clusterIdx clusterDim warpSize CUtensorMap dim3 uint3 half half2 nv_bfloat16 nv_bfloat162 cudaError
    size_t ptrdiff_t wchar_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uchar ushort uint ulong std main
    clock clock64 printf malloc free memcpy memset trap abort cooperative_groups nvcuda"""

# Macros that the CUDA headers or the host compiler define under names an author might choose.
_MACROS = """
    NULL NAN INFINITY HUGE_VAL EOF BUFSIZ RAND_MAX MAXFLOAT SNAN SNANF SNANL NZERO assert linux unix stdin stdout stderr offsetof alloca
    issubnormal strdupa strndupa toascii isascii P_tmpdir WNOHANG WUNTRACED BIG_ENDIAN LITTLE_ENDIAN BYTE_ORDER PDP_ENDIAN
    math_errhandling TIME_UTC NFDBITS MB_CUR_MAX CLOCKS_PER_SEC EXIT_SUCCESS EXIT_FAILURE"""
_MACRO_SHAPES = re.compile(
    r"(M_|FP_|STA_|MOD_|ADJ_|CLOCK_|CUDA|HUGE_VAL_|SEEK_|FD_|CU_|SNANF|cuda[A-Z])\w*"
    r"|(S?CHAR|UCHAR|U?SHRT|U?INT|U?LONG|U?LLONG|BOOL|WORD|SIZE|SSIZE|PTR|U?LONG_LONG|LOGIN_NAME|HOST_NAME|LINE|PATH|NAME|IOV|NGROUPS)"
    r"_(MAX|MIN|WIDTH|BIT)"
)
# The structs that stand for vectors which CUDA has not: `float16x8`.
_STRUCTS = re.compile(r"(bool|u?int\d+|b?float\d+(_\w+)?)x\d+")
# The functions that hold one instruction each.
_INSTRUCTIONS = re.compile(r"ptx_\w+")

_called: set[str] = set()


def reserve_called(text: str) -> None:
    """Take the names of the functions that `text`, a piece of emitted source, calls: a variable must not hide one."""
    _called.update(re.findall(r"[A-Za-z_]\w*(?=\()", text))


_VECTORS = {f"{t}{n}" for t in ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "longlong", "ulonglong",
                                "float", "double") for n in (1, 2, 3, 4)}
RESERVED = frozenset(_KEYWORDS.split()) | frozenset(_CUDA.split()) | frozenset(_MACROS.split()) | _VECTORS


def is_reserved(name: str) -> bool:
    """True where C++ or CUDA gives `name` a meaning that the source relies on, or may."""
    return (name in RESERVED or name in _called or name.startswith("__") or re.match(r"_[A-Z]", name) is not None
            or _MACRO_SHAPES.fullmatch(name) is not None or _STRUCTS.fullmatch(name) is not None
            or _INSTRUCTIONS.fullmatch(name) is not None)


def escape(name: str) -> str:
    """`name` as a C++ identifier: a reserved one gets a trailing underscore, a letter beyond ASCII its code point.

    >>> escape("threadIdx"), escape("acc"), escape("\\u03b1")
    ('threadIdx_', 'acc', 'u03b1')
    """
    ascii_name = re.sub(r"[^0-9A-Za-z_]", lambda m: f"u{ord(m[0]):04x}", name)
    if not ascii_name or ascii_name[0].isdigit():
        ascii_name = f"v{ascii_name}"
    return f"{ascii_name}_" if is_reserved(ascii_name) else ascii_name


class Scopes:
    """Names in use, block by block. Nothing hides an outer name; blocks that do not overlap may use the same one."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._blocks: list[set[str]] = [set(taken)]

    @contextmanager
    def block(self) -> Iterator[None]:
        """A nested block: its names are free again behind it."""
        self._blocks.append(set())
        yield
        self._blocks.pop()

    def declare(self, wish: str) -> str:
        """A free name as near to `wish` as can be: `acc`, `acc_1`, `acc_2`."""
        base = escape(wish)
        return self._take(chain([base], (f"{base.rstrip('_')}_{n}" for n in count(1))))

    def neutral(self) -> str:
        """A free name for a value that the author gave none: `v0`, `v1`."""
        return self._take(f"v{n}" for n in count())

    def _take(self, wishes: Iterator[str]) -> str:
        name = next(w for w in wishes if not any(w in block for block in self._blocks))
        self._blocks[-1].add(name)
        return name
