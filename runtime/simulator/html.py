"""A report as one self-contained page: the kernel's lines with their numbers beside them, then the tables. No script, no network."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final

from runtime.simulator.report import AccessCount, Line, Report, efficiency_of, percent

_WHOLE: Final = 400         # lines between the first and the last one that did something: up to so many are all shown

_STYLE: Final = """
:root{--ink:#1c2330;--dim:#667085;--line:#d6dae1;--paper:#f6f7f9}
*{box-sizing:border-box}
body{margin:0;font:14px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
main{padding:18px 22px;max-width:1500px}
h1{font-size:18px;margin:0 0 4px} h2{font-size:14px;margin:18px 0 6px} .dim{color:var(--dim)}
.panel{background:#fff;border:1px solid var(--line);border-radius:6px;padding:8px 12px;overflow:auto}
table{border-collapse:collapse;font:12px/1.5 ui-monospace,Menlo,Consolas,monospace}
th{color:var(--dim);font-weight:normal;text-align:right;padding:0 10px 4px 0;border-bottom:1px solid var(--line)}
td{text-align:right;padding:1px 10px 1px 0;white-space:pre} th.text,td.text{text-align:left}
td.source{text-align:left;padding-left:8px;border-left:1px solid var(--line)}
.bar{display:grid;grid-template-columns:190px 1fr 90px;gap:8px;align-items:center;font-size:12px}
.bar i{display:block;height:11px;border-radius:2px;background:#a5b4cb} .bar.limit i{background:#c2410c} .bar.limit{font-weight:600}
"""


def page(report: Report, machine: str = "H200") -> str:
    """The HTML text; `machine` is the GPU whose roof is shown."""
    body = [f"<h1>{escape(report.kernel)}</h1>", f'<div class="dim">{escape(_headline(report))}</div>', *_roof(report, machine),
            *_notes(report), *_listings(report), *_accesses(report), *_barriers(report), *_kinds(report)]
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(report.kernel)}</title>\n'
            f"<style>{_STYLE}</style></head><body><main>\n" + "\n".join(body) + "\n</main></body></html>\n")


def _headline(report: Report) -> str:
    told = f"grid {tuple(report.grid)}, block {tuple(report.block)}; {sum(report.kinds.values()):,} operations"
    return told + (f"; sampled: {report.sample[0]} of {report.sample[1]} blocks ran, these are their counts" if report.sample else "")


def _roof(report: Report, machine: str) -> Iterator[str]:
    found = report.roof(machine)
    yield f"<h2>Roof</h2><div>{escape(str(found))}</div>"
    if found.seconds:
        bars = [f'<div class="bar{" limit" * (unit == found.limit)}"><span>{escape(unit)}</span>'
                f'<i style="width:{100 * time / found.seconds:.1f}%"></i><span>{time * 1e6:.3g} us</span></div>'
                for unit, time in sorted(found.times.items(), key=lambda entry: -entry[1])]
        yield f'<div class="panel">{"".join(bars)}</div>'


def _notes(report: Report) -> Iterator[str]:
    yield from (f"<div>note: {escape(note)}</div>" for note in report.notes)


def _listings(report: Report) -> Iterator[str]:
    most = max((line.executed for line in report.lines()), default=0)
    for file, found in groupby(report.lines(), lambda line: line.file):
        rows = [_line(line, most) for line in _between(list(found))]
        yield f'<h2 title="{escape(file)}">{escape(Path(file).name)}</h2>' + _table(
            ("line", "executed", "sectors", "efficiency", "conflicts", ""), rows)


def _between(lines: Sequence[Line]) -> list[Line]:
    """With the lines between them, which did nothing."""
    first, last = lines[0].number, lines[-1].number
    if last - first > _WHOLE:
        return list(lines)
    known = {line.number: line for line in lines}
    return [known.get(n) or Line(lines[0].file, n, linecache.getline(lines[0].file, n).rstrip(), (), (), ()) for n in range(first, last + 1)]


def _line(line: Line, most: int) -> list[str]:
    heat = line.executed / most if most else 0
    efficiency = efficiency_of(line.accesses)
    conflicts = sum(a.conflicts for a in line.accesses)
    return [f"<td class=dim>{line.number}</td>", _heated(f"{line.executed:,}" if line.executed else "", heat, 215),
            f"<td>{_number(sum(a.sectors for a in line.accesses))}</td>",
            _heated(percent(efficiency), 0 if efficiency is None else 1 - efficiency, 15),
            _heated(_number(conflicts), 1 if conflicts else 0, 15), f'<td class="source">{escape(line.source)}</td>']


def _heated(text: str, heat: float, hue: int) -> str:
    return f'<td style="background:hsl({hue} 90% 50% / {0.35 * heat:.2f})">{text}</td>' if heat else f"<td>{text}</td>"


def _accesses(report: Report) -> Iterator[str]:
    if report.statements():
        yield "<h2>Accesses</h2>" + _table(
            ("buffer", "scope", "access", "line", "bytes", "requests", "sectors", "efficiency", "passes", "conflicts", "worst"),
            [_access(a) for a in report.statements()])


def _access(a: AccessCount) -> list[str]:
    told = [a.buffer, a.scope, a.kind, a.location.short if a.location else ""]
    numbers = [f"{a.engine_bytes or a.bytes:,}", _number(a.requests), _number(a.sectors), percent(a.efficiency), _number(a.passes),
               _number(a.conflicts), f"{a.ways}-way" if a.ways > 1 else ""]
    return [*(f'<td class="text">{escape(cell)}</td>' for cell in told), *(f"<td>{cell}</td>" for cell in numbers)]


def _barriers(report: Report) -> Iterator[str]:
    if report.barriers:
        yield "<h2>Barriers and waits</h2>" + _table(("barrier", "line", "times", "warps"), [
            [f'<td class="text">{escape(b.operation)}</td>', f'<td class="text">{escape(b.location.short if b.location else "")}</td>',
             f"<td>{b.times:,}</td>", f"<td>{b.warps:,}</td>"] for b in report.barriers])


def _kinds(report: Report) -> Iterator[str]:
    if report.kinds:
        yield "<h2>Operations by kind</h2>" + _table(("kind", "executed"), [
            [f'<td class="text">{kind}</td>', f"<td>{count:,}</td>"] for kind, count in report.kinds.items()])


def _number(n: int) -> str:
    return f"{n:,}" if n else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns over text stand left, as their cells do."""
    rows = list(rows)
    left = ['class="text"' in cell or 'class="source"' in cell for cell in rows[0]] if rows else [False] * len(header)
    head = "".join(f'<th{" class=text" * is_text}>{title}</th>' for title, is_text in zip(header, left))
    return f'<div class="panel"><table><tr>{head}</tr>' + "".join(f"<tr>{''.join(row)}</tr>" for row in rows) + "</table></div>"
