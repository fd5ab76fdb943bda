"""Kernels as PyTorch operations: schemas, outputs that are made, arguments that are mutated, and torch.compile's view of them."""

import uuid

import pytest

from codegen.host.shapes import shapes_source
from tests.runtime.kernels import affine, in_place, k, scalars, scale, transposed
from tracer import T, trace
from tracer.errors import ArgumentError, ArgumentValueError


def test_the_text_of_the_shapes():
    assert shapes_source(k.half, ["B"]) == "def k_shapes(A, s):\n    n = A.shape[0]\n    return ((n, 8),)\n"
    assert shapes_source(transposed.half, ["B"]) == (
        "def transposed_shapes(A):\n    n = A.shape[0]\n    m = A.shape[1]\n    return ((m, n),)\n")
    assert shapes_source(affine.half, ["B"]) == "def affine_shapes(A_ptr, x):\n    n = (A_ptr.shape[0] - 1)//2\n    return ((n,),)\n"
    assert shapes_source(scale.half, ["B_ptr"]) == "def scale_shapes(A_ptr, s):\n    n = A_ptr.shape[0]\n    return ((n,),)\n"
    assert shapes_source(in_place.half, []) == "def in_place_shapes(A):\n    return ()\n"


def test_outputs_that_are_none_and_shapes_that_nothing_determines():
    with pytest.raises(ArgumentValueError, match=r"k: 'C' is no array of `k\(A: Tensor\(\[n, 8\], float32\), .*`"):
        shapes_source(k.half, ["C"])
    with pytest.raises(ArgumentValueError) as caught:
        shapes_source(k.half, ["A", "B"])
    assert str(caught.value) == ("k: the shape of A and B depends on n, which no other argument determines; pass it as an argument and name "
                                 "another output")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def fresh(operation):
    """A name that no other test has registered."""
    return f"kernelwright_{uuid.uuid4().hex[:12]}::{operation}"


def test_an_operation_makes_its_output(torch):
    operation = k.as_torch_op(fresh("k"), outputs="B")
    a = torch.rand(5, 8)
    b = operation(a, 2.5)
    assert b.shape == (5, 8) and torch.equal(b, a * 2.5)
    assert str(operation._opoverload._schema).endswith("::k(Tensor A, float s) -> Tensor")


def test_without_outputs_what_the_kernel_writes_is_mutated(torch):
    operation = scale.as_torch_op(fresh("scale"))
    a, b = torch.rand(100), torch.zeros(100)
    assert operation(a, b, 2.0) is None and torch.equal(b, a * 2)
    assert str(operation._opoverload._schema).endswith("::scale(Tensor A_ptr, Tensor(a1!) B_ptr, float s) -> ()")


def test_several_outputs_come_in_the_order_asked_for(torch):
    @trace
    def split(A: T.Buffer(("n", 2), "float32"), B: T.Buffer(("n",), "float32"), C: T.Buffer(("n",), "int32")):
        n = A.shape[0]
        T.device_entry()
        bx = T.cta_id([n])
        T.thread_id([1])
        B[bx] = A[bx, 0]
        C[bx] = A[bx, 1].astype("int32")

    c, b = split.as_torch_op(fresh("split"), outputs=("C", "B"))(torch.tensor([[1.5, 2.0], [2.5, 3.0]]))
    assert b.tolist() == [1.5, 2.5] and c.tolist() == [2, 3] and c.dtype is torch.int32


def test_an_operation_without_a_tensor_is_none(torch):
    with pytest.raises(ArgumentValueError, match="needs a tensor among its arguments, which says where it runs"):
        scalars.as_torch_op(fresh("scalars"), outputs="A")


def test_every_kind_of_scalar(torch):
    operation = scalars.as_torch_op(fresh("scalars"))
    a = torch.zeros(5)
    operation(a, -3, 200, 0.5, 7, True)
    assert a.tolist() == [-3.0, 200.0, 0.5, 1.0, 7.0]
    assert str(operation._opoverload._schema).endswith("::scalars(Tensor(a0!) A, int i, int u, float s, int q, bool bb) -> ()")


def test_torchs_own_checks_pass(torch):
    operation = scale.as_torch_op(fresh("scale"))
    torch.library.opcheck(operation, (torch.rand(64), torch.zeros(64), 2.0))
    torch.library.opcheck(k.as_torch_op(fresh("k"), outputs="B"), (torch.rand(5, 8), 2.5))


@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile_sees_through_to_it(torch, dynamic):
    operation = k.as_torch_op(fresh("k"), outputs="B")
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda a: operation(a + 1.0, 2.0) * 3.0, backend=backend, fullgraph=True, dynamic=dynamic)
    for n in (5, 6, 7):
        a = torch.rand(n, 8)
        assert torch.allclose(compiled(a), (a + 1) * 6)
    assert len(graphs) <= 2 + (not dynamic)
    assert any("k" in str(node.target) for node in graphs[0].graph.nodes if node.op == "call_function")


def test_a_refused_call_is_the_kernels_own_refusal(torch):
    operation = k.as_torch_op(fresh("k"), outputs="B")
    with pytest.raises(ArgumentError, match=r"A\.shape\[1\]: expected 8, got 9"):
        operation(torch.rand(5, 9), 2.5)


def test_an_output_must_be_written(torch):
    with pytest.raises(ArgumentValueError, match="the kernel does not write A, which can be no output of it"):
        k.as_torch_op(fresh("k"), outputs="A")
