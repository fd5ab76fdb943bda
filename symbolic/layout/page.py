"""The page: one self-contained HTML file in which a layout and a shape are typed, drawn, and explained under the pointer.

Its script reads the notation, maps elements, and prints formulas by itself, so that the file works anywhere; the tests run it in a
browser and compare it with this package.
"""

from __future__ import annotations

import json

from symbolic.layout.axes import AXES
from symbolic.layout.banks import BITS

EXAMPLES = (
    ("mma m16n8k16, A (16-bit)", "S[(2, 8, 2, 4, 2):(2, 4@laneid, 4, 1@laneid, 1)]", "16, 16"),
    ("mma m16n8k16, C", "S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)]", "16, 8"),
    ("two warps, with copies", "S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid", "8, 16"),
    ("wgmma m64n16, D", "S[(4, 2, 8, 2, 4, 2):(1@wid_in_wg, 2, 4@laneid, 4, 1@laneid, 1)]", "64, 16"),
    ("padded rows", "S[(8, 32):(33, 1)]", "8, 32"),
    ("column-major", "S[(8, 16):(1, 8)]", "8, 16"),
    ("128B swizzle, float16", "ComposeLayout(3, 3, 3, S[512:1])", "8, 64"),
    ("64B swizzle, float16", "ComposeLayout(3, 2, 3, S[(16, 2, 32):(32, 512, 1)])", "16, 64"),
    ("tensor memory, datapath F", "S[(4, 16, 16):(32@TLane, 1@TLane, 1@TCol)]", "64, 16"),
)


def page() -> str:
    """The HTML text."""
    data = {"memory": [a.name for a in AXES.values() if a.is_memory], "axes": list(AXES), "bits": BITS, "examples": EXAMPLES}
    return _HTML.replace("/*DATA*/null", json.dumps(data).replace("</", "<\\/"))


