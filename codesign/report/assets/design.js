// The chosen design: figures, drawing, breakdowns, layers with what bounds each, roofline, loop nests.

// One colour a part, the same in every chart of the design.
function partColours(design) {
  const palette = [COLOURS.red, COLOURS.orange, COLOURS.green, COLOURS.purple, COLOURS.sky], names = design.architecture.levels.map(v => v.name);
  const fixed = { compute: COLOURS.blue, MAC: COLOURS.blue, "MAC units": COLOURS.blue, "vector operators": COLOURS.grey, leakage: "#3d4656", interconnect: "#9aa4b5", network: "#9aa4b5", "interconnect and DMA": "#9aa4b5", "kept on chip": COLOURS.pale };
  return name => fixed[name] || palette[Math.max(0, names.indexOf(name)) % palette.length];
}

function breakdown(holder, parts, unit, colours) {
  const total = parts.reduce((sum, part) => sum + part[1], 0);
  barList(holder, parts.slice().sort((a, b) => b[1] - a[1]).map(([name, value]) => ({ name, value: Math.max(0, value), colour: colours(name), text: si(value, unit) + "  " + percent(value / total) })), { left: 164, right: 132 });
}

const resourceText = name => name === "compute" || name === "vector operators" ? name : "bandwidth of " + name;
// All that bounds a layer; several at equal cycles.
const boundText = names => names.map(resourceText).join(" and ");
// One colour, or several side by side.
const striped = colours => colours.length === 1 ? colours[0] : "linear-gradient(90deg," + colours.map((c, k) => c + " " + 100 * k / colours.length + "% " + 100 * (k + 1) / colours.length + "%").join(",") + ")";
const proofText = layer => layer.proof === "optimal" ? "proven optimal" : layer.proof === "gap" && layer.gap !== null ? "within " + (100 * layer.gap).toPrecision(2) + " % of a lower bound" : "best found";

function layerTip(layer, clock) {
  const lines = [layer.name, layer.count + " × " + si(layer.latency_cycles / clock, "s") + " = " + si(layer.count * layer.latency_cycles / clock, "s"), "bound by " + boundText(layer.bottlenecks), "utilisation  " + percent(layer.utilization), "energy  " + si(layer.energy_pj * 1e-12, "J") + " each", proofText(layer)];
  if (layer.event_cycles) lines.push("cycles  " + count(layer.latency_cycles) + " analytical, " + count(layer.event_cycles) + " in the timing tier");
  if (layer.busy_cycles) lines.push("", "cycles in which each is busy", ...Object.entries(layer.busy_cycles).filter(([, c]) => c > 0).map(([name, c]) => name + "  " + count(c) + "  " + percent(c / layer.latency_cycles)));
  return [...lines, "", layer.notation, Object.entries(layer.bounds).map(([k, v]) => k + "=" + v).join(" ")];
}

