// The front: every pair of objectives, and with three or more also in space.

const valid = DATA.trials.filter(t => t.valid), onFront = DATA.trials.filter(t => t.front);
const byNumber = new Map(DATA.trials.map(t => [t.number, t]));
const METRICS = ["latency_s", "energy_j", "power_w", "area_mm2"];
const axisOf = metric => axisUnit(valid.map(t => t.metrics[metric]), labelOf(metric), unitOf(metric));

function describe(t) {
  const shown = [...new Set([...DATA.objectives, ...METRICS])].filter(m => m in t.metrics);
  return ["trial " + t.number + (t.front ? " · on the front" : ""), ...shown.map(m => labelOf(m) + "  " + si(t.metrics[m], unitOf(m))), "", ...Object.entries(t.point).map(([k, v]) => words(k) + "  " + v)];
}

// The designs no other one beats in two objectives, in the order of the first.
function pairFront(x, y) {
  let best = Infinity;
  return valid.slice().sort((a, b) => a.metrics[x] - b.metrics[x] || a.metrics[y] - b.metrics[y]).filter(t => t.metrics[y] < best && ((best = t.metrics[y]), true));
}

function drawPair(holder, x, y) {
  const ax = axisOf(x), ay = axisOf(y);
  const chart = frame(holder, {
    height: 400, label: labelOf(y) + " against " + labelOf(x),
    x: { log: true, domain: padded(valid.map(t => t.metrics[x] * ax.factor), true), title: ax.title },
    y: { log: true, domain: padded(valid.map(t => t.metrics[y] * ay.factor), true), title: ay.title },
  });
  const place = t => [chart.x(t.metrics[x] * ax.factor), chart.y(t.metrics[y] * ay.factor)];
  const corner = pairFront(x, y).map(place);
  chart.plot.append(svg("path", { d: pathOf(stepped(corner, true)), fill: "none", stroke: COLOURS.blue, "stroke-width": 1.2, "stroke-dasharray": "4 4", opacity: 0.8 }));
  for (const t of [...valid.filter(t => !t.front), ...onFront]) {
    const [cx, cy] = place(t);
    const dot = svg("circle", { cx, cy, r: t.front ? 5.5 : 3.6, fill: t.front ? COLOURS.blue : COLOURS.pale, stroke: "white", "stroke-width": 1, class: "dot", "data-trial": t.number });
    dot.addEventListener("click", () => choose(t.number));
    chart.plot.append(hover(dot, () => describe(t)));
  }
  const t = byNumber.get(chosen);
  if (t && t.valid) { const [cx, cy] = place(t); chart.plot.append(svg("circle", { cx, cy, r: 9.5, fill: "none", stroke: COLOURS.red, "stroke-width": 2.8, "pointer-events": "none" })); }
}

const scenes = new Map();
function drawSpace(holder, triple) {
  const key = triple.join(), earlier = scenes.get(key);
  const axes = triple.map(m => ({ ...axisOf(m), values: valid.map(t => t.metrics[m]) }));
  const dots = valid.map(t => ({ at: triple.map(m => t.metrics[m]), colour: t.front ? COLOURS.blue : COLOURS.pale, size: t.front ? 5.5 : 3.8, front: t.front, ring: t.number === chosen ? COLOURS.red : null, tip: () => describe(t), number: t.number }));
  const scene = new Scene(holder, axes, dots, choose);
  if (earlier) { scene.turn = earlier.turn; scene.tilt = earlier.tilt; scene.draw(); }
  scenes.set(key, scene);
}

function drawFronts() {
  const box = byId("fronts"), o = DATA.objectives;
  box.replaceChildren();
  if (!valid.length) { box.append(html("p", { class: "note" }, "No design is feasible.")); return; }
  byId("front-legend").replaceChildren(legend([["on the front", COLOURS.blue, "dot"], ["dominated", COLOURS.pale, "dot"], ["chosen", COLOURS.red, "ring"], ["front of this pair", COLOURS.blue, "dash"]]));
  const panel = text => { const holder = html("div", {}); box.append(html("figure", {}, html("figcaption", {}, text), holder)); return holder; };
  for (let i = 0; i < o.length; i++) for (let j = i + 1; j < o.length; j++) drawPair(panel(labelOf(o[j]) + " against " + labelOf(o[i])), o[i], o[j]);
  if (o.length === 3) drawSpace(panel("All three (drag to turn)"), [o[0], o[1], o[2]]);
  if (o.length === 4) for (const left of [3, 2]) { const triple = o.filter((_, k) => k !== left); drawSpace(panel(triple.map(labelOf).join(", ") + " (drag to turn)"), triple); }
}