_HTML = r"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Layouts</title>
<style>
:root{--ink:#1c2330;--dim:#667085;--line:#d6dae1;--paper:#f6f7f9}
*{box-sizing:border-box}
body{margin:0;font:14px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
main{padding:18px 22px;max-width:1500px}
h1{font-size:18px;margin:0 0 12px}
label{display:flex;flex-direction:column;font-size:12px;color:var(--dim);gap:3px}
form{display:flex;flex-wrap:wrap;gap:12px;align-items:end}
input,select{font:13px ui-monospace,Menlo,Consolas,monospace;padding:6px 8px;border:1px solid var(--line);border-radius:5px;background:#fff;color:var(--ink)}
#layout{width:min(760px,90vw)} #shape{width:130px}
#error{color:#b42318;min-height:20px;margin:8px 0;white-space:pre-wrap;font:13px ui-monospace,monospace}
#formulas,#here{font:13px/1.6 ui-monospace,Menlo,Consolas,monospace;background:#fff;border:1px solid var(--line);border-radius:6px;padding:8px 12px;white-space:pre-wrap}
#panels{display:grid;grid-template-columns:minmax(300px,1fr) minmax(300px,1fr);gap:12px;margin:4px 0 14px}
#scroll{overflow:auto;background:#fff;border:1px solid var(--line);border-radius:6px;padding:8px;max-height:75vh}
#grid{display:grid;gap:1px;width:max-content;font:10px/1.35 ui-monospace,Menlo,Consolas,monospace}
#grid>*{padding:2px 4px;text-align:center;white-space:pre;border-radius:2px}
.head{color:var(--dim)} .cell{cursor:crosshair} .cell.near{outline:2px solid #1c2330;outline-offset:-2px;z-index:1}
</style></head><body><main>
<h1>Layouts: where each element is</h1>
<form id="form" onsubmit="return false">
<label>layout<input id="layout" spellcheck="false" autocomplete="off"></label>
<label>shape<input id="shape" spellcheck="false" autocomplete="off"></label>
<label>colour by<select id="color"></select></label>
<label>element<select id="dtype"></select></label>
<label>view<select id="view"><option value="elements">elements</option><option value="banks">lines by banks</option></select></label>
<label>example<select id="example"><option value="">choose one</option></select></label>
</form>
<div id="error" role="alert"></div>
<div id="panels"><div id="formulas"></div><div id="here">point at an element</div></div>
<div id="scroll"><div id="grid"></div></div>
</main><script>
"use strict";
const DATA = /*DATA*/null, LIMIT = 128, LINE_BYTES = 128, WORD = 4, BANKS = 32;
const $ = id => document.getElementById(id);
const product = list => list.reduce((a, b) => a * b, 1);
class Refused extends Error {}

// ---- the notation ---------------------------------------------------------------------------------------------------
function parse(source) {
  const tokens = source.match(/\d+|\w+|[\[\]():,+@=-]|\S/g) || [];
  let at = 0;
  const peek = () => tokens[at];
  const take = want => {
    const token = tokens[at++];
    if (want !== undefined && token !== want) throw new Refused(`${want} was expected, not ${token === undefined ? "the end" : token}`);
    return token;
  };
  const integer = () => {
    const sign = peek() === "-" ? (take(), -1) : 1, token = take();
    if (!/^\d+$/.test(token || "")) throw new Refused(`a number was expected, not ${token === undefined ? "the end" : token}`);
    return sign * Number(token);
  };
  const strided = () => {
    const value = integer();
    if (peek() !== "@") return {value, axis: "m"};
    take();
    const axis = take();
    if (!DATA.axes.includes(axis)) throw new Refused(`there is no axis ${axis}; the axes are ${DATA.axes.join(", ")}`);
    return {value, axis};
  };
  const many = item => {
    if (peek() !== "(") return [item()];
    take("(");
    const made = [];
    while (peek() !== ")") { made.push(item()); if (peek() !== ")") take(","); }
    take(")");
    return made;
  };
  const iters = () => {
    take("[");
    const extents = many(integer);
    while (peek() === ",") { take(); if (peek() !== "]") extents.push(integer()); }
    let strides = extents.map((_, k) => ({value: product(extents.slice(k + 1)), axis: "m"}));
    if (peek() === ":") { take(); strides = many(strided); }
    take("]");
    if (extents.length !== strides.length) throw new Refused(`${extents.length} extents have ${strides.length} strides`);
    return extents.map((extent, k) => ({extent, stride: strides[k].value, axis: strides[k].axis}));
  };
  const tile = () => {
    if (peek() === "TileLayout") { take(); take("("); const inside = tile(); take(")"); return inside; }
    take("S");
    const made = {shard: iters(), replica: [], offset: {}, swizzle: null};
    while (peek() === "+" || peek() === "-") {
      const sign = take() === "-" ? -1 : 1;
      if (peek() === "R") { take(); made.replica.push(...iters()); }
      else { const {value, axis} = strided(); made.offset[axis] = (made.offset[axis] || 0) + sign * value; }
    }
    return made;
  };
  let made;
  if (peek() === "ComposeLayout") {
    take(); take("(");
    const [p, b, a] = [integer(), (take(","), integer()), (take(","), integer())];
    take(",");
    made = tile();
    let inner = true;
    if (peek() === ",") { take(); if (peek() === "swizzle_inner") { take(); take("="); } inner = take() !== "False"; }
    take(")");
    made.swizzle = {p, b, a, inner};
    if (p < 0 || b < 0 || a < b) throw new Refused("a swizzle needs per_element >= 0, swizzle_len >= 0 and atom_len >= swizzle_len");
    if (axes(made).some(x => x !== "m") || made.replica.length) throw new Refused("a swizzle permutes addresses along m; this tile has other axes or copies");
  } else made = tile();
  if (at < tokens.length) throw new Refused(`${peek()} was not expected`);
  if (made.shard.some(i => i.extent < 0)) throw new Refused("an extent is negative");
  return made;
}
const axes = layout => [...new Set([...layout.shard, ...layout.replica].map(i => i.axis).concat(Object.keys(layout.offset).filter(a => layout.offset[a])))];

// ---- the map: digits, as in digits.py -------------------------------------------------------------------------------
function canonical(shard) {
  const kept = [];
  for (const i of shard) {
    const last = kept[kept.length - 1];
    if (i.extent === 1) continue;
    if (last && last.axis === i.axis && i.extent * i.stride === last.stride) kept[kept.length - 1] = {extent: last.extent * i.extent, stride: i.stride, axis: i.axis};
    else kept.push(i);
  }
  return kept;
}
function group(iters, shape) {
  const groups = [[]];
  let total = 1;
  for (const i of iters) {
    let extent = i.extent;
    total *= extent;
    while (groups.length <= shape.length && total % shape[groups.length - 1] === 0) {
      const inner = total / shape[groups.length - 1];
      if (extent % inner) return null;
      groups[groups.length - 1].push({extent: extent / inner, stride: i.stride * inner, axis: i.axis});
      groups.push([]);
      extent = total = inner;
    }
    if (extent !== 1) { if (groups.length > shape.length) return null; groups[groups.length - 1].push({extent, stride: i.stride, axis: i.axis}); }
  }
  return groups.length > shape.length ? groups.slice(0, shape.length) : null;
}
function blocks(iters, shape) {
  const made = [];
  for (let k = 0, d = 0; d < shape.length;) {
    const k0 = k, d0 = d;
    let a = 1, b = shape[d++];
    while (a !== b) { if (a < b) a *= iters[k++].extent; else b *= shape[d++]; }
    const dims = [...shape.keys()].slice(d0, d), own = iters.slice(k0, k);
    made.push({dims, iters: own, groups: group(own, dims.map(x => shape[x]))});
  }
  return made;
}
// Each digit of the map: the dimensions it is read from (with weights), divided by `div`, then modulo `mod` where not null.
function terms(layout, shape) {
  const made = [];
  const split = (iters, from, range) => {
    let div = 1;
    for (let k = iters.length - 1; k >= 0; k--) {
      made.push({from, range, div, mod: k === 0 ? null : iters[k].extent, extent: iters[k].extent, stride: iters[k].stride, axis: iters[k].axis});
      div *= iters[k].extent;
    }
  };
  for (const block of blocks(canonical(layout.shard), shape)) {
    if (block.groups) block.dims.forEach((d, n) => split(block.groups[n].filter(i => i.extent !== 1), [[d, 1]], shape[d]));
    else split(block.iters, block.dims.map((d, n) => [d, product(block.dims.slice(n + 1).map(x => shape[x]))]), product(block.dims.map(d => shape[d])));
  }
  return made;
}
const floorMod = (x, n) => ((x % n) + n) % n;
function digit(t, coordinate) {
  let x = t.from.reduce((sum, [d, weight]) => sum + coordinate[d] * weight, 0);
  x = Math.floor(x / t.div);
  return t.mod === null ? x : floorMod(x, t.mod);
}
function swizzled(s, address) {
  const chunk = 2 ** s.p, x = Math.floor(address / chunk), n = 2 ** s.b, high = 2 ** s.a;
  const low = floorMod(x, n), up = floorMod(Math.floor(x / high), n);
  const y = s.inner ? x - low + (low ^ up) : x + ((up ^ low) - up) * high;
  return y * chunk + floorMod(address, chunk);
}
function place(layout, digits, coordinate) {
  const made = {};
  for (const a of axes(layout)) made[a] = layout.offset[a] || 0;
  for (const t of digits) made[t.axis] += digit(t, coordinate) * t.stride;
  if (layout.swizzle) made.m = swizzled(layout.swizzle, made.m || 0);
  return made;
}

// ---- formulas -------------------------------------------------------------------------------------------------------
const coordinateNames = rank => rank <= 8 ? [..."ijklpquv"].slice(0, rank) : [...Array(rank).keys()].map(d => "i" + d);
function digitText(from, div, mod, range, names) {
  let text = from.map(([d, w]) => names[d] + (w === 1 ? "" : "*" + w)).join(" + ");
  if (from.length > 1 || from[0][1] !== 1) text = div > 1 || mod !== null ? `(${text})` : text;
  if (div > 1) text += "//" + div;
  return mod !== null && mod * div < range ? {text: `${text} % ${mod}`, spaced: true} : {text, spaced: false};
}
function sumText(parts, constant) {
  const ordered = parts.filter(p => p.by !== 0).sort((x, y) => (x.by < 0) - (y.by < 0) || Math.abs(y.by) - Math.abs(x.by) || (x.text < y.text ? -1 : 1));
  let out = "";
  for (const p of ordered) {
    const size = Math.abs(p.by), body = size === 1 ? p.text : p.text + (p.spaced ? " * " : "*") + size;
    out += out ? (p.by < 0 ? " - " : " + ") + body : (p.by < 0 ? "-" : "") + body;
  }
  if (!out) return String(constant);
  if (constant > 0 && ordered.every(p => p.by < 0)) return `${constant} - ${out.slice(1)}`;
  return constant ? out + (constant > 0 ? " + " : " - ") + Math.abs(constant) : out;
}
function formulas(layout, shape) {
  const names = coordinateNames(shape.length), digits = terms(layout, shape), made = {};
  for (const a of axes(layout)) {
    const parts = digits.filter(t => t.axis === a).map(t => ({...digitText(t.from, t.div, t.mod, t.range, names), by: t.stride}));
    layout.replica.forEach((r, k) => { if (r.axis === a) parts.push({text: layout.replica.length === 1 ? "r" : "r" + k, by: r.stride, spaced: false}); });
    made[a] = layout.swizzle ? swizzleText(layout, digits, shape, names, parts) : sumText(parts, layout.offset[a] || 0);
  }
  return made;
}
const log2 = x => x > 0 && Number.isInteger(Math.log2(x)) ? Math.log2(x) : null;
// With powers of two throughout, each address bit is a XOR of coordinate bits; runs of bits print as digits.
function swizzleText(layout, digits, shape, names, parts) {
  const s = layout.swizzle, bits = [];
  const plain = digits.every(t => t.from.length === 1 && log2(t.stride) !== null && log2(t.extent) !== null && log2(t.div) !== null) && !layout.offset.m;
  for (const t of plain ? digits : [])
    for (let k = 0; k < log2(t.extent); k++) {
      const at = log2(t.stride) + k;
      if (bits[at]) return general(s, parts, layout);
      bits[at] = [[t.from[0][0], log2(t.div) + k]];
    }
  if (!plain) return general(s, parts, layout);
  const width = Math.max(bits.length, s.p + s.a + s.b);
  for (let k = 0; k < width; k++) bits[k] = bits[k] || [];
  const before = bits.map(x => [...x]);
  for (let k = 0; k < s.b; k++) {
    const low = s.p + k, up = low + s.a;
    if (s.inner) bits[low] = [...before[low], ...before[up]]; else bits[up] = [...before[up], ...before[low]];
  }
  const sorted = bits.map(x => x.sort(([a, m], [b, n]) => a - b || m - n)), out = [];
  for (let k = 0; k < width;) {
    let n = 1;
    const follows = x => sorted[x] && sorted[x].length === sorted[k].length && sorted[x].every(([d, bit], i) => d === sorted[k][i][0] && bit === sorted[k][i][1] + x - k);
    while (sorted[k].length && k + n < width && follows(k + n)) n++;
    if (sorted[k].length) {
      const texts = sorted[k].map(([d, bit]) => digitText([[d, 1]], 2 ** bit, 2 ** n, shape[d], names));
      const one = texts.length === 1;
      const joined = one ? texts[0].text : texts.map(t => t.text).sort((x, y) => rank(x) - rank(y) || (x < y ? -1 : 1)).join(" ^ ");
      out.push({text: one ? joined : `(${joined})`, by: 2 ** k, spaced: one && texts[0].spaced});
    }
    k += n;
  }
  return out.length === 1 && out[0].by === 1 && out[0].text.startsWith("(") ? out[0].text.slice(1, -1) : sumText(out, 0);
}
const rank = text => text.includes("%") ? 2 : text.includes("//") ? 1 : 0;
function general(s, parts, layout) {
  return `swizzle(${sumText(parts, layout.offset.m || 0)})`;
}

// ---- the page -------------------------------------------------------------------------------------------------------
const SHORT = {laneid: "T", tx: "T", tid_in_wg: "T", warpid: "w", wid_in_wg: "w", wgid: "g", m: "r", TLane: "L", TCol: "C"};
const colour = (key, count) => `hsl(${Math.round(360 * key / Math.max(count, 1) % 360)},${key % 2 ? 62 : 75}%,${key % 2 ? 78 : 86}%)`;
let shown = null;
function unravel(x, shape) { const c = []; for (let d = shape.length - 1; d >= 0; d--) { c[d] = x % shape[d]; x = Math.floor(x / shape[d]); } return c; }
function read() {
  const layout = parse($("layout").value), shape = ($("shape").value.match(/-?\d+/g) || []).map(Number);
  const size = product(layout.shard.map(i => i.extent));
  if (!shape.length || shape.some(e => e < 1)) throw new Refused("the shape needs positive extents, as in 8, 16");
  if (product(shape) !== size) throw new Refused(`the layout has ${size} elements, but shape (${shape.join(", ")}) has ${product(shape)}`);
  if (size > 1 << 20) throw new Refused(`${size} elements are too many to draw`);
  return {layout, shape, size};
}
function choices(select, values, wanted) {
  select.replaceChildren(...values.map(v => new Option(v, v)));
  select.value = values.includes(wanted) ? wanted : values[0];
}
function draw() {
  $("error").textContent = "";
  try {
    const {layout, shape, size} = read(), all = axes(layout), names = coordinateNames(shape.length);
    const threads = all.filter(a => !DATA.memory.includes(a)), memory = all.filter(a => DATA.memory.includes(a));
    const banked = all.includes("m") && !threads.length;
    $("view").disabled = !banked;
    const lines = banked && $("view").value === "banks";
    choices($("color"), [...new Set([...(threads.includes("laneid") ? ["laneid"] : []), ...(layout.swizzle || lines ? [names[names.length - 1]] : []), ...threads, ...memory, ...(banked ? ["bank"] : []), ...names])], $("color").dataset.wanted || $("color").value);
    const digits = terms(layout, shape), bits = DATA.bits[$("dtype").value], key = $("color").value;
    const elements = [...Array(size).keys()].map(x => { const at = unravel(x, shape); return {x, at, place: place(layout, digits, at)}; });
    const bank = e => Math.floor(e.place.m * bits / 8 / WORD) % BANKS;
    const value = e => key === "bank" ? bank(e) : key in e.place ? e.place[key] : e.at[names.indexOf(key)];
    const values = elements.map(value), least = values.reduce((a, b) => Math.min(a, b)), count = key === "bank" ? BANKS : values.reduce((a, b) => Math.max(a, b)) - least + 1;
    const label = (e, which) => which.map(a => (SHORT[a] || a + " ") + e.place[a]).join(" ");
    const cells = [];
    let rows, columns, heads, sides;
    if (lines) {
      const per = Math.max(1, layout.swizzle ? 2 ** layout.swizzle.p : Math.floor(WORD * 8 / bits)), wide = Math.max(1, Math.floor(LINE_BYTES * 8 / (bits * per)));
      columns = wide; rows = 0;
      for (const e of elements) if (e.place.m % per === 0) {
        const chunk = e.place.m / per, row = Math.floor(chunk / wide);
        rows = Math.max(rows, row + 1);
        if (row >= 0) cells.push({e, row, column: chunk % wide, text: e.at.join(",")});
      }
      const each = per * bits / 8 / WORD;
      heads = c => each > 1 ? `${c * each}-${(c + 1) * each - 1}` : String(c * each);
      sides = r => String(r);
    } else {
      columns = shape.length > 1 ? shape[shape.length - 1] : Math.min(size, 32); rows = Math.ceil(size / columns);
      for (const e of elements) cells.push({e, row: Math.floor(e.x / columns), column: e.x % columns,
        text: [label(e, threads), threads.length || memory.length > 1 ? label(e, memory) : String(e.place[memory[0]])].filter(t => t).join("\n")});
      heads = c => String(c);
      sides = r => shape.length > 1 ? unravel(r, shape.slice(0, -1)).join(",") : String(r * columns);
    }
    const grid = $("grid"), made = [], put = (className, text, row, column) => {
      const div = document.createElement("div");
      div.className = className; div.textContent = text; div.style.gridRow = row + 1; div.style.gridColumn = column + 1;
      made.push(div);
      return div;
    };
    for (let c = 0; c < Math.min(columns, LIMIT); c++) put("head", heads(c), 0, c + 1);
    for (let r = 0; r < Math.min(rows, LIMIT); r++) put("head", sides(r), r + 1, 0);
    for (const {e, row, column, text} of cells) if (row < LIMIT && column < LIMIT) {
      const div = put("cell", text, row + 1, column + 1);
      div.style.background = colour(value(e) - least, count);
      div.dataset.x = e.x;
    }
    grid.replaceChildren(...made);
    shown = {layout, shape, elements, formulas: formulas(layout, shape), names, bank: banked ? bank : null};
    $("formulas").textContent = Object.entries(shown.formulas).map(([a, t]) => `${a} = ${t}`).join("\n")
      + layout.replica.map((r, k) => `\n${layout.replica.length === 1 ? "r" : "r" + k} < ${r.extent}`).join("")
      + (rows > LIMIT || columns > LIMIT ? `\nthe first ${Math.min(rows, LIMIT)} of ${rows} rows and ${Math.min(columns, LIMIT)} of ${columns} columns are drawn` : "");
    $("here").textContent = "point at an element";
    const state = new URLSearchParams({layout: $("layout").value, shape: $("shape").value, color: key, dtype: $("dtype").value, view: $("view").value});
    history.replaceState(null, "", "#" + state);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    $("error").textContent = error.message;
    $("grid").replaceChildren(); $("formulas").textContent = ""; $("here").textContent = ""; shown = null;
  }
}
function point(event) {
  const cell = event.target.closest && event.target.closest(".cell");
  if (!cell || !shown) return;
  document.querySelectorAll(".near").forEach(n => n.classList.remove("near"));
  cell.classList.add("near");
  const e = shown.elements[Number(cell.dataset.x)];
  $("here").textContent = `element (${e.at.join(", ")}), number ${e.x}:  ${shown.names.map((n, d) => `${n} = ${e.at[d]}`).join(", ")}\n`
    + Object.entries(e.place).map(([a, v]) => `${a} = ${shown.formulas[a]} = ${v}`).join("\n") + (shown.bank ? `\nbank ${shown.bank(e)}` : "");
}
function start() {
  const state = new URLSearchParams(location.hash.slice(1)), first = DATA.examples[0];
  choices($("dtype"), Object.keys(DATA.bits), state.get("dtype") || "float16");
  DATA.examples.forEach(([name], k) => $("example").append(new Option(name, k)));
  $("layout").value = state.get("layout") || first[1];
  $("shape").value = state.get("shape") || first[2];
  $("view").value = state.get("view") || "elements";
  $("color").dataset.wanted = state.get("color") || "";
  draw();
  $("color").dataset.wanted = "";
  for (const id of ["layout", "shape"]) $(id).addEventListener("input", draw);
  for (const id of ["color", "dtype", "view"]) $(id).addEventListener("change", draw);
  $("example").addEventListener("change", () => {
    const example = DATA.examples[$("example").value];
    if (!example) return;
    [, $("layout").value, $("shape").value] = example;
    $("view").value = example[1].startsWith("Compose") ? "banks" : "elements";
    draw();
  });
  $("grid").addEventListener("mouseover", point);
}
start();
</script></body></html>
"""
