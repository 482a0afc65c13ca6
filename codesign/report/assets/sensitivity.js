// The page of a sensitivity analysis: who stays on the front, how it moves, what energy hangs on.

const CONSTANTS = { dram: ["DRAM energy", COLOURS.red], sram: ["SRAM energy", COLOURS.orange], registers: ["register energy", COLOURS.sky], mac: ["MAC energy", COLOURS.blue], wires: ["wire energy", COLOURS.purple], leakage: ["leakage", "#3d4656"] };
const designs = DATA.designs, columns = [DATA.base, ...DATA.variations];
const varied = [...new Set(DATA.variations.map(v => v.constant))];
const nameOf = v => v.constant === null ? "as they are" : CONSTANTS[v.constant][0] + " × " + v.factor;

byId("title").textContent = "Sensitivity to technology constants";
byId("lead").textContent = "Accelerators for " + DATA.names.join(" + ") + ", space “" + DATA.space + "”" + (DATA.constraints.length ? ", subject to " + DATA.constraints.join(", ") : "") + "; minimised: " + DATA.objectives.map(labelOf).join(", ") + ".";
byId("summary").replaceChildren(html("p", { class: "answer" }, DATA.summary.join(" ")));
byId("proven-section").hidden = !DATA.proven.length;
byId("proven").replaceChildren(...DATA.proven.map(sentence => html("p", {}, sentence)));

function designTip(design, variation) {
  const metrics = variation.metrics[design.trial];
  return ["trial " + design.trial + ", constants " + nameOf(variation), ...DATA.objectives.map(o => labelOf(o) + "  " + si(metrics[o], unitOf(o))), variation.front.includes(design.trial) ? "on the front" : "dominated or out of bounds", "", ...Object.entries(design.point).map(([k, v]) => words(k) + "  " + v)];
}

function drawMatrix() {
  const cell = 24, left = 86, top = 66, gap = 12, width = 1180, place = [];
  const wide = Math.min(44, (width - left - 90 - gap * varied.length) / columns.length);
  let x = left;
  columns.forEach((v, k) => { if (k && v.constant !== columns[k - 1].constant) x += gap; place.push(x); x += wide; });
  const height = top + designs.length * cell + 10, root = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart wide", role: "img" });
  for (const constant of varied) {
    const at = columns.map((v, k) => v.constant === constant ? place[k] : null).filter(p => p !== null);
    root.append(svg("text", { x: (at[0] + at[at.length - 1]) / 2 + wide / 2, y: 22, "text-anchor": "middle", "font-weight": 600, fill: "#1d2433" }, CONSTANTS[constant][0]));
  }
  columns.forEach((v, k) => root.append(svg("text", { class: "small", x: place[k] + wide / 2, y: 48, "text-anchor": "middle" }, v.constant === null ? "base" : "× " + v.factor)));
  designs.forEach((design, row) => {
    const y = top + row * cell;
    root.append(svg("text", { x: left - 12, y: y + 16, "text-anchor": "end" }, "trial " + design.trial));
    columns.forEach((v, k) => {
      const on = v.front.includes(design.trial), colour = v.constant === null ? "#1d2433" : CONSTANTS[v.constant][1];
      const group = svg("g", {}, svg("rect", { x: place[k] + 1, y: y + 1, width: wide - 3, height: cell - 3, rx: 3, fill: on ? colour : "#f0f2f6", opacity: on ? 0.85 : 1 }));
      if (v.knee === design.trial) group.append(svg("circle", { cx: place[k] + wide / 2, cy: y + cell / 2 - 0.5, r: 6, fill: "white", stroke: "#1d2433", "stroke-width": 2.2 }));
      root.append(hover(group, designTip(design, v)));
    });
    root.append(svg("text", { class: "small", x: place[place.length - 1] + wide + 10, y: y + 16 }, design.fronts + " of " + columns.length));
  });
  byId("matrix").replaceChildren(root);
}