// Latency by layer: coloured by what bounds it; the line in a bar is what compute alone would take.
function drawLayers(holder, design, colours) {
  const clock = design.architecture.clock_hz, layers = design.layers, vector = design.vector.latency_cycles;
  const bars = layers.map(l => ({ name: l.name, cycles: l.latency_cycles * l.count, compute: l.busy_cycles ? l.busy_cycles.compute * l.count : null, bound: l.bottlenecks, tip: () => layerTip(l, clock) }));
  if (vector) bars.push({ name: "vector operators", cycles: vector, compute: null, bound: ["vector operators"], tip: () => ["vector operators", si(vector / clock, "s") + " in all", "moved  " + bytes(design.vector.dram_bytes)] });
  const unit = axisUnit([Math.max(...bars.map(b => b.cycles / clock))], "latency", "s"), most = Math.max(...bars.map(b => b.cycles / clock)) * unit.factor;
  const chart = frame(holder, { width: 1180, height: 400, margin: { bottom: 128, left: 66 }, x: { domain: [-0.5, bars.length - 0.5], grid: false, slant: true, ticks: bars.map((b, k) => ({ value: k, text: b.name.length > 24 ? "…" + b.name.slice(-23) : b.name })) }, y: { domain: [0, most * 1.05], title: unit.title } });
  const step = chart.x(1) - chart.x(0), width = Math.max(2, step * 0.72);
  bars.forEach((bar, k) => {
    const top = chart.y(bar.cycles / clock * unit.factor), group = svg("g", { class: "bar" }, svg("rect", { x: chart.x(k) - step / 2, y: chart.box.top, width: step, height: chart.box.bottom - chart.box.top, fill: "transparent" }), ...bar.bound.map((name, part) => svg("rect", { x: chart.x(k) - width / 2 + part * width / bar.bound.length, y: top, width: width / bar.bound.length, height: Math.max(1, chart.box.bottom - top), fill: colours(name), rx: bar.bound.length > 1 ? 0 : 1.5 })));
    if (bar.compute !== null && !bar.bound.includes("compute")) { const y = chart.y(bar.compute / clock * unit.factor); group.append(svg("line", { x1: chart.x(k) - width / 2 - 2, x2: chart.x(k) + width / 2 + 2, y1: y, y2: y, stroke: "#1d2433", "stroke-width": 2 })); }
    chart.plot.append(hover(group, bar.tip));
  });
  const bounds = [...new Map(bars.map(b => [boundText(b.bound), b.bound])).values()], total = bars.reduce((sum, b) => sum + b.cycles, 0);
  const share = bound => percent(bars.filter(b => boundText(b.bound) === boundText(bound)).reduce((sum, b) => sum + b.cycles, 0) / total);
  const marks = bars.some(b => b.compute !== null && !b.bound.includes("compute")) ? [["what compute alone would take", "#1d2433", "line"]] : [];
  return legend([...bounds.map(b => [boundText(b) + ", " + share(b) + " of the time", striped(b.map(colours))]), ...marks]);
}

// Performance against operational intensity at the port of the outermost level.
function drawRoofline(holder, design, colours) {
  const roof = design.roofline, layers = design.layers.filter(l => l.dram_bytes > 0);
  const points = layers.map(l => [l.macs / l.dram_bytes, l.macs / l.latency_cycles]), ridge = roof.bytes_per_cycle ? roof.macs_per_cycle / roof.bytes_per_cycle : null;
  const xs = [...points.map(p => p[0]), ...(ridge ? [ridge / 3, ridge * 3] : [])], ys = [...points.map(p => p[1]), roof.macs_per_cycle];
  const chart = frame(holder, { height: 400, x: { log: true, domain: padded(xs, true), title: "MACs per byte of " + roof.level }, y: { log: true, domain: padded([...ys, roof.macs_per_cycle * 2.2], true), title: "MACs per cycle" } });
  const [x0, x1] = padded(xs, true), low = padded([...ys, roof.macs_per_cycle * 2.2], true)[0], line = [];
  if (ridge) { const start = Math.max(x0, low / roof.bytes_per_cycle); line.push([start, start * roof.bytes_per_cycle], [Math.min(Math.max(ridge, x0), x1), Math.min(roof.macs_per_cycle, x1 * roof.bytes_per_cycle)]); }
  else line.push([x0, roof.macs_per_cycle]);
  line.push([x1, Math.min(roof.macs_per_cycle, roof.bytes_per_cycle ? x1 * roof.bytes_per_cycle : Infinity)]);
  chart.plot.append(svg("path", { d: pathOf(line.map(([a, b]) => [chart.x(a), chart.y(b)])), fill: "none", stroke: "#1d2433", "stroke-width": 2 }));
  chart.plot.append(svg("text", { class: "small", x: chart.box.right - 4, y: chart.y(roof.macs_per_cycle) - 18, "text-anchor": "end" }, "peak " + count(roof.macs_per_cycle) + " MACs/cycle"));
  if (ridge) chart.plot.append(svg("text", { class: "small", x: chart.box.left + 8, y: chart.box.top + 14 }, roof.level + " " + bandwidthText(design.architecture.levels[0])));
  const most = Math.max(...layers.map(l => l.latency_cycles * l.count));
  layers.map((l, k) => [l, points[k]]).sort((a, b) => b[0].latency_cycles * b[0].count - a[0].latency_cycles * a[0].count).forEach(([l, [a, b]]) =>
    chart.plot.append(hover(svg("circle", { cx: chart.x(a), cy: chart.y(b), r: 3.5 + 11 * Math.sqrt(l.latency_cycles * l.count / most), fill: colours(l.bottlenecks[0]), opacity: 0.75, stroke: l.bottlenecks.length > 1 ? colours(l.bottlenecks[1]) : "white", "stroke-width": l.bottlenecks.length > 1 ? 3 : 1, class: "layer" }), () => layerTip(l, design.architecture.clock_hz))));
}

