"""Every Python block of the README and the guide runs, in order, in one namespace a document."""

import doctest
import linecache
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = ["README.md", "docs/guide.md", "docs/running.md", "docs/profile.md", "docs/sanitizer.md"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_code_blocks_run(name):
    namespace: dict = {"__name__": "document"}
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.M | re.S)
    assert blocks
    for number, block in enumerate(blocks):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, namespace, f"{name} block {number}", name, 0)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            report: list[str] = []
            runner.run(test, out=report.append, clear_globs=False)
            assert runner.failures == 0, "".join(report)
            namespace.update(test.globs)
        else:
            where = f"{name} block {number}"
            linecache.cache[where] = len(block), None, block.splitlines(keepends=True), where       # reports show source lines
            exec(compile(block, where, "exec"), namespace)


def test_error_classes_run_as_doctests():
    import tracer.errors
    result = doctest.testmod(tracer.errors)
    assert result.attempted >= 4 and result.failed == 0
