"""Tensor memory: the reference's pools, the order of their life, addresses, and what is refused."""

import json
import re
from pathlib import Path

import pytest

from symbolic.layout import S, TileLayout
from symbolic.layout.axes import TCol, TLane
from tracer import T, trace
from tracer import operations as ops
from tracer.errors import NotSupportedError, TraceError
from tracer.instructions import TCGEN05_ALLOC, TCGEN05_DEALLOC, TCGEN05_RELINQUISH, TMEM_ADDRESS

RECORDS = json.loads((Path(__file__).parent.parent / "data/pools/tmem_pool.json").read_text())["records"]

# What the reference takes and we refuse (W22: no limit is checked; overlaps), by record and step; steps that it refuses too are refused here.
STRICTER = {
    120: r"total_cols=100\): a block allocates a power of two of columns, 32 to 512",
    122: r"T.TMEMPool\(cta_group=2\), for pairs of blocks, is not supported in this version",
    (125, 0): r"cols=32 for a tensor that reaches 64 columns",
    (126, 0): r"a tensor of 256 lanes; tensor memory has 128",
    (127, 0): r"move_base_to\(600\): the column is 0 to 512",
    (131, 0): r"unexpected keyword argument 'group'",      # such an accumulator is written with layout=
    (131, 1): r"alloc_tcgen05_mma_D of 3 axes",
    (131, 2): r"alloc_tcgen05_mma_D of 3 axes",
    (132, 3): r"with M=128 and cta_group=2 a block has 64 rows; the shape is \(2, 64, 64\)",
}
# Where a step that is refused here would have moved the cursor, later steps begin earlier than in the record.
SHIFTED = {125: 32, 126: 64}