// Energy by layer, stacked by where it is spent.
function drawLayerEnergy(holder, design, colours) {
  const layers = design.layers.slice().sort((a, b) => b.energy_pj * b.count - a.energy_pj * a.count).slice(0, 12), width = 560, line = 27, left = 150, right = 84;
  const most = layers[0].energy_pj * layers[0].count, root = svg("svg", { viewBox: `0 0 ${width} ${layers.length * line + 8}`, class: "chart", role: "img" });
  layers.forEach((l, k) => {
    const top = 4 + k * line, sum = Object.values(l.energy_by_part).reduce((a, b) => a + b, 0), group = svg("g", {}, svg("text", { class: "name", x: left - 8, y: top + 18, "text-anchor": "end" }, l.name.length > 21 ? "…" + l.name.slice(-20) : l.name));
    let x = left;
    for (const [part, value] of Object.entries(l.energy_by_part)) { const w = (width - left - right) * l.energy_pj * l.count / most * value / sum; group.append(svg("rect", { x, y: top + 5, width: Math.max(0, w), height: line - 10, fill: colours(part) })); x += w; }
    group.append(svg("text", { class: "value", x: x + 6, y: top + 18 }, si(l.energy_pj * l.count * 1e-12, "J")));
    root.append(hover(group, [l.name, l.count + " × " + si(l.energy_pj * 1e-12, "J"), ...Object.entries(l.energy_by_part).map(([part, value]) => (part === "network" ? "interconnect" : part) + "  " + percent(value / sum))]));
  });
  holder.replaceChildren(root);
}

function drawNests(design) {
  const clock = design.architecture.clock_hz, heavy = design.layers.filter(l => l.nest).sort((a, b) => b.latency_cycles * b.count - a.latency_cycles * a.count);
  return heavy.map((l, k) => html("details", { open: k === 0 ? "" : null, class: "nest" },
    html("summary", {}, html("b", {}, l.name), " " + l.count + " × " + si(l.latency_cycles / clock, "s") + ", " + si(l.energy_pj * 1e-12, "J") + ", utilisation " + percent(l.utilization) + ", bound by " + boundText(l.bottlenecks) + ", " + proofText(l)),
    html("p", { class: "note" }, l.notation + "   " + Object.entries(l.bounds).map(([d, v]) => d + "=" + v).join(" ") + (l.occupancy ? "   memory used: " + Object.entries(l.occupancy).map(([name, share]) => name + " " + percent(share)).join(", ") : "")), html("pre", {}, l.nest)));
}

