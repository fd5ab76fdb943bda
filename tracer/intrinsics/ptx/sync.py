"""How barriers, mbarriers and fences are written. PTX ISA 9.7.13."""

from __future__ import annotations

from collections.abc import Callable

from tracer import instructions as ins
from tracer.intrinsics.ptx.grammar import Modifiers, form

_OWN = "[space=shared|shared::cta]"
_ANY = "[space=shared|shared::cta|shared::cluster]"
_RELEASE = "[sem=release|relaxed] [scope=cta|cluster]"
_RELAXED = "[sem=relaxed] [scope=cta|cluster]"
_ACQUIRE = "[sem=acquire|relaxed] [scope=cta|cluster]"
_SCOPES = "cta|cluster|gpu|sys"


def _paired(modifiers: Modifiers, fail: Callable[[str], None]) -> None:
    if ("sem" in modifiers) != ("scope" in modifiers):
        fail("the order and its scope come together: .release.cta, .acquire.cluster")


MOST_ARRIVALS = MOST_BYTES = (1 << 20) - 1        # of one phase of an mbarrier
BARRIERS = 16                                     # that a block has


def _counted(modifiers: Modifiers, fail: Callable[[str], None]) -> None:
    _paired(modifiers, fail)
    if not 1 <= modifiers.get("count", 1) <= MOST_ARRIVALS:
        fail(f"count is {modifiers['count']}; an mbarrier counts 1 to {MOST_ARRIVALS} arrivals")
    if not 0 <= modifiers.get("tx", 0) <= MOST_BYTES:
        fail(f"tx is {modifiers['tx']}; a phase of an mbarrier takes 0 to {MOST_BYTES} bytes")


def numbered(modifiers: Modifiers, fail: Callable[[str], None]) -> None:
    """A barrier of the block has a number from 0 to 15 and counts whole warps."""
    if not 0 <= modifiers.get("id", 0) < BARRIERS:
        fail(f"there is no barrier {modifiers['id']}; a block has those from 0 to {BARRIERS - 1}")
    threads = modifiers.get("threads", 32)
    if threads <= 0 or threads % 32:
        fail(f"a barrier counts whole warps, a multiple of 32 threads, not {threads}")


_REMOTE = {"cluster": "sm_90", "relaxed": "sm_90"}
form(ins.MBARRIER_INIT, f"mbarrier.init {_OWN} (b64)", "[bar], count:u32", newer=_REMOTE, check=_counted)
form(ins.MBARRIER_INVAL, f"mbarrier.inval {_OWN} (b64)", "[bar]", newer=_REMOTE)
form(ins.MBARRIER_EXPECT_TX, f"mbarrier.expect_tx {_RELAXED} {_ANY} (b64)", "[bar], tx:u32", check=_counted)
form(ins.MBARRIER_COMPLETE_TX, f"mbarrier.complete_tx {_RELAXED} {_ANY} (b64)", "[bar], tx:u32", check=_counted)
for _arrive, _given in (("arrive", ""), ("arrive_drop", "<drop=arrive_drop>")):
    _start = "mbarrier.arrive" if not _given else f"mbarrier {_given}"
    # A barrier of another block gives no state back.
    form(ins.MBARRIER_ARRIVE, f"{_start} {_RELEASE} {_OWN} (b64)", "state?:u64=_, [bar]", newer=_REMOTE, check=_counted)
    form(ins.MBARRIER_ARRIVE, f"{_start} {_RELEASE} {_OWN} (b64)", "state?:u64=_, [bar], count:u32", since="sm_90", check=_counted)
    form(ins.MBARRIER_ARRIVE, f"{_start} {_RELEASE} <space=shared::cluster> (b64)", "_, [bar], count?:u32", since="sm_90", check=_counted)
    form(ins.MBARRIER_ARRIVE, f"{_start} <expect_tx=expect_tx> {_RELEASE} {_OWN} (b64)", "state?:u64=_, [bar], tx:u32", since="sm_90", check=_counted)
    form(ins.MBARRIER_ARRIVE, f"{_start} <expect_tx=expect_tx> {_RELEASE} <space=shared::cluster> (b64)", "_, [bar], tx:u32", since="sm_90",
         check=_counted)
    form(ins.MBARRIER_ARRIVE, f"{_start} <noComplete=noComplete> [sem=release] [scope=cta] {_OWN} (b64)", "state:u64, [bar], count:u32",
         newer=_REMOTE, check=_counted)
