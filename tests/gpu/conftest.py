"""These tests run on a GPU; without one each is skipped, with the reason."""

import pytest

from runtime.device import device
from tracer.errors import LaunchError


@pytest.fixture(scope="session", autouse=True)
def gpu():
    """The first GPU of this process."""
    try:
        return device(0)
    except LaunchError as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="session")
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture(scope="session")
def gpuarray():
    return pytest.importorskip("pycuda.gpuarray")
