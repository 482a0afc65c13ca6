// The table of designs: click a heading to sort, a row to choose; a filter such as "pe_rows >= 16 and latency < 20ms".

const CYCLES = DATA.trials.some(t => t.cycles) ? ["analytical cycles", "generated cycles", "simulated cycles"] : [];
const COLUMNS = ["trial", ...new Set([...DATA.objectives, ...METRICS.filter(m => DATA.trials.some(t => m in t.metrics))]), ...CYCLES, ...DATA.parameters];
let sortKey = DATA.objectives[0], sortUp = true;

const isMetric = key => key in DATA.units;
function cellOf(t, key) {
  if (key === "trial") return t.number;
  if (CYCLES.includes(key)) return t.cycles && t.cycles[key.split(" ")[0]];
  return isMetric(key) ? t.metrics[key] : t.point[key];
}

// A number with an optional SI prefix and unit: "20ms" is 0.02.
function quantity(text) {
  const match = /^([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)\s*([a-zµ²0-9]*)$/i.exec(text.trim());
  if (!match) return null;
  const unit = match[2], letter = unit[0], known = PREFIXES.find(([, name]) => name === (letter === "u" ? "µ" : letter));
  const scaled = unit.length > 1 && !unit.startsWith("mm") && known ? known[0] : 1;
  return Number(match[1]) * scaled;
}

// The predicate of a filter text, or the reason why it is not understood.
function parseFilter(text) {
  const conditions = [];
  for (const part of text.split(/\s+and\s+|,|&&/i).filter(p => p.trim())) {
    const match = /^\s*([\w ]+?)\s*(<=|>=|!=|==|=|<|>)\s*(.+?)\s*$/.exec(part);
    if (!match) return { problem: "not understood: " + part.trim() };
    const key = COLUMNS.find(c => c === match[1] || words(c) === match[1] || (isMetric(c) && labelOf(c) === match[1]));
    if (!key) return { problem: "no column " + match[1] };
    const number = quantity(match[3]), wanted = number === null ? match[3] : number;
    const same = v => number === null ? String(v) === wanted : Number(v) === wanted;
    conditions.push(t => {
      const v = cellOf(t, key);
      if (v === undefined || v === null) return false;
      switch (match[2]) { case "<": return v < wanted; case ">": return v > wanted; case "<=": return v <= wanted; case ">=": return v >= wanted; case "!=": return !same(v); default: return same(v); }
    });
  }
  return { keep: t => conditions.every(condition => condition(t)) };
}

// Cycles of the matrix operators by the cost model, on the generated machine, and of the layers that were simulated; or why there are none.
function cyclesText(t, key) {
  const v = cellOf(t, key), c = t.cycles;
  if (!c) return t.valid ? "–" : t.infeasible ? "infeasible" : "breaks a bound";
  if (key === "simulated cycles") return v === null ? "not built" : count(v) + " (" + (c.simulated_layers.length > 1 ? c.simulated_layers.length + " layers" : c.simulated_layers[0]) + ")";
  return v === null ? c.why : count(v);
}

function compareCells(a, b) {
  const x = cellOf(a, sortKey), y = cellOf(b, sortKey), none = v => v === undefined || v === null;
  if (none(x) || none(y)) return none(x) - none(y);
  return (x < y ? -1 : x > y ? 1 : 0) * (sortUp ? 1 : -1) || a.number - b.number;
}

function drawTable() {
  const heading = key => html("th", { onclick: () => { sortUp = key === sortKey ? !sortUp : true; sortKey = key; drawTable(); }, "data-key": key, title: "sort" },
    (isMetric(key) ? labelOf(key) : words(key)) + (DATA.objectives.includes(key) ? " *" : "") + (key === sortKey ? (sortUp ? " ▲" : " ▼") : ""));
  byId("table").tHead.replaceChildren(html("tr", {}, ...COLUMNS.map(heading)));
  const which = byId("which").value, filter = parseFilter(byId("filter").value);
  const base = which === "front" ? onFront : which === "valid" ? valid : DATA.trials;
  const list = filter.keep ? base.filter(filter.keep).sort(compareCells) : base.slice().sort(compareCells);
  byId("filter-note").textContent = filter.problem || list.length + " of " + base.length + " shown; * objective";
  byId("filter-note").classList.toggle("bad", Boolean(filter.problem));
  byId("table").tBodies[0].replaceChildren(...list.map(t => {
    const cells = COLUMNS.map(key => {
      if (CYCLES.includes(key)) return html("td", { class: t.cycles && t.cycles.why && key === "generated cycles" ? "words" : null }, cyclesText(t, key));
      const v = cellOf(t, key), missing = isMetric(key) ? (t.infeasible ? "infeasible" : "–") : "–";
      return html("td", {}, v === undefined || v === null ? missing : isMetric(key) ? si(v, unitOf(key)) : String(v));
    });
    const row = html("tr", { class: (t.number === chosen ? "chosen " : "") + (t.front ? "front" : ""), "data-trial": t.number }, ...cells);
    row.onclick = () => choose(t.number);
    if (!t.valid) hover(row, t.infeasible ? [t.infeasible.resource, "needs " + t.infeasible.demand + " " + t.infeasible.unit + ", has " + t.infeasible.limit, t.infeasible.detail || ""] : t.broken.map(b => "breaks " + b));
    return row;
  }));
}