// Designs judged by scheduling whole networks: figures of every schedule, and how busy compute and the DRAM channel are.
function drawNetworks(design, colours) {
  const networks = design.networks, trees = networks.some(n => n.scheduler === "segments"), pages = design.pages || {};
  const simulated = Object.fromEntries((design.simulated ? design.simulated.networks : []).map(n => [n.network, n]));
  const onMesh = n => simulated[n.name] ? [count(simulated[n.name].latency_cycles) + more(simulated[n.name])] : design.simulated ? ["–"] : [];
  const page = n => design.pages ? [pages[n.name] ? html("a", { href: encodeURI(pages[n.name]) }, "mesh, links, timeline") : "–"] : [];
  const rows = networks.map(n => [n.name, n.weight, count(n.latency_cycles), ...onMesh(n), si(n.energy_pj * 1e-12, "J"), bytes(n.dram_bytes), bytes(n.peak_buffer_bytes), percent(n.utilisation), n.lgs + " / " + n.flgs + " / " + n.tiles, n.gap === null || n.gap === undefined ? "–" : percent(n.gap), ...page(n)]);
  const heads = ["network", "weight", "cycles", ...(design.simulated ? ["simulated cycles"] : []), "energy", "DRAM traffic", "peak buffer", "utilisation", ...(trees ? ["segments / layers / runs", "gap to the bound"] : ["groups / fine groups / tiles", "gap for these tiles"]), ...(design.pages ? ["pictures"] : [])];
  const busy = html("div", {});
  barList(busy, networks.flatMap(n => [["latency", n.latency_cycles, COLOURS.grey], ["compute busy", n.compute_cycles, colours("compute")], ["DRAM channel busy", n.channel_cycles, COLOURS.red], ["lower bound", n.bound_cycles, COLOURS.pale]].filter(row => row[1] !== undefined && row[1] !== null).map(([name, value, colour]) => ({ name: (networks.length > 1 ? n.name + ": " : "") + name, value, colour, text: count(value) + "  " + percent(value / n.latency_cycles) }))), { width: 1180, left: 220, right: 190 });
  return [html("h3", {}, "Schedules of whole networks"), plainTable(heads, rows), ...drawPages(pages), ...(design.simulated ? drawContended() : []), html("h3", {}, "Cycles"), busy];
}

const more = n => " (+" + percent(n.latency_cycles / n.analytic_cycles - 1) + ")";
const plainTable = (heads, rows) => html("div", { class: "scroll" }, html("table", { class: "plain" }, html("thead", {}, html("tr", {}, ...heads.map(h => html("th", {}, h)))), html("tbody", {}, ...rows.map(row => html("tr", {}, ...row.map(c => html("td", {}, c instanceof Node ? c : String(c))))))));

// The pages of a design's schedules, which lie beside the report, opened within it.
function drawPages(pages) {
  return Object.entries(pages).map(([name, path], k) => {
    const shown = html("div", {}), open = () => { if (!shown.firstChild) shown.append(html("iframe", { src: encodeURI(path), title: name, style: "width:100%;height:1100px;border:1px solid #ddd" })); };
    if (k === 0) open();
    return html("details", { ontoggle: open, open: k === 0 ? "" : null }, html("summary", {}, "The system and the schedule of " + name), shown);
  });
}

// The front on routers and DRAM queues, design by design.
function drawContended() {
  const found = Object.values(DATA.designs).map(d => d.simulated).filter(Boolean).sort((a, b) => a.latency_cycles - b.latency_cycles);
  const rows = found.map(d => [html("a", { href: "#chosen", onclick: () => choose(d.trial) }, String(d.trial)), ...DATA.objectives.map(o => si(d.metrics[o], unitOf(o))), count(d.analytic_cycles), count(d.latency_cycles) + more(d) + (d.status === "ok" ? "" : " (partial)"), d.on_front ? "yes" : "no"]);
  return [html("h3", {}, "The front in simulated time, on routers and DRAM queues"), plainTable(["trial", ...DATA.objectives.map(o => labelOf(o)), "analytical cycles", "simulated cycles", "still on the front"], rows)];
}

// Designs judged by off-chip traffic alone.
function drawTraffic(schedules) {
  const heads = ["network", "weight", "DRAM traffic", "of which spills and reloads", "peak buffer", "time", "energy", "proof"];
  const rows = schedules.map(n => [n.name, n.weight, bytes(n.dram_bytes), bytes(n.noncompulsory_bytes), bytes(n.peak_buffer_bytes), si(n.traffic_latency_s, "s"), si(n.traffic_energy_j, "J"), proofText({ proof: n.proof, gap: n.value ? 1 - n.bound / n.value : null })]);
  return [html("h3", {}, "Off-chip traffic of whole networks"), html("div", { class: "scroll" }, html("table", { class: "plain" }, html("thead", {}, html("tr", {}, ...heads.map(h => html("th", {}, h)))), html("tbody", {}, ...rows.map(row => html("tr", {}, ...row.map(c => html("td", {}, String(c))))))))];
}

