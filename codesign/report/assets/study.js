const prefixes = [[1e12,"T"],[1e9,"G"],[1e6,"M"],[1e3,"k"],[1,""],[1e-3,"m"],[1e-6,"µ"],[1e-9,"n"],[1e-12,"p"]];
function si(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit.startsWith("mm")) return value.toPrecision(3) + " " + unit;
  if (value === 0) return "0 " + unit;
  for (const [scale, letter] of prefixes) if (Math.abs(value) >= scale) return (value / scale).toPrecision(3) + " " + letter + unit;
  return value.toPrecision(3) + " " + unit;
}
const label = o => DATA.labels[o] || o, unit = o => DATA.units[o] || "";
const axisTitle = o => label(o) + (unit(o) ? " [" + unit(o) + "]" : "");
const element = id => document.getElementById(id);
const valid = DATA.trials.filter(t => t.valid), front = DATA.trials.filter(t => t.front);
const shown = ["latency_s", "energy_j", "power_w", "area_mm2"];
const parameters = DATA.config.space.space.parameters.map(p => p.name);
let chosen = DATA.balanced;

function text(tag, value, cls) { const e = document.createElement(tag); e.textContent = value; if (cls) e.className = cls; return e; }
function cards(id, items) {
  const box = element(id); box.replaceChildren();
  for (const [value, name] of items) { const c = text("div", "", "card"); c.append(text("b", value), text("span", name)); box.append(c); }
}
function describe(t) {
  return "trial " + t.number + "<br>" + shown.filter(o => o in t.metrics).map(o => label(o) + " " + si(t.metrics[o], unit(o))).join("<br>")
    + "<br>" + Object.entries(t.point).map(([k, v]) => k + " = " + v).join("<br>");
}

function head() {
  const names = DATA.config.workload.names.join(" + ");
  element("title").textContent = "Accelerators for " + names;
  element("lead").textContent = "Space “" + DATA.config.space.name + "”, optimiser " + DATA.config.optimizer + ", mapper " + DATA.config.mapper.name
    + ", seed " + DATA.config.seed + (DATA.config.constraints.length ? ", subject to " + DATA.config.constraints.join(", ") : "") + ".";
  const best = DATA.objectives.map(o => {
    const values = front.map(t => t.metrics[o]);
    return [values.length ? si(Math.min(...values), unit(o)) : "–", "best " + label(o)];
  });
  cards("cards", [[DATA.trials.length, "designs evaluated"], [valid.length, "feasible"], [front.length, "on the front"], ...best]);
}

function drawFronts() {
  const box = element("fronts"); box.replaceChildren();
  const pairs = [];
  for (let i = 0; i < DATA.objectives.length; i++) for (let j = i + 1; j < DATA.objectives.length; j++) pairs.push([DATA.objectives[i], DATA.objectives[j]]);
  for (const [x, y] of pairs) {
    const holder = text("div", ""), plot = text("div", "", "plot"); holder.append(plot); box.append(holder);
    const series = (list, name, colour, size, opacity) => ({ x: list.map(t => t.metrics[x]), y: list.map(t => t.metrics[y]), customdata: list.map(t => t.number),
      text: list.map(describe), hovertemplate: "%{text}<extra></extra>", mode: "markers", name, marker: { color: colour, size, opacity } });
    const pick = DATA.trials.filter(t => t.number === chosen && t.valid);
    Plotly.newPlot(plot, [series(valid.filter(t => !t.front), "dominated", "#9aa5b8", 7, .7), series(front, "front", "#1f6feb", 10, 1),
      { ...series(pick, "chosen", "rgba(0,0,0,0)", 17, 1), marker: { size: 17, color: "rgba(0,0,0,0)", line: { color: "#d9480f", width: 3 } } }],
      { margin: { l: 62, r: 12, t: 12, b: 48 }, xaxis: { type: "log", title: { text: axisTitle(x) }, exponentformat: "SI" }, yaxis: { type: "log", title: { text: axisTitle(y) }, exponentformat: "SI" },
        legend: { orientation: "h", y: -0.22 }, hovermode: "closest" }, { responsive: true, displayModeBar: false });
    plot.on("plotly_click", e => choose(e.points[0].customdata));
  }
}

