"""How the functions of `T.cuda` that stand for instructions are written."""

from __future__ import annotations

from codegen.cuda import fragments as fr
from codegen.cuda.fragments import Fragment
from codegen.cuda.helpers import helper
from codegen.cuda.ptx.assembly import shared_address
from codegen.cuda.templates import Form, Site, template
from tracer import instructions as ins

# The label lies between braces of its own, so that two waits in one function do not clash.
for _scope, _name in (("cta", "mbarrier_wait"), ("cluster", "mbarrier_wait_cluster")):
    helper(_name, f"""
// Spins until the phase of that parity is over.
__device__ __forceinline__ void {_name}(unsigned int bar, unsigned int phase) {{
  asm volatile("{{\\n"
               ".reg .pred done;\\n"
               "again:\\n"
               "mbarrier.try_wait.parity.acquire.{_scope}.shared::cta.b64 done, [%0], %1;\\n"
               "@!done bra again;\\n"
               "}}" : : "r"(bar), "r"(phase) : "memory");
}}""")
helper("warpgroup_sync", """
__device__ __forceinline__ void warpgroup_sync(unsigned int id) { asm volatile("bar.sync %0, 128;" : : "r"(id) : "memory"); }""")
helper("cluster_sync", """
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;" : : : "memory");
  asm volatile("barrier.cluster.wait.aligned;" : : : "memory");
}""")


def helper_call(name: str) -> Form:
    """A call of the helper `name`; pointers to shared memory go as 32-bit addresses."""
    def form(s: Site) -> Fragment:
        s.needs.helper(name)
        return fr.call(name, *(shared_address(s, o) if o.dtype is not None and o.dtype.kind == "handle" else s.printer.write(o, typed=True)
                               for o in s.node.operands))
    return form


def _address(s: Site) -> Fragment:
    pointer = s.node.operands[0]
    return shared_address(s, pointer) if pointer.dtype is not None and pointer.dtype.kind == "handle" else s.operand(0)


template(ins.MBARRIER_WAIT, lambda s: helper_call("mbarrier_wait_cluster" if s.node.attrs.get("scope") == "cluster" else "mbarrier_wait")(s))
template(ins.WARPGROUP_SYNC, helper_call("warpgroup_sync"))
template(ins.CLUSTER_SYNC, helper_call("cluster_sync"))
template(ins.CVTA_SHARED, _address)