function drawChosen() {
  const t = byNumber.get(chosen), design = DATA.designs[String(chosen)];
  byId("chosen-title").textContent = t ? "Design of trial " + t.number + (t.number === DATA.knee ? ", the recommended one" : t.front ? ", on the front" : "") : "No design is feasible";
  const work = byId("work");
  work.replaceChildren();
  for (const id of ["drawing", "energy", "area", "chosen-cards"]) byId(id).replaceChildren();
  byId("chosen").querySelectorAll(":scope > .grid").forEach(e => { e.style.display = design ? "" : "none"; });
  if (!t) return;
  byId("chosen-cards").replaceChildren(...[...new Set([...DATA.objectives, ...METRICS])].filter(m => m in t.metrics).map(m => html("div", { class: "card" }, html("b", {}, si(t.metrics[m], unitOf(m))), html("span", {}, labelOf(m)))));
  byId("chosen-point").replaceChildren(...Object.entries(t.point).map(([k, v]) => html("span", { class: "pill" }, words(k) + " ", html("b", {}, String(v)))));
  if (!design) { work.append(html("p", { class: "note" }, t.valid ? "This page holds the details of " + Object.keys(DATA.designs).length + " designs, the front's first; those of this one are in the study." : "An infeasible design has no mappings to show.")); return; }
  drawDesign(design, work);
}

// Both models side by side: cycles of every layer, which resource is busiest and what it waits for.
function drawEvents(events) {
  const heads = ["layer", "times", "analytical cycles", "event cycles", "more", "busiest", "waits most for"], words = new Set([0, 5, 6]);
  const rows = events.timing.map(l => [l.layer, digits(l.count).replace(/\.0+$/, ""), count(l.analytic_cycles), count(l.latency_cycles) + (l.complete ? "" : " (partial)"), percent(l.latency_cycles / l.analytic_cycles - 1), l.bound_by, l.waits_for]);
  rows.push(["whole run", "", count(events.analytic_cycles), count(events.latency_cycles), percent(events.latency_cycles / events.analytic_cycles - 1), events.bound_by, events.waits_for]);
  const cell = (tag, values) => html("tr", {}, ...values.map((value, k) => html(tag, { class: words.has(k) ? "words" : null }, value)));
  const timeline = html("div", {}), spent = html("div", {}), shown = events.timing.find(l => l.layer === events.timeline.layer);
  const operations = events.timeline.events.length;
  if (operations) drawTimeline(timeline, events.timeline);
  drawSpent(spent, shown);
  return [html("h3", {}, "Event-timed: what waits for what"), html("p", { class: "note" }, "The analytical model overlaps everything; the event tier makes transfers wait for data, buffers and ports. Most of the time goes to " + events.timeline.layer + ", whose busiest resource, " + shown.bound_by + ", waits most for " + shown.waits_for + "." + (events.layers_missing.length ? " Interrupted: " + events.layers_missing.join(", ") + " are missing." : "")),
    html("div", { class: "scroll" }, html("table", { class: "plain" }, html("thead", {}, cell("th", heads)), html("tbody", {}, ...rows.map(row => cell("td", row))))),
    html("figure", {}, html("figcaption", {}, "How the resources of " + shown.layer + " spend their cycles"), spent),
    ...(operations ? [html("figure", {}, html("figcaption", {}, "The first " + operations + " operations of " + events.timeline.layer), timeline)] : [])];
}