// Energy-like objective against the first other one, every constant a chart, factors from light to dark.
function drawMoves() {
  const energy = DATA.objectives.find(o => ["energy_j", "power_w", "edp_js"].includes(o)), other = DATA.objectives.find(o => o !== energy);
  if (!energy) { byId("moves-note").textContent = "No objective depends on energy: the front cannot move."; return; }
  byId("moves-note").textContent = labelOf(energy)[0].toUpperCase() + labelOf(energy).slice(1) + " of the designs on each front against " + labelOf(other) + "; black: constants as they are. A point that other objectives keep on the front may lie above the rest.";
  const shade = (factor, factors) => 0.35 + 0.65 * (factors.indexOf(factor) + 1) / factors.length;
  const everything = columns.flatMap(v => v.front.map(n => v.metrics[n]));
  const ax = axisUnit(everything.map(m => m[other]), labelOf(other), unitOf(other)), ay = axisUnit(everything.map(m => m[energy]), labelOf(energy), unitOf(energy));
  const domainX = padded(everything.map(m => m[other] * ax.factor), true), domainY = padded(everything.map(m => m[energy] * ay.factor), true);
  byId("moves").replaceChildren(...varied.map(constant => {
    const holder = html("div", {}), list = DATA.variations.filter(v => v.constant === constant), factors = list.map(v => v.factor), colour = CONSTANTS[constant][1];
    const chart = frame(holder, { height: 330, x: { log: true, domain: domainX, title: ax.title }, y: { log: true, domain: domainY, title: ay.title } });
    const labelled = [];
    for (const v of [DATA.base, ...list].reverse()) {
      const base = v.constant === null, opacity = base ? 1 : shade(v.factor, factors), fill = base ? "#1d2433" : colour;
      const points = v.front.map(n => [chart.x(v.metrics[n][other] * ax.factor), chart.y(v.metrics[n][energy] * ay.factor), n]).sort((a, b) => a[0] - b[0]);
      chart.plot.append(svg("path", { d: pathOf(points), fill: "none", stroke: fill, "stroke-width": base ? 1.6 : 1, opacity: opacity * 0.5 }));
      for (const [cx, cy, n] of points) chart.plot.append(hover(svg("circle", { cx, cy, r: base ? 3.6 : 4, fill, opacity, stroke: "white" }), designTip(designs.find(d => d.trial === n), v)));
      const last = points[points.length - 1];
      if (last && labelled.every(y => Math.abs(y - last[1]) > 11) && labelled.push(last[1])) chart.plot.append(svg("text", { class: "small halo", x: Math.min(last[0] + 7, chart.box.right - 24), y: last[1] - 6 }, base ? "× 1" : "× " + v.factor));
    }
    return html("figure", {}, html("figcaption", {}, CONSTANTS[constant][0]), holder);
  }));
}

function drawShares() {
  const width = 1180, left = 86, right = 110, line = 24, root = svg("svg", { viewBox: `0 0 ${width} ${designs.length * line + 8}`, class: "chart wide", role: "img" });
  const used = Object.keys(CONSTANTS).filter(c => designs.some(d => d.parts[c]));
  byId("shares-legend").replaceChildren(legend(used.map(c => [CONSTANTS[c][0], CONSTANTS[c][1]])));
  designs.forEach((design, row) => {
    const total = Object.values(design.parts).reduce((a, b) => a + b, 0), y = 4 + row * line, group = svg("g", {}, svg("text", { x: left - 12, y: y + 16, "text-anchor": "end" }, "trial " + design.trial));
    let x = left;
    for (const c of used) { const w = (width - left - right) * Math.max(0, design.parts[c] || 0) / total; group.append(svg("rect", { x, y: y + 3, width: w, height: line - 7, fill: CONSTANTS[c][1] })); x += w; }
    group.append(svg("text", { class: "value", x: width - right + 10, y: y + 16 }, si(DATA.base.metrics[design.trial].energy_j, "J")));
    root.append(hover(group, ["trial " + design.trial, ...used.map(c => CONSTANTS[c][0] + "  " + percent((design.parts[c] || 0) / total)), "", design.text]));
  });
  byId("shares").replaceChildren(root);
}

drawMatrix();
drawMoves();
drawShares();
byId("how").textContent = (DATA.exact === "sums" ? "Energies are the recorded breakdowns re-summed with one part scaled, which is exact for the recorded mappings; latency and area do not depend on energy constants." : "Some tensors stay on chip, so breakdowns do not re-sum; every recorded mapping was evaluated again with the scaled constants.")
  + (DATA.remapped ? " The " + DATA.remapped + " designs on some front were also mapped again under every variation; another mapping saved at most " + percent(DATA.gain) + " of a design's energy. Other designs keep their recorded mappings." : " Mappings are those of the study: under other constants another one may be better, so energies are upper bounds.");
document.body.dataset.ready = "yes";