form(ins.MBARRIER_TEST_WAIT, f"mbarrier.test_wait {_ACQUIRE} {_OWN} (b64)", "done:pred, [bar], state:u64", newer=_REMOTE, check=_paired)
form(ins.MBARRIER_TEST_WAIT, f"mbarrier.test_wait <parity=parity> {_ACQUIRE} {_OWN} (b64)", "done:pred, [bar], phase:u32", newer=_REMOTE,
     check=_paired)
form(ins.MBARRIER_TRY_WAIT, f"mbarrier.try_wait {_ACQUIRE} {_OWN} (b64)", "done:pred, [bar], state:u64, hint?:u32", check=_paired)
form(ins.MBARRIER_TRY_WAIT, f"mbarrier.try_wait <parity=parity> {_ACQUIRE} {_OWN} (b64)", "done:pred, [bar], phase:u32, hint?:u32", check=_paired)
form(ins.MBARRIER_PENDING_COUNT, "mbarrier.pending_count (b64)", "count:u32, state:u64", computes=True)

# ---- fences

form(ins.FENCE, f"fence <sem=sc|acq_rel|acquire|release> <scope={_SCOPES}>", newer={"cluster": "sm_90"})
form(ins.FENCE, "fence <sem=acquire> <sync_restrict=sync_restrict::shared::cluster> <scope=cluster>", since="sm_90")
form(ins.FENCE, "fence <sem=release> <sync_restrict=sync_restrict::shared::cta> <scope=cluster>", since="sm_90")
form(ins.FENCE_MBARRIER_INIT, "fence.mbarrier_init <sem=release> <scope=cluster>")
form(ins.FENCE_PROXY, "fence.proxy <proxy=alias>")
form(ins.FENCE_PROXY, "fence.proxy <proxy=async> [space=global|shared::cta|shared::cluster]", since="sm_90")
form(ins.FENCE_PROXY_TENSORMAP, f"fence.proxy.tensormap::generic <sem=release> <scope={_SCOPES}>")
form(ins.FENCE_PROXY_TENSORMAP, f"fence.proxy.tensormap::generic <sem=acquire> <scope={_SCOPES}>", "[map], size#", limits={"size": (128,)})

# ---- barriers of the block and the cluster

for _bar, _aligned in (("bar [cta]", ""), ("barrier [cta]", "[aligned]")):
    form(ins.BAR_SYNC, f"{_bar} <kind=sync> {_aligned}", "id:u32, threads?:u32", check=numbered)
    form(ins.BAR_ARRIVE, f"{_bar} <kind=arrive> {_aligned}", "id:u32, threads:u32", check=numbered)
    form(ins.BAR_RED, f"{_bar} <kind=red> <op=popc> {_aligned} (u32)", "d:u32, id:u32, threads?:u32, p:pred", check=numbered)
    form(ins.BAR_RED, f"{_bar} <kind=red> <op=and|or> {_aligned} (pred)", "d:pred, id:u32, threads?:u32, p:pred", check=numbered)
form(ins.CLUSTER_ARRIVE, "barrier.cluster.arrive [sem=release|relaxed] [aligned]")
form(ins.CLUSTER_WAIT, "barrier.cluster.wait [sem=acquire] [aligned]")

# ---- the thread's registers and its grid

form(ins.SETMAXNREG, "setmaxnreg <action=inc|dec> (sync) (aligned) (u32)", "n#", limits={"n": range(24, 257, 8)})
form(ins.LAUNCH_DEPENDENTS, "griddepcontrol.launch_dependents")
form(ins.GRID_WAIT, "griddepcontrol.wait")
form(ins.ELECT_SYNC, "elect.sync", "(leader:u32, elected:pred), mask:u32")
