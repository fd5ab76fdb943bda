"""A kernel on one device: its code loaded, the limits of that device, and the launch."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from codegen.host import LaunchShape
from runtime.driver import ask, bindings, named
from runtime.parameters import Parameters
from tracer.errors import LaunchError

if TYPE_CHECKING:
    from runtime.device import Device

STATIC_SHARED_LIMIT = 48 * 1024   # what a block may have without the opt-in (CUDA C++ Programming Guide, compute capabilities)
PORTABLE_CLUSTER = 8              # blocks in a cluster that every device has (CUDA C++ Programming Guide, "Thread Block Clusters")
_REMEMBERED = 256                 # configurations; a program with more launches makes some again


@dataclass(frozen=True, slots=True)
class Traits:
    """What the author asked of every launch: that the kernel may begin before the one ahead of it has ended, that all blocks run at once."""

    programmatic: bool = False
    cooperative: bool = False

    def __str__(self) -> str:
        asked = ["programmatic dependent launch"] * self.programmatic + ["cooperative launch"] * self.cooperative
        return " and ".join(asked)


class Loaded:
    """One kernel on one device. `function` is its handle, `shared_static` the bytes that each block has by itself."""

    def __init__(self, device: Device, code: bytes, entry: str) -> None:
        """With the device's context current. Raises `LaunchError` for code of another architecture."""
        self.device, self.entry = device, entry
        try:
            self._module = ask("cuModuleLoadData", code)
            self.function = ask("cuModuleGetFunction", self._module, entry.encode())
        except LaunchError as problem:
            raise LaunchError(f"{entry} cannot be loaded on cuda:{device.ordinal}, an {device.arch}: {problem}") from problem
        self.shared_static = self.attribute("SHARED_SIZE_BYTES")
        self._shared_allowed = STATIC_SHARED_LIMIT - self.shared_static
        self._large_clusters = False
        self._configs: dict[tuple[LaunchShape, Traits, int], Any] = {}

    def attribute(self, name: str) -> int:
        """A figure of the driver's about the code: "NUM_REGS", "SHARED_SIZE_BYTES", "LOCAL_SIZE_BYTES"."""
        return int(ask("cuFuncGetAttribute", getattr(bindings().CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}"), self.function))

    def unload(self) -> None:
        """Give the code's memory back; the kernel cannot be launched any more. A context that a kernel has killed has none left."""
        self._configs.clear()
        bindings().cuModuleUnload(self._module)

    def launch(self, shape: LaunchShape, traits: Traits, parameters: Parameters, stream: int) -> None:
        """Enqueue the kernel. Raises `LaunchError` where the device has not what it asks for, or the driver refuses."""
        with self.device.current():
            config = self._config(shape, traits, stream)
            status, = bindings().cuLaunchKernelEx(config, self.function, parameters.pointers, 0)
        if status != bindings().CUresult.CUDA_SUCCESS:
            raise LaunchError(f"{self._told(shape, traits)}: cuLaunchKernelEx failed: {named(status)}")

    def _config(self, shape: LaunchShape, traits: Traits, stream: int) -> Any:
        key = (shape, traits, stream)
        config = self._configs.get(key)
        if config is None:
            self._prepare(shape)
            config = configuration(shape, traits, stream)
            self._check_residence(shape, traits, config)
            if len(self._configs) >= _REMEMBERED:
                self._configs.clear()
            self._configs[key] = config
        return config

    def _told(self, shape: LaunchShape, traits: Traits) -> str:
        """The launch in a message."""
        clusters = f", cluster {shape.cluster}" if shape.cluster else ""
        clusters += f", preferred cluster {shape.preferred}" if shape.preferred else ""
        return (f"{self.entry} with grid {shape.grid}, block {shape.block}{clusters} and {shape.shared} bytes of dynamic shared memory"
                + f", {traits}" * bool(str(traits)))

    # ---- what the device has --------------------------------------------------------------------------------------------

    def _prepare(self, shape: LaunchShape) -> None:
        """Raise the limits that a launch may raise, as far as the device goes."""
        limit = self.device.shared_limit - self.shared_static
        if shape.shared > limit:
            raise LaunchError(f"{self.entry} asks for {shape.shared} bytes of dynamic shared memory; cuda:{self.device.ordinal} has "
                              f"{limit} for a block beside the {self.shared_static} static ones")
        if shape.shared > self._shared_allowed:
            self._set("MAX_DYNAMIC_SHARED_SIZE_BYTES", shape.shared)
            self._shared_allowed = shape.shared
        if prod(shape.preferred or shape.cluster or ()) > PORTABLE_CLUSTER and not self._large_clusters:
            self._set("NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
            self._large_clusters = True

    def _set(self, name: str, value: int) -> None:
        ask("cuFuncSetAttribute", self.function, getattr(bindings().CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}"), value)

    def _check_residence(self, shape: LaunchShape, traits: Traits, config: Any) -> None:
        """A cluster must fit on the device, the whole grid of a cooperative launch too: else nothing of it would ever run."""
        place = f"cuda:{self.device.ordinal}"
        if shape.cluster:
            clusters = ask("cuOccupancyMaxActiveClusters", self.function, config)
            if clusters == 0:
                raise LaunchError(f"{self._told(shape, traits)}: {place} has no room for a cluster of {prod(shape.cluster)} such blocks; "
                                  "take a smaller cluster, or less shared memory or fewer threads a block")
            resident = clusters * prod(shape.cluster)
        else:
            resident = self.device.processors * (ask("cuOccupancyMaxActiveBlocksPerMultiprocessor", self.function, prod(shape.block),
                                                     shape.shared) if traits.cooperative else 0)
        if traits.cooperative and prod(shape.grid) > resident:
            raise LaunchError(f"{self._told(shape, traits)}: a cooperative launch runs all blocks at once; {place} has room for {resident} of "
                              f"these, the grid has {prod(shape.grid)}")


def configuration(shape: LaunchShape, traits: Traits, stream: int) -> Any:
    """The driver's CUlaunchConfig, with the attributes that are asked for."""
    driver = bindings()
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = shape.block
    config.sharedMemBytes, config.hStream = shape.shared, driver.CUstream(stream)
    attributes = []
    for name, field, value in (("CLUSTER_DIMENSION", "clusterDim", shape.cluster),
                               ("PREFERRED_CLUSTER_DIMENSION", "preferredClusterDim", shape.preferred),
                               ("PROGRAMMATIC_STREAM_SERIALIZATION", "programmaticStreamSerializationAllowed", int(traits.programmatic)),
                               ("COOPERATIVE", "cooperative", int(traits.cooperative))):
        if value:
            attribute = driver.CUlaunchAttribute()
            attribute.id = getattr(driver.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
            if isinstance(value, tuple):
                dimensions = getattr(attribute.value, field)
                dimensions.x, dimensions.y, dimensions.z = value
            else:
                setattr(attribute.value, field, value)
            attributes.append(attribute)
    config.attrs, config.numAttrs = attributes, len(attributes)
    return config
