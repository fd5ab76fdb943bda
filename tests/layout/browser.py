"""A headless browser, where there is one."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-extensions")


@cache
def browser() -> str:
    """The path of Chromium; skips the test where none is installed."""
    found = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    return found


def run_in(page: str, script: str, folder: Path, fragment: str = "") -> Any:
    """What `script` returns when it runs at the end of `page`, opened at `#fragment` in a fresh browser, as JSON."""
    file = folder / "page.html"
    file.write_text(page.replace("</body>", f"""<script>
const answer = document.createElement("pre");
answer.id = "answer";
try {{ answer.textContent = JSON.stringify((() => {{ {script} }})()); }}
catch (error) {{ answer.textContent = JSON.stringify({{failed: String(error.stack)}}); }}
document.body.append(answer);
</script></body>"""), encoding="utf-8")
    done = subprocess.run([browser(), *FLAGS, f"--user-data-dir={folder / 'profile'}", "--dump-dom",
                           file.as_uri() + (f"#{fragment}" if fragment else "")],
                          capture_output=True, text=True, timeout=120)
    _, found, rest = done.stdout.partition('<pre id="answer">')
    assert found, f"the browser gave no answer (exit {done.returncode}):\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    answer = json.loads(html.unescape(rest.partition("</pre>")[0]))
    assert not (isinstance(answer, dict) and "failed" in answer), answer
    return answer