// Cycles of every layer by the cost model, on the machine that is generated for the design, and simulated where that was done.
function drawMachine(machine, built) {
  const title = html("h3", {}, "Cycles: analytical, generated, simulated");
  if (machine.why) return [title, html("p", { class: "note" }, "Analytical: " + count(machine.analytical) + ". The machine's cycles are not known: " + machine.why + ".")];
  const runs = new Map((built || []).filter(b => b.simulation).map(b => [b.layer, count(b.simulation.cycles) + (b.simulation.bit_equal ? "" : ", results DIFFER")])), anew = machine.layers.filter(l => l.anew).length;
  const rows = machine.layers.map(l => [l.name + (l.anew ? " *" : ""), digits(l.count).replace(/\.0+$/, ""), count(l.analytical), count(l.generated), (l.generated / l.analytical).toFixed(2), runs.get(l.name) || (runs.size ? "not simulated" : "not built")]);
  rows.push(["all matrix operators", "", count(machine.analytical), count(machine.generated), (machine.generated / machine.analytical).toFixed(2), ""]);
  const cell = (tag, values) => html("tr", {}, ...values.map((value, k) => html(tag, { class: k ? null : "words" }, value)));
  return [title, html("p", { class: "note" }, "Generated: predicted for the machine that codesign build makes, with sums of 32 bits and 16 bursts under way. Analytical: by the cost model, as the study judged the design." + (anew ? " * " + anew + " recorded mappings do not fit with such sums; these layers were annealed anew." : "")),
    html("div", { class: "scroll" }, html("table", { class: "plain" }, html("thead", {}, cell("th", ["layer", "times", "analytical", "generated", "ratio", "simulated"])), html("tbody", {}, ...rows.map(row => cell("td", row)))))];
}

// Hardware that was generated of this design: cycles simulated beside predicted ones, netlist areas beside the model's, the block diagram.
function drawBuilt(layers) {
  const table = (heads, rows) => html("div", { class: "scroll" }, html("table", { class: "plain" }, html("thead", {}, html("tr", {}, ...heads.map((h, k) => html("th", { class: k ? null : "words" }, h)))), html("tbody", {}, ...rows.map(row => html("tr", {}, ...row.map((c, k) => html("td", { class: k ? null : "words" }, c)))))));
  const first = layers.find(l => l.areas && l.areas.parts.every(a => a.netlist_mm2 !== null)) || layers[0], cycles = layers.map(l => [html("a", { href: l.folder + "/README.md" }, l.layer), l.simulation ? count(l.simulation.cycles) : "not simulated", count(l.predicted_cycles), count(l.analytic_cycles), l.simulation ? (l.simulation.bit_equal ? "equal" : "DIFFERENT") : "–"]);
  const found = [html("h3", {}, "Built hardware"), html("p", { class: "note" }, "Generated as Verilog in the folders linked below. Predicted cycles follow from pipeline depths, analytical ones are the cost model's."), table(["layer", "simulated cycles", "predicted", "analytical", "results"], cycles)];
  if (first.areas) {
    const columns = ["netlist_mm2", "table_mm2", "fitted_mm2"], parts = first.areas.parts, all = { part: "all logic" };
    for (const k of columns) all[k] = parts.every(a => a[k] !== null) ? parts.reduce((sum, a) => sum + a[k], 0) : null;
    found.push(html("p", { class: "note" }, "Logic by part at " + first.areas.technology + ": the synthesised netlist, the technology table, and the fit to netlists. Memories are not in it."), table(["part", "netlist", "table", "fit"], [...parts, all].map(a => [a.part, ...columns.map(k => a[k] === null ? "–" : count(Math.round(1e6 * a[k])) + " µm²")])));
  }
  for (const l of layers.filter(l => l.power)) {
    const power = l.power, sum = k => power.parts.reduce((s, a) => s + a[k], 0), one = v => v.toFixed(1);
    found.push(html("p", { class: "note" }, l.layer + " on the mapped netlist at 0.18 µm: " + one(power.milliwatts) + " mW at " + power.clock_ns + " ns a cycle, " + one(power.multiplication_pj) + " pJ a multiplication; " + count(power.replayed_cycles) + " of " + count(power.cycles) + " cycles replayed, ± " + one(power.interval_pj) + " pJ a cycle. Cells are " + power.provenance.cells.kind + ", memories " + power.provenance.memories.kind + "; wires and glitches are not in it."), table(["part", "switching pJ a cycle", "clock pJ a cycle", "leakage µW"], [...power.parts, { part: "whole machine", switching_pj: sum("switching_pj"), clock_pj: sum("clock_pj"), leakage_mw: sum("leakage_mw") }].map(a => [a.part, one(a.switching_pj), one(a.clock_pj), one(1e3 * a.leakage_mw)])));
  }
  found.push(html("figure", {}, html("figcaption", {}, "Block diagram"), html("img", { alt: "block diagram", style: "max-width:100%", src: "data:image/svg+xml;utf8," + encodeURIComponent(first.diagram) })));
  return found;
}