function drawProgress() {
  Plotly.newPlot("curve", [{ x: DATA.curve.map((_, k) => k + 1), y: DATA.curve, mode: "lines", line: { shape: "hv", color: "#1f6feb", width: 2.5 } }],
    { margin: { l: 62, r: 12, t: 12, b: 48 }, xaxis: { title: { text: "trials" } }, yaxis: { title: { text: "hypervolume [decades^" + DATA.objectives.length + "]" }, rangemode: "tozero" } }, { responsive: true, displayModeBar: false });
  element("curve-note").textContent = DATA.reference ? "Hypervolume of the logarithms (base 10) of the objectives against the fixed reference point "
    + DATA.objectives.map((o, k) => label(o) + " " + si(DATA.reference[k], unit(o))).join(", ") + " (1.1 times the worst feasible value among the first ten trials)." : "No feasible design yet.";
  const dimensions = parameters.map(name => {
    const values = valid.map(t => t.point[name] === undefined ? null : t.point[name]);
    if (values.every(v => typeof v === "number")) {
      const ticks = [...new Set(values)].sort((a, b) => a - b), log = ticks.length > 0 && ticks[0] > 0;
      return { label: name, values: values.map(v => log ? Math.log2(v) : v), tickvals: ticks.map(v => log ? Math.log2(v) : v), ticktext: ticks.map(String) };
    }
    const names = [...new Set(values.map(String))];
    return { label: name, values: values.map(v => names.indexOf(String(v))), tickvals: names.map((_, k) => k), ticktext: names };
  });
  for (const o of DATA.objectives) dimensions.push({ label: "log " + label(o), values: valid.map(t => Math.log10(t.metrics[o])) });
  Plotly.newPlot("parallel", [{ type: "parcoords", line: { color: valid.map(t => t.front ? 1 : 0), colorscale: [[0, "#c9d1de"], [1, "#1f6feb"]] }, dimensions }],
    { margin: { l: 50, r: 40, t: 60, b: 24 }, font: { size: 10 } }, { responsive: true, displayModeBar: false });
}

let sortKey = DATA.objectives[0], sortUp = true;
const cell = (t, key) => key === "trial" ? t.number : key in DATA.units ? t.metrics[key] : t.point[key];
function drawTable() {
  const columns = ["trial", ...shown, ...parameters];
  const headRow = document.createElement("tr");
  for (const key of columns) {
    const th = text("th", (key in DATA.units ? label(key) + (DATA.objectives.includes(key) ? " *" : "") : key) + (key === sortKey ? (sortUp ? " ▲" : " ▼") : ""));
    th.onclick = () => { sortUp = key === sortKey ? !sortUp : true; sortKey = key; drawTable(); };
    headRow.append(th);
  }
  element("table").tHead.replaceChildren(headRow);
  const list = (element("which").value === "front" ? front : DATA.trials).slice();
  list.sort((a, b) => { const x = cell(a, sortKey), y = cell(b, sortKey); if (x === undefined) return 1; if (y === undefined) return -1; return (x < y ? -1 : x > y ? 1 : 0) * (sortUp ? 1 : -1); });
  element("table").tBodies[0].replaceChildren(...list.map(t => {
    const row = document.createElement("tr"); if (t.number === chosen) row.className = "chosen";
    for (const key of columns) { const v = cell(t, key); row.append(text("td", v === undefined ? (t.infeasible ? "infeasible" : "–") : key in DATA.units ? si(v, unit(key)) : v)); }
    row.onclick = () => choose(t.number);
    return row;
  }));
}
function drawInfeasible() {
  const counts = {};
  for (const t of DATA.trials) if (!t.valid) { const why = t.infeasible ? t.infeasible.resource : "breaks " + DATA.config.constraints.join(" or "); counts[why] = (counts[why] || 0) + 1; }
  const box = element("infeasible"), list = Object.entries(counts); box.replaceChildren();
  if (list.length) { box.append(text("h3", "Designs that do not count")); const ul = document.createElement("ul"); for (const [why, n] of list) ul.append(text("li", n + " × " + why)); box.append(ul); }
}

