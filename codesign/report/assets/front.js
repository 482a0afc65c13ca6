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

// Designs of the front with other mappings than those they were judged by (--per-design pareto).
const COMPROMISES = DATA.compromises || [];

function drawCompromises(chart, x, y, ax, ay) {
  for (const c of COMPROMISES) {
    const cx = chart.x(c.metrics[x] * ax.factor), cy = chart.y(c.metrics[y] * ay.factor);
    const ring = svg("circle", { cx, cy, r: 3, fill: "none", stroke: COLOURS.orange, "stroke-width": 1.4, class: "compromise", "data-trial": c.trial });
    ring.addEventListener("click", () => choose(c.trial));
    chart.plot.append(hover(ring, () => ["trial " + c.trial + " with other mappings", ...DATA.objectives.map(o => labelOf(o) + "  " + si(c.metrics[o], unitOf(o)))]));
  }
}

const PROOF = DATA.proof && DATA.proof.outer_front && DATA.proof.outer_front.length ? DATA.proof : null;

// Where two objectives alone are shown to hold no design: the corners of the outer bound, in the order of the first.
function outerPair(x, y) {
  const a = PROOF.objectives.indexOf(x), b = PROOF.objectives.indexOf(y);
  let best = Infinity;
  return PROOF.outer_front.map(row => [row[a], row[b]]).sort((p, q) => p[0] - q[0] || p[1] - q[1]).filter(p => p[1] < best && ((best = p[1]), true));
}

// Shade what lies below the outer bound, up to the edges of the chart.
function shadeOuter(chart, x, y, ax, ay) {
  const { left, right, top, bottom } = chart.box, inside = (v, a, b) => Math.min(Math.max(v, a), b);
  const corners = outerPair(x, y).map(([a, b]) => [inside(chart.x(a * ax.factor), left, right), inside(chart.y(b * ay.factor), top, bottom)]);
  if (!corners.length) return;
  const edge = [[corners[0][0], top], ...stepped(corners, true), [right, corners[corners.length - 1][1]]];
  chart.plot.append(hover(svg("path", { d: pathOf([[left, top], ...edge, [right, bottom], [left, bottom]]) + "Z", fill: COLOURS.green, opacity: 0.13, class: "outer" }), () => ["no design lies here", DATA.proof.sentence]));
  chart.plot.append(svg("path", { d: pathOf(edge), fill: "none", stroke: COLOURS.green, "stroke-width": 1.2, opacity: 0.7 }));
}

function drawPair(holder, x, y) {
  const ax = axisOf(x), ay = axisOf(y);
  const chart = frame(holder, {
    height: 400, label: labelOf(y) + " against " + labelOf(x),
    x: { log: true, domain: padded([...valid, ...COMPROMISES].map(t => t.metrics[x] * ax.factor), true), title: ax.title },
    y: { log: true, domain: padded([...valid, ...COMPROMISES].map(t => t.metrics[y] * ay.factor), true), title: ay.title },
  });
  if (PROOF) shadeOuter(chart, x, y, ax, ay);
  const place = t => [chart.x(t.metrics[x] * ax.factor), chart.y(t.metrics[y] * ay.factor)];
  const corner = pairFront(x, y).map(place);
  chart.plot.append(svg("path", { d: pathOf(stepped(corner, true)), fill: "none", stroke: COLOURS.blue, "stroke-width": 1.2, "stroke-dasharray": "4 4", opacity: 0.8 }));
  for (const t of [...valid.filter(t => !t.front), ...onFront]) {
    const [cx, cy] = place(t);
    const dot = svg("circle", { cx, cy, r: t.front ? 5.5 : 3.6, fill: t.front ? COLOURS.blue : COLOURS.pale, stroke: "white", "stroke-width": 1, class: "dot", "data-trial": t.number });
    dot.addEventListener("click", () => choose(t.number));
    chart.plot.append(hover(dot, () => describe(t)));
  }
  drawCompromises(chart, x, y, ax, ay);
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
  byId("front-legend").replaceChildren(legend([["on the front", COLOURS.blue, "dot"], ["dominated", COLOURS.pale, "dot"], ["chosen", COLOURS.red, "ring"], ["front of this pair", COLOURS.blue, "dash"], ...(PROOF ? [["shown to hold no design", COLOURS.green, "bar"]] : []), ...(COMPROMISES.length ? [["other mappings of a design", COLOURS.orange, "ring"]] : [])]));
  const panel = text => { const holder = html("div", {}); box.append(html("figure", {}, html("figcaption", {}, text), holder)); return holder; };
  for (let i = 0; i < o.length; i++) for (let j = i + 1; j < o.length; j++) drawPair(panel(labelOf(o[j]) + " against " + labelOf(o[i])), o[i], o[j]);
  if (o.length === 3) drawSpace(panel("All three (drag to turn)"), [o[0], o[1], o[2]]);
  if (o.length === 4) for (const left of [3, 2]) { const triple = o.filter((_, k) => k !== left); drawSpace(panel(triple.map(labelOf).join(", ") + " (drag to turn)"), triple); }
}