def steps(record):
    """Perform a record on a pool; yields for each step the buffer that it made, or its error."""
    found = []

    def kernel(A: T.Buffer((1,), "uint8")):
        T.device_entry()
        T.warp_id([4])
        smem = T.SMEMPool()
        pool = T.TMEMPool(smem, **record["kw"])
        found.append(smem.offset)
        for kind, *arguments in record["ops"]:
            try:
                if kind == "alloc":
                    shape, element, *options = arguments
                    made = pool.alloc(tuple(shape), element, **(options[0] if options else {}))
                elif kind in ("D", "A"):
                    shape, element, options = arguments
                    made = getattr(pool, f"alloc_tcgen05_mma_{kind}")(tuple(shape), element, **options)
                else:
                    made = {"move": pool.move_base_to, "commit": pool.commit, "dealloc": pool.dealloc}[kind](*arguments)
                found.append((made, pool.offset))
            except (TraceError, TypeError, NotSupportedError) as error:
                found.append(error)
        smem.commit()

    try:
        trace(kernel)
    except (TraceError, NotSupportedError) as error:
        found.append(error)
    return found


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: str(r["id"]))
def test_the_references_pools(record):
    start, *found = steps(record)
    if record["id"] in STRICTER:
        assert re.search(STRICTER[record["id"]], str(start))
        return
    assert start == record["smem_cursor_after_ctor"]
    for number, (step, ours) in enumerate(zip(record["steps"], found)):
        if (record["id"], number) in STRICTER:
            assert re.search(STRICTER[record["id"], number], str(ours)), ours
        elif "error" in step:
            assert isinstance(ours, (TraceError, NotSupportedError)), (step, ours)
        else:
            made, cursor = ours
            shift = SHIFTED.get(record["id"], 0)
            assert cursor == step["cursor"] - shift, (step, ours)
            if made is not None:
                assert [made.allocated_addr + shift] == step["allocated_addr"]
                theirs = TileLayout.from_iters([(extent, stride, {"TLane": TLane, "TCol": TCol}[axis]) for extent, stride, axis
                                                in step["layout"]["shard"]])
                points = [(0, 0), (1, 3), (made.shape[0] - 1, made.shape[1] - 1), (17 % made.shape[0], made.shape[1] // 2)]
                for point in points:
                    assert made.layout.apply(*point, shape=made.shape) == theirs.apply(*point, shape=made.shape), point


def test_how_much_is_compared():
    assert len(RECORDS) == 15
    assert sum(isinstance(step, tuple) for record in RECORDS for step in steps(record)[1:]) == 22


def kernel_with(body, total=512, warps=4, **options):
    def kernel(A: T.Buffer((128, 64), "float32")):
        T.device_entry()
        tx = T.thread_id([32 * warps])
        pool = T.TMEMPool(None, total, tmem_addr=T.alloc_shared((1,), "uint32"), **options)
        body(pool, tx)
    return kernel


def test_the_life_of_a_pool():
    def body(pool, tx):
        acc = pool.alloc((128, 64))
        pool.commit()
        T.let(acc.tmem_address(tx // 32 * 32, 16))
        pool.dealloc()

    function = trace(kernel_with(body, 64, alloc_warp=1, dealloc_warp=2)).function
    nodes = [n for n in function.device.walk() if n.op.name.startswith(("ptx.tcgen05.", "cuda.cta_sync"))]
    assert [n.op.name.removeprefix("ptx.tcgen05.") for n in nodes] == [
        "alloc", "relinquish_alloc_permit", "cuda.cta_sync", "fence", "cuda.cta_sync", "fence", "dealloc"]
    assert [n.attrs["instruction"] for n in nodes if n.op in (TCGEN05_ALLOC, TCGEN05_RELINQUISH, TCGEN05_DEALLOC)] == [
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32"]
    assert [n.operands[1].attrs["value"] for n in nodes if n.op in (TCGEN05_ALLOC, TCGEN05_DEALLOC)] == [64, 64]
    guards = [n.operands[0] for n in function.device.nodes if n.op is ops.IF]
    assert [g.operands[1].attrs["value"] for g in guards] == [1, 2]


def addresses(body):
    """The (lane, column) operands of the addresses that `body(acc, tx)` computes."""
    def whole(pool, tx):
        body(pool, tx)
        pool.dealloc()

    kernel = trace(kernel_with(whole))
    text = kernel.script()
    namespace: dict = {}
    exec(text, namespace)
    assert trace(namespace["kernel"]).script() == text
    return re.findall(r"get_tmem_addr\(\w+\[0\], (.*)\)", text)


def test_addresses_follow_the_layout():
    def body(pool, tx):
        a = pool.alloc((128, 64))
        half = pool.alloc((128, 64), "bfloat16")
        folded = pool.alloc_tcgen05_mma_D((64, 64), M=64)
        pool.commit()
        out = T.alloc_local((6,), "uint32")
        out[0] = a.tmem_address()
        out[1] = a.tmem_address(tx // 32 * 32, 16)
        out[2] = half.tmem_address(0, 8)
        out[3] = folded.tmem_address(16, 2)
        out[4] = folded.tmem_address(tx // 32 * 16, 0)
        for k in T.serial(4):
            out[k] = a.tmem_address(0, k * 16)

    assert addresses(body) == ["0, 0", "tx // 32 * 32, 16", "0, 68", "32, 98", "tx // 32 * 32, 96", "0, k * 16"]


def test_tensors_by_hand():
    def kernel(A: T.Buffer((128, 64), "float32")):
        T.device_entry()
        T.thread_id([128])
        slot = T.alloc_shared((1,), "uint32")
        acc = T.decl_buffer((128, 512), "float32", scope="tmem", allocated_addr=0)
        part = T.decl_buffer((128, 64), "float32", scope="tmem", allocated_addr=448, layout=TileLayout(S[(128, 64):(1@TLane, 1@TCol)]))
        based = T.decl_buffer((128, 512), "float32", scope="tmem", allocated_addr=slot)
        assert (acc.allocated_addr, part.allocated_addr, acc.scope, acc.shape) == (0, 448, "tmem", (128, 512))
        out = T.alloc_local((3,), "uint32")
        out[0] = acc.tmem_address(0, 5)
        out[1] = part.tmem_address(32, 5)
        out[2] = based.tmem_address(0, 5)
        T.reinterpret("float32", out[0])

    function = trace(kernel).function
    found = [n for n in function.device.walk() if n.op is TMEM_ADDRESS]
    assert [[o.attrs.get("value") for o in n.operands] for n in found] == [[0, 0, 5], [0, 32, 453], [None, 0, 5]]


@pytest.mark.parametrize(("body", "message"), [
    (lambda p, tx: p.alloc((128, 64)), "the tensor memory pool is never committed; call commit"),
    (lambda p, tx: (p.alloc((128, 64)), p.commit()), "the tensor memory pool is never freed; call dealloc"),
    (lambda p, tx: p.dealloc(), r"the tensor memory pool is freed before commit\(\)"),
    (lambda p, tx: (p.commit(), p.commit()), "commit: the tensor memory pool was committed at"),
    (lambda p, tx: (p.commit(), T.TMEMPool(None, 32, tmem_addr=T.alloc_shared((1,), "uint32")).commit()),
     "a tensor memory pool was committed at .*, which gave up the block's permit to allocate more"),
    (lambda p, tx: (p.commit(), p.alloc((128, 64))), "alloc: the tensor memory pool was committed at"),
    (lambda p, tx: (p.commit(), p.dealloc(), p.dealloc()), "the tensor memory pool was freed at"),
    (lambda p, tx: p.alloc((128, 64)).tmem_address(), "is used before the pool's commit"),
    (lambda p, tx: after_the_end(p), r"'acc' is used behind the pool's dealloc\(\) at"),
    (lambda p, tx: (p.alloc((128, 512)), p.alloc((128, 1))), "513 columns of tensor memory; the pool has total_cols=512"),
    (lambda p, tx: p.alloc((129, 1)), "a tensor of 129 lanes; tensor memory has 128"),
    (lambda p, tx: p.alloc((128, 3), "float16"), "rows of 48 bits do not fill whole columns of 32; say with cols="),
    (lambda p, tx: p.alloc((2, 128, 64)), "a tensor of 3 axes in tensor memory needs layout="),
    (lambda p, tx: p.alloc((128, 64), layout=TileLayout(S[(128, 64):(64, 1)])), "maps to TLane and TCol, not to m"),
    (lambda p, tx: p.alloc_tcgen05_mma_D((128, 64), M=96), r"no data path for M=96, .*; there are M=128 cta_group=1, "),
    (lambda p, tx: p.alloc_tcgen05_mma_D((64, 64), M=128), r"datapath D \(M = 128, cta_group::1\) has 128 rows, not 64"),
    (lambda p, tx: p.alloc_tcgen05_mma_A((128, 64), M=96), "alloc_tcgen05_mma_A: no data path for M=96, cta_group=1"),
    (lambda p, tx: p.alloc_tcgen05_mma_A((64, 64), M=128), "with M=128 and cta_group=1 a block has 128 rows; the shape is"),
    (lambda p, tx: p.alloc((128, 64)).view(64, 128), "which is in tensor memory: declare one with T.decl_buffer"),
    (lambda p, tx: T.TMEMPool(None, 48), r"T.TMEMPool\(total_cols=48\): a block allocates a power of two of columns, 32 to 512"),
    (lambda p, tx: T.TMEMPool(None), "needs 4 bytes of shared memory for the address"),
    (lambda p, tx: T.TMEMPool(None, tmem_addr=T.alloc_shared((2,), "uint32")), "one uint32 in shared memory, not"),
    (lambda p, tx: T.TMEMPool(None, cta_group=3), r"T.TMEMPool\(cta_group=3\): write 1"),
    (lambda p, tx: T.decl_buffer((128, 64), scope="tmem"), "needs allocated_addr="),
    (lambda p, tx: T.decl_buffer((128, 64), scope="tmem", allocated_addr=480), "columns 480 to 543 of tensor memory; it has 512"),
    (lambda p, tx: T.decl_buffer((128, 64), scope="shared", allocated_addr=0), "allocated_addr= is for scope=\"tmem\", not 'shared'"),
    (lambda p, tx: T.decl_buffer((128, 64), scope="tmem", allocated_addr=0, align=16), "align of a buffer in tensor memory"),
    (lambda p, tx: T.alloc_buffer((128, 64), "float32", scope="tmem"), "tensor memory is allocated with T.TMEMPool"),
])
def test_refusals(body, message):
    with pytest.raises(TraceError, match=message):
        trace(kernel_with(body))


def test_block_scaled_products_are_named():
    with pytest.raises(NotSupportedError, match="scale factors in tensor memory, for block-scaled tcgen05.mma, are not supported in this version"):
        trace(kernel_with(lambda pool, tx: pool.alloc_sf((128, 4), "float8_e8m0fnu", sf_per_mma=4)))


def after_the_end(pool):
    acc = pool.alloc((128, 64))
    pool.commit()
    pool.dealloc()
    acc.tmem_address()


@pytest.mark.parametrize("access", [
    lambda acc: acc[0, 0], lambda acc: acc.__setitem__((0, 0), 1.0), lambda acc: acc.vload([0, 0], "float32x4"), lambda acc: acc.ptr_to([0, 0]),
    lambda acc: acc.data, lambda acc: acc[0:32, :], lambda acc: acc.vstore([0, 0], 1.0)])
def test_threads_cannot_address_it(access):
    def body(pool, tx):
        acc = pool.alloc((128, 64))
        pool.commit()
        access(acc)

    with pytest.raises(TraceError, match=r"'acc' is in tensor memory, which threads cannot address: .*acc.tmem_address\(row, col\)"):
        trace(kernel_with(body))


def test_an_address_begins_a_column_within_the_shape():
    def body(col):
        def inner(pool, tx):
            half = pool.alloc((128, 64), "bfloat16")
            pool.commit()
            half.tmem_address(0, col)
        return kernel_with(inner)

    with pytest.raises(TraceError, match="the element 48 bits into its lane is not proved to begin a column of 32"):
        trace(body(3))
    with pytest.raises(TraceError, match="index 1 of 'half' is 64, which is out of bounds"):
        trace(body(64))


def test_moves_of_a_warp():
    def body(pool, tx):
        pool.alloc((128, 16))
        acc = pool.alloc((128, 64))
        pool.commit()
        wide, pairs = T.alloc_local((16,), "float32"), T.alloc_local((4,), "uint32")
        acc.load(wide, 8)
        acc.store(pairs, 4, shape="16x256b")
        pool.dealloc()

    function = trace(kernel_with(body, 128)).function
    moves = [n for n in function.device.walk() if n.op.name in ("ptx.tcgen05.ld", "ptx.tcgen05.st")]
    assert [n.attrs["instruction"] for n in moves] == ["tcgen05.ld.sync.aligned.32x32b.x16.b32", "tcgen05.st.sync.aligned.16x256b.x1.b32"]
    assert [len(n.operands) for n in moves] == [17, 5]
    found = [[o.attrs.get("value") for o in n.operands[1:]] for n in function.device.walk() if n.op is TMEM_ADDRESS]
    assert found == [[0, 24], [None, 0], [0, 20], [None, 0]]


@pytest.mark.parametrize(("registers", "shape", "message"), [
    (lambda: T.alloc_local((3,), "uint32"), "16x64b", "'x3' is not legal behind .*; what may follow: num: x1, x2, x4"),
    (lambda: T.alloc_local((6,), "uint32"), "16x256b", "6 registers; 16x256b fills 4 at a time"),
    (lambda: T.alloc_local((8,), "uint32"), "8x8", "shape='8x8'; write one of '32x32b', '16x64b', '16x128b', '16x256b'"),
    (lambda: T.alloc_shared((8,), "uint32"), "32x32b", "is no local buffer"),
])
def test_moves_are_refused(registers, shape, message):
    def body(pool, tx):
        acc = pool.alloc((128, 64))
        pool.commit()
        acc.load(registers(), shape=shape)

    with pytest.raises(TraceError, match=message):
        trace(kernel_with(body))
