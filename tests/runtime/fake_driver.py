"""A stand-in for `cuda.bindings.driver`: enums by name, structures that hold what is set, and functions that note how they are called."""

from __future__ import annotations

from typing import Any


class Enum:
    """`Enum("CU_")` has every member that is asked for; equal names are equal members."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class Status(str):
    """A CUresult."""

    @property
    def name(self) -> str:
        return str(self)


class Structure:
    """Whatever is asked of it that was not set is a structure in it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        held = Structure()
        object.__setattr__(self, name, held)
        return held

    def getPtr(self) -> int:
        return id(self)


class Results:
    CUDA_SUCCESS = Status("CUDA_SUCCESS")


class FakeDriver:
    """`answers` has for a function what it returns behind its status, or a status that is an error; `calls` what was called."""

    CUresult = Results
    CUlaunchConfig = CUlaunchAttribute = Structure

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        if name in ("CUstream", "cuuint32_t", "cuuint64_t"):
            return int
        if name.startswith("CU"):
            return Enum(name)

        def function(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            answer = self.answers.get(name)
            if callable(answer):
                answer = answer(*arguments)
            if isinstance(answer, Status):
                return (answer,)
            return (Results.CUDA_SUCCESS,) if answer is None else (Results.CUDA_SUCCESS, answer)
        return function

    def called(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of each call of one function."""
        return [arguments for called, *arguments in self.calls if called == name]
