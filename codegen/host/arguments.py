"""The first checks of a call: how many arguments came, of which kind, dtype and rank, and where the arrays live."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.host.call import Call
from codegen.host.names import escaped

# What a scalar parameter of each kind takes: the Python types, and in words.
_SCALAR_KINDS = {"bool": ("(bool, int)", "a bool"), "int": ("(bool, int)", "an int"), "uint": ("(bool, int)", "an int"),
                 "float": ("(bool, int, float)", "a number")}


def count(call: Call) -> Iterator[str]:
    """How many came."""
    count = len(call.parameters)
    expected = f"{count} argument" + "s" * (count != 1)
    yield from call.refuse_call(f"len(arguments) != {count}", "ArgumentCountError",
                                f"expected {expected}, got {{len(arguments)}}")
    if call.parameters:
        yield ", ".join(call.local[p] for p in call.parameters) + "," * (count == 1) + " = arguments"


def kinds(call: Call) -> Iterator[str]:
    for parameter in call.parameters:
        raw = call.local[parameter]
        if parameter.node is not None:
            accepted, words = _SCALAR_KINDS[parameter.dtype.kind]
            yield from call.refuse(f"not isinstance(number_of({raw}), {accepted})", "ArgumentTypeError", parameter,
                                   f"{parameter.name}: expected {words} ({parameter.dtype}), got {{what({raw})}}")
            yield f"{raw} = number_of({raw})"
        else:
            held = call.local[parameter.buffer] if parameter.buffer is not None else raw
            kind = call.forms[parameter.buffer].dtype if parameter.buffer is not None else None
            yield f"{held} = array({raw})" if kind is None or kind.bits >= 8 else f'{held} = narrow(array({raw}), "{kind}")'
            yield from call.refuse(f"isinstance({held}, str)", "ArgumentTypeError", parameter,
                                   f"{call.title(parameter)}: expected an array, got {{{held}}}")


def dtypes(call: Call) -> Iterator[str]:
    for parameter, buffer in call.arrays:
        a, wanted = call.local[buffer], call.forms[buffer].dtype
        yield from call.refuse(f'{a}.dtype != "{wanted}"', "ArgumentTypeError", parameter,
                               f"{buffer.name}.dtype: expected {wanted}, got {{{a}.dtype}}")


def ranks(call: Call) -> Iterator[str]:
    for parameter, buffer in call.arrays:
        a, sizes = call.local[buffer], call.forms[buffer].shape
        rank = len(sizes)
        shape = ", ".join(map(call.show, sizes)) + "," * (rank == 1)
        yield from call.refuse(f"len({a}.shape) != {rank}", "ArgumentValueError", parameter,
                               f"{buffer.name}.ndim: expected {rank}, the shape ({escaped(shape)}), "
                               f"got {{len({a}.shape)}}, the shape {{{a}.shape}}")


def devices(call: Call) -> Iterator[str]:
    arrays = [(call.local[b], b.name) for _, b in call.arrays]
    arrays += [(call.local[p], p.name) for p in call.parameters if p.buffer is None and p.node is None]
    if len(arrays) > 1:
        places = ", ".join(f"{name} on {{{a}.place}}" for a, name in arrays)
        chain = f"not ({' == '.join(f'{a}.device' for a, _ in arrays)})" if len(arrays) > 2 else \
            f"{arrays[0][0]}.device != {arrays[1][0]}.device"
        yield from call.refuse_call(chain, "ArgumentValueError", f"the arrays are on different devices: {places}")
    yield f"device = {arrays[0][0]}.device" if arrays else "device = None"
