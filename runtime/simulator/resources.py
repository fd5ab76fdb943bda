"""What a warp asks of the hardware around it: registers, an elected lane, the grid before and behind.

Sources: PTX ISA 9.7.19.5 `setmaxnreg`, 9.7.13.14 `elect.sync`, 9.7.13.13 `griddepcontrol`.
"""

from __future__ import annotations

import numpy as np

from runtime.simulator.agent import Agent, Wait, line
from runtime.simulator.barriers import whole_warp
from runtime.simulator.frames import Frame
from runtime.simulator.pointers import put_registers
from runtime.simulator.program import Compiler, Flow, Run, counted, statement
from runtime.simulator.register_operands import Registers
from runtime.simulator.resident import WARP
from runtime.simulator.warp import check_mask, warps_of
from tracer import instructions as ins
from tracer.errors import BarrierError
from tracer.ir import Node


@statement(ins.SETMAXNREG)
def _setmaxnreg(c: Compiler, node: Node) -> tuple[Run, bool]:
    """A warp gives registers to the block's pool, or takes some when it has enough."""
    counter, wanted, grows = c.count(node), int(node.attrs["n"]), node.attrs["action"] == "inc"

    def run(agent: Agent, frame: Frame) -> Flow:
        agent.counts[counter] += frame.count
        block = agent.resident
        assert block is not None
        whole_warp(agent, frame, node)
        now = block.registers[agent]
        if (wanted < now) if grows else (wanted > now):
            raise BarrierError(f"{node.op.name}: .{node.attrs['action']} to {wanted} registers a thread from {now}; {'inc' if grows else 'dec'} goes "
                               f"{'up' if grows else 'down'}\n  in block {agent.block_text(0)}, warp {agent.first // WARP}{line(node)}")
        needed = (wanted - now) * WARP
        if needed > block.free_registers:
            yield Wait(agent, frame, node, lambda: needed <= block.free_registers, lambda: (
                f"{node.op.name} waits for {needed} more registers for the warp ({wanted} a thread); the block's pool has "
                f"{block.free_registers}, and other warps free theirs with setmaxnreg.dec"))
        block.free_registers -= needed
        block.registers[agent], block.setmaxnreg = wanted, node
        agent.engines.changes += 1
        return frame

    return run, True


# A launch runs by itself here, and what it depends on is over; nobody moves registers about.
statement(ins.LAUNCH_DEPENDENTS, ins.GRID_WAIT, ins.WGMMA_NOOP_BARRIER)(counted)


@statement(ins.ELECT_SYNC)
def _elect(c: Compiler, node: Node) -> tuple[Run, bool]:
    """The first lane of the mask is elected, as `T.cuda.elect_sync` does here."""
    given, counter = ins.arguments(node), c.count(node)
    mask = c.narrow(given["mask"][0])
    leader, elected = (Registers(c, node, given[name]) if given[name] else None for name in ("leader", "elected"))

    def run(agent: Agent, frame: Frame) -> None:
        agent.counts[counter] += frame.count
        warps = warps_of(agent, frame)
        masks = warps.arranged(mask(agent, frame))
        check_mask(warps, masks, node)
        first = (masks[..., None] >> np.arange(WARP) & 1).argmax(axis=-1)
        own = np.broadcast_to(warps.keys % WARP == first, (len(first), len(warps.keys)))
        shape = frame.shape
        if leader is not None:
            put_registers(leader, agent, frame, np.broadcast_to(first, own.shape).reshape(-1).astype(np.uint32).reshape(shape))
        if elected is not None:
            put_registers(elected, agent, frame, np.broadcast_to(own, (frame.count // own.shape[1], own.shape[1])).reshape(shape))

    return run, False