// Operations as bars over cycles, one row a resource.
function drawTimeline(holder, timeline) {
  const rows = [...new Set(timeline.events.map(e => e[1]))], names = [...new Set(timeline.events.map(e => e[0]))], palette = [COLOURS.blue, COLOURS.red, COLOURS.orange, COLOURS.green, COLOURS.purple, COLOURS.sky, COLOURS.grey];
  const width = 1180, line = 30, left = 190, right = 14, most = Math.max(1, ...timeline.events.map(e => e[3])), x = c => left + (width - left - right) * c / most;
  const root = svg("svg", { viewBox: `0 0 ${width} ${rows.length * line + 34}`, class: "chart timeline", role: "img" });
  rows.forEach((name, k) => root.append(svg("text", { class: "name", x: left - 8, y: k * line + 20, "text-anchor": "end" }, name), svg("line", { x1: left, x2: width - right, y1: k * line + 27, y2: k * line + 27, stroke: COLOURS.pale })));
  for (const [name, resource, start, end] of timeline.events) root.append(hover(svg("rect", { x: x(start), y: rows.indexOf(resource) * line + 6, width: Math.max(0.6, x(end) - x(start) - 0.4), height: line - 11, fill: palette[names.indexOf(name) % palette.length] }), [name, "cycles " + count(start) + " to " + count(end)]));
  for (const part of [0, 0.25, 0.5, 0.75, 1]) root.append(svg("text", { class: "small", x: x(most * part), y: rows.length * line + 22, "text-anchor": part === 1 ? "end" : "middle" }, count(Math.round(most * part))));
  holder.replaceChildren(legend(names.map((name, k) => [name, palette[k % palette.length]])), root);
}

// Busy, stalled and idle shares of every resource of a layer.
function drawSpent(holder, layer) {
  const width = 1180, line = 30, left = 190, right = 330, names = Object.keys(layer.resources), total = Math.max(1, layer.latency_cycles);
  const root = svg("svg", { viewBox: `0 0 ${width} ${names.length * line + 4}`, class: "chart", role: "img" });
  names.forEach((name, k) => {
    const use = layer.resources[name], waits = Object.entries(use.stalled_on).sort((a, b) => b[1] - a[1]), stalled = waits.reduce((sum, w) => sum + w[1], 0), group = svg("g", {}, svg("text", { class: "name", x: left - 8, y: k * line + 20, "text-anchor": "end" }, name));
    let x = left;
    for (const [cycles, colour] of [[use.busy_cycles, COLOURS.blue], [stalled, COLOURS.orange], [use.idle_cycles, COLOURS.pale]]) { const w = (width - left - right) * Math.min(1, cycles / total); group.append(svg("rect", { x, y: k * line + 6, width: Math.max(0, w), height: line - 11, fill: colour })); x += w; }
    group.append(svg("text", { class: "value", x: width - right + 8, y: k * line + 20 }, "busy " + percent(use.busy_cycles / total) + (waits.length ? ", waits for " + waits[0][0] : "")));
    root.append(hover(group, [name, "busy  " + count(use.busy_cycles), ...waits.map(([what, cycles]) => "waits for " + what + "  " + count(cycles)), "idle  " + count(use.idle_cycles)]));
  });
  holder.replaceChildren(legend([["busy", COLOURS.blue], ["stalled", COLOURS.orange], ["idle", COLOURS.pale]]), root);
}