function drawChosen() {
  const t = DATA.trials.find(t => t.number === chosen), d = DATA.details[String(chosen)];
  element("chosen-title").textContent = t ? "Design of trial " + t.number : "No design is feasible";
  if (!t) return;
  cards("chosen-cards", [...shown.filter(o => o in t.metrics).map(o => [si(t.metrics[o], unit(o)), label(o)]), ...Object.entries(t.point).map(([k, v]) => [v, k])]);
  if (!d || !d.layers) { for (const id of ["energy", "area", "layers"]) Plotly.purge(id); element("mappings").replaceChildren(text("p", "Details are kept in the page for designs on the front; others are in details/" + chosen + ".json.", "note")); return; }
  const energy = {};
  for (const layer of d.layers) for (const [k, v] of Object.entries(layer.energy_by_level_pj)) energy[k] = (energy[k] || 0) + v * layer.count * 1e-12;
  energy["vector operators"] = d.vector.energy_pj * 1e-12; energy["leakage"] = d.metrics.leakage_w * d.metrics.latency_s;
  const bars = (id, entries, title, u) => Plotly.newPlot(id, [{ type: "bar", orientation: "h", y: entries.map(e => e[0]).reverse(), x: entries.map(e => e[1]).reverse(), text: entries.map(e => si(e[1], u)).reverse(), textposition: "auto", marker: { color: "#1f6feb" }, hovertemplate: "%{y}: %{text}<extra></extra>" }],
    { title: { text: title, font: { size: 15 } }, margin: { l: 120, r: 20, t: 40, b: 48 }, xaxis: { title: { text: "[" + u + "]" }, exponentformat: "SI" } }, { responsive: true, displayModeBar: false });
  bars("energy", Object.entries(energy), "Energy of one run by where it is spent", "J");
  const parts = d.architecture.levels.filter(l => l.kind !== "dram").map(l => [l.name + (l.instances > 1 ? " × " + l.instances : ""), l.area_mm2 || 0]);
  parts.push(["MACs × " + d.architecture.mac.units, d.architecture.mac.area_mm2], ["interconnect, DMA", d.architecture.extra_area_mm2]);
  bars("area", parts, "Area by part", "mm²");
  const clock = d.architecture.clock_hz, layers = d.layers;
  const bound = [...new Set(layers.map(l => l.bottleneck))];
  Plotly.newPlot("layers", bound.map((b, k) => ({ type: "bar", name: b === "compute" ? "bound by compute" : "bound by bandwidth of " + b, x: layers.filter(l => l.bottleneck === b).map(l => l.name), y: layers.filter(l => l.bottleneck === b).map(l => l.latency_cycles * l.count / clock),
      text: layers.filter(l => l.bottleneck === b).map(l => l.count + " × " + si(l.latency_cycles / clock, "s") + "<br>utilisation " + (100 * l.utilization).toFixed(1) + " %<br>" + l.notation + "<br>" + Object.entries(l.bounds).map(e => e.join("=")).join(" ")), hovertemplate: "%{x}<br>%{text}<extra></extra>", textposition: "none",
      marker: { color: ["#1f6feb", "#d9480f", "#2b8a3e", "#862e9c", "#e67700"][k % 5] } })),
    { title: { text: "Latency by distinct layer (all its repetitions), and what bounds it", font: { size: 15 } }, margin: { l: 62, r: 12, t: 40, b: 110 }, yaxis: { title: { text: "[s]" }, exponentformat: "SI" }, xaxis: { tickangle: -45, categoryorder: "array", categoryarray: layers.map(l => l.name) }, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 1, xanchor: "right" } }, { responsive: true, displayModeBar: false });
  const heavy = layers.slice().sort((a, b) => b.latency_cycles * b.count - a.latency_cycles * a.count).slice(0, 5), box = element("mappings"); box.replaceChildren();
  heavy.forEach((l, k) => {
    const fold = document.createElement("details"); fold.open = k === 0;
    fold.append(text("summary", l.name + " — " + l.count + " × " + si(l.latency_cycles / clock, "s") + ", " + si(l.energy_pj * 1e-12, "J") + ", utilisation " + (100 * l.utilization).toFixed(1) + " %, " + (l.proof === "optimal" ? "proven optimal" : l.proof === "gap" ? "within " + (100 * l.gap).toFixed(2) + " % of the optimum" : "best found")));
    fold.append(text("p", l.notation + "   " + Object.entries(l.bounds).map(e => e.join("=")).join(" "), "note"), text("pre", l.loopnest));
    box.append(fold);
  });
}

function choose(number) { chosen = number; drawFronts(); drawTable(); drawChosen(); }
head(); drawFronts(); drawProgress(); drawTable(); drawInfeasible(); drawChosen();
element("which").onchange = drawTable;
element("config").textContent = JSON.stringify({ ...DATA.config, space: DATA.config.space.name, versions: DATA.versions }, null, 1);