// What a design does for requests to a language model: times, what binds reading a prompt and decoding, a roofline of each.
function drawServing(design, colours) {
  const found = design.serving, chips = found.chips === 1 ? "one chip" : found.chips + " chips" + (found.stages?.length > 1 ? " in " + found.stages.length + " stages" : ""), least = found.compute_bound_batch;
  const phases = [...found.prefill.map(p => ["prompt of " + count(p.tokens) + " tokens, " + percent(p.share) + " of requests", p]), ["step of " + found.batch + " at " + count(found.mean_context) + " tokens of cache", found.decode]];
  const bound = p => Object.entries(p.bound_by).filter(([, s]) => s >= 0.005).map(([n, s]) => n + " " + percent(s)).join(", ");
  const figures = [["time to first token", si(found.ttft_s, "s")], ["time per output token", si(found.tpot_s, "s")], ["tokens per second", digits(found.tokens_per_s)], ["tokens per joule", digits(found.tokens_per_j)],
    ["decoding stops being bound by memory at batch", least === null ? "none: caches alone take longer than the arithmetic" : count(least)]];
  const table = (head, rows) => html("div", { class: "scroll" }, html("table", { class: "plain" }, html("thead", {}, html("tr", {}, ...head.map(h => html("th", {}, h)))), html("tbody", {}, ...rows.map(r => html("tr", {}, ...r.map(c => html("td", {}, String(c))))))));
  const shown = phases.filter(([, p]) => p.layers && p.layers.length), roofs = shown.map(() => html("div", {}));
  const nodes = [html("h3", {}, found.model + ", batch " + found.batch + " on " + chips), table(["figure", ""], figures), html("h3", {}, "What binds each phase"),
    table(["phase", "time", "energy", "moved to and from memory", "MACs", "share of the time by what binds it"], phases.map(([name, p]) => [name, si(p.latency_s, "s"), si(p.energy_j, "J"), bytes(p.dram_bytes), count(p.macs), bound(p)])),
    html("div", { class: "grid two" }, ...shown.map(([name], k) => html("figure", {}, html("figcaption", {}, "Roofline, " + name + " (area of a dot: share of the time)"), roofs[k])))];
  return [nodes, () => shown.forEach(([, p], k) => drawRoofline(roofs[k], { ...design, layers: p.layers }, colours))];
}

// What stands under the figures of a design: drawing, breakdowns, layers, roofline, loop nests.
function drawDesign(design, work) {
  const colours = partColours(design);
  drawArchitecture(byId("drawing"), design.architecture, colours);
  byId("area").parentElement.style.display = design.area.length ? "" : "none";
  breakdown(byId("area"), design.area, "mm²", colours);
  byId("energy").parentElement.style.display = design.energy ? "" : "none";
  if (design.energy) breakdown(byId("energy"), design.energy, "J", colours);
  if (design.networks) work.append(...drawNetworks(design, colours));
  if (design.schedules) work.append(...drawTraffic(design.schedules));
  if (design.serving) { const [nodes, draw] = drawServing(design, colours); work.append(...nodes); draw(); }
  if (!design.layers) return;
  const latency = html("div", {}), roof = html("div", {}), energy = html("div", {});
  const note = html("div", {});
  work.append(html("figure", {}, html("figcaption", {}, "Latency by distinct layer, all its repetitions, and what bounds it"), note, latency),
    html("div", { class: "grid two" }, html("figure", {}, html("figcaption", {}, "Roofline (area of a dot: share of the time)"), roof), html("figure", {}, html("figcaption", {}, "Energy of the heaviest layers"), energy)), html("h3", {}, "Loop nests of the heaviest layers"), ...drawNests(design));
  note.replaceChildren(drawLayers(latency, design, colours));
  drawRoofline(roof, design, colours);
  drawLayerEnergy(energy, design, colours);
  if (design.events) work.append(...drawEvents(design.events));
  if (design.machine) work.append(...drawMachine(design.machine, design.built));
  if (design.built) work.append(...drawBuilt(design.built));
}
