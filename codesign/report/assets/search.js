// How the search went, and what it says of the parameters.

function drawCurve() {
  const time = document.querySelector("input[name=against]:checked").value === "time";
  const unit = "hypervolume [decades" + superscript(DATA.objectives.length) + "]";
  if (!DATA.curve.length) { byId("curve").replaceChildren(html("p", { class: "note" }, "No feasible design among the first trials, so there is no reference point.")); return; }
  const last = DATA.trials[DATA.trials.length - 1].elapsed, [scale, name] = last > 7200 ? [3600, "h"] : last > 180 ? [60, "min"] : [1, "s"];
  const points = DATA.curve.map((value, k) => [time ? DATA.trials[k].elapsed / scale : k + 1, value]);
  const tipOf = k => ["after trial " + DATA.trials[k].number, "hypervolume  " + DATA.curve[k].toFixed(4), "designs tried  " + (k + 1), "elapsed  " + si(DATA.trials[k].elapsed, "s")];
  curves(byId("curve"), [{ colour: COLOURS.blue, points: time ? points.sort((a, b) => a[0] - b[0]) : points, step: true, tip: tipOf }],
    { height: 330, zero: true, domainX: [0, Math.max(...points.map(p => p[0]))], titleX: time ? "time since the start [" + name + "]" : "trials", titleY: unit });
  byId("curve-note").textContent = "Volume of the objectives' logarithms (base 10) between the front and the reference point "
    + DATA.objectives.map((o, k) => labelOf(o) + " " + si(DATA.reference[k], unitOf(o))).join(", ") + ", which is 1.1 times the worst feasible value among the first ten trials.";
}

// How the certified factor of the front fell with the time that bounds were given after the search.
function drawFactor() {
  const holder = html("div", {}), steps = DATA.proof.steps, last = steps[steps.length - 1];
  byId("gap").replaceChildren(html("figcaption", {}, "What is proven after the search: how much better than the front any design may be"), holder, html("p", { class: "note" }, DATA.proof.sentence + "."));
  curves(holder, [{ colour: COLOURS.green, step: true, points: steps, tip: k => ["after " + steps[k][0].toFixed(1) + " CPU s", "factor  " + steps[k][1].toFixed(3)] }],
    { height: 330, zero: false, domainX: [0, last[0]], titleX: "CPU seconds", titleY: "factor" });
}

// How what is proven of the designs not evaluated changed with the trials.
function drawGap() {
  if (DATA.proof && DATA.proof.steps && DATA.proof.steps.length) { drawFactor(); return; }
  const box = byId("gap"), known = DATA.proof ? DATA.proof.history.filter(row => row[1] !== null) : [];
  if (!known.length) { box.remove(); return; }
  const holder = html("div", {}), least = Math.min(...known.map(row => row[1]).filter(v => v > 0), 1), floor = least / 3;
  box.replaceChildren(html("figcaption", {}, "What is proven: how much better than an evaluated design any other may be"), holder, html("p", { class: "note" }, "Certificate: " + DATA.proof.sentence + "."));
  curves(holder, [{ colour: COLOURS.green, step: true, points: known.map(row => [row[0], 100 * Math.max(row[1], floor)]),
    tip: k => ["after " + count(known[k][0]) + " trials", "proven within  " + percent(known[k][1]), "hypervolume evaluated  " + known[k][2].toFixed(4), "hypervolume at most  " + (known[k][3] === null ? "–" : known[k][3].toFixed(4))] }],
    { height: 330, logY: true, titleX: "trials", titleY: "gap [%], " + (known[known.length - 1][1] === 0 ? "lowest: none" : "log scale") });
}

// Trials that do not count, by reason, the most frequent first.
function drawInfeasible() {
  const reasons = new Map();
  for (const t of DATA.trials) {
    if (t.valid) continue;
    for (const reason of t.infeasible ? [t.infeasible.resource] : t.broken.map(text => "constraint " + text)) reasons.set(reason, [...(reasons.get(reason) || []), t]);
  }
  const box = byId("infeasible"), rows = [...reasons].sort((a, b) => b[1].length - a[1].length), holder = html("div", {});
  const bad = DATA.trials.length - valid.length;
  box.replaceChildren(html("figcaption", {}, "Designs that do not count, by reason"), holder);
  if (!rows.length) { holder.append(html("p", { class: "note" }, "All " + DATA.trials.length + " designs tried are feasible and keep the constraints.")); return; }
  const example = t => t.infeasible ? (t.infeasible.demand === undefined ? t.infeasible.detail : "trial " + t.number + ": needs " + count(t.infeasible.demand) + " " + t.infeasible.unit + ", has " + count(t.infeasible.limit) + (t.infeasible.detail ? " (" + t.infeasible.detail + ")" : "")) : "trial " + t.number;
  barList(holder, rows.map(([reason, list]) => ({ name: "", value: list.length, colour: COLOURS.red, text: list.length + " × " + reason, tip: [reason, list.length + " of " + DATA.trials.length + " designs", ...list.slice(0, 5).map(example)] })), { left: 12, right: 330 });
  box.append(html("p", { class: "note" }, bad + " of " + DATA.trials.length + " designs. An example of each reason shows on hover."));
}

function drawImportance() {
  const box = byId("importance"), found = Object.entries(DATA.importance);
  box.replaceChildren();
  if (!found.length) { box.append(html("p", { class: "note" }, "Importance needs at least " + DATA.least_trials + " feasible designs.")); byId("effects-note").textContent = ""; return; }
  const grid = html("div", { class: found.length === 2 ? "grid two" : "grid three" });
  for (const [metric, effect] of found) {
    const colour = METRIC_COLOURS[metric] || COLOURS.grey, holder = html("div", {});
    const rows = Object.keys(effect.total).sort((a, b) => effect.total[b] - effect.total[a]).map(name => ({
      name: words(name), value: Math.min(1, effect.first[name]), behind: Math.min(1, Math.max(effect.total[name], effect.first[name])), colour, text: percent(Math.min(1, Math.max(effect.total[name], effect.first[name]))),
      tip: [words(name) + " on " + labelOf(metric), "alone  " + percent(Math.min(1, effect.first[name])), "with interactions  " + percent(Math.min(1, effect.total[name]))] }));
    barList(holder, rows, { width: 400, left: Math.max(112, 7.2 * Math.max(...rows.map(r => r.name.length)) + 14), right: 58, most: 1 });
    grid.append(html("figure", {}, html("figcaption", {}, "on " + labelOf(metric) + " ", html("span", { class: effect.q2 < 0.5 ? "badge bad" : "badge" }, "Q² " + effect.q2.toFixed(2))), holder));
  }
  box.append(html("p", { class: "note" }, "Share of the variance of the objective's logarithm that each parameter accounts for, over the values tried: solid alone, pale with interactions (functional analysis of variance of a Gaussian process fitted to the trials). "
    + "Q² is the share of the variance the model predicts when each trial is left out in turn; below 0.5 the bars are a hint at most."), grid);
}

// One small chart a parameter: factor on each objective against the parameter's value.
function drawEffects() {
  const box = byId("effects"), found = Object.entries(DATA.importance).filter(([, effect]) => Object.keys(effect.main).length);
  box.replaceChildren();
  if (!found.length) return;
  byId("effects-note").replaceChildren("Factor on the geometric mean of each objective when one parameter has a value and all others vary over what was tried: below 1 is better.", legend(found.map(([metric]) => [labelOf(metric), METRIC_COLOURS[metric] || COLOURS.grey, "line"])));
  const factors = found.flatMap(([, effect]) => Object.values(effect.main).flat().map(pair => pair[1]));
  const domain = padded([...factors, 0.9, 1.1], true, 0.04);
  for (const name of DATA.parameters) {
    const main = found.filter(([, effect]) => effect.main[name]);
    if (!main.length) continue;
    const values = main[0][1].main[name].map(pair => pair[0]), last = Math.max(1, values.length - 1), holder = html("div", {});
    const long = values.some(v => String(v).length > 5), step = values.length > 9 ? Math.ceil(values.length / 8) : 1;
    const chart = frame(holder, { width: 290, height: long ? 216 : 190, margin: { left: 40, right: 10, top: 8, bottom: long ? 72 : 34 },
      x: { domain: [-0.2, last + 0.2], grid: false, slant: long, ticks: values.map((v, k) => ({ value: k, text: v === null ? "–" : String(v).replace("-stationary", "-st.") })).filter((_, k) => k % step === 0) },
      y: { log: true, domain, most: 4 } });
    chart.plot.append(svg("line", { x1: chart.box.left, x2: chart.box.right, y1: chart.y(1), y2: chart.y(1), stroke: "#8d97a8", "stroke-dasharray": "3 3" }));
    for (const [metric, effect] of main) {
      const colour = METRIC_COLOURS[metric] || COLOURS.grey, points = effect.main[name].map(([, factor], k) => [chart.x(k), chart.y(factor)]);
      if (effect.main[name].every(pair => typeof pair[0] === "number")) chart.plot.append(svg("path", { d: pathOf(points), fill: "none", stroke: colour, "stroke-width": 2 }));
      points.forEach(([cx, cy], k) => chart.plot.append(hover(svg("circle", { cx, cy, r: 3.6, fill: colour, stroke: "white" }), [words(name) + " = " + effect.main[name][k][0], labelOf(metric) + "  × " + effect.main[name][k][1].toFixed(3)])));
    }
    box.append(html("figure", {}, html("figcaption", {}, words(name)), holder));
  }
}

function drawParallel() {
  if (!valid.length) return;
  const axes = DATA.parameters.map(name => ({ key: name, title: words(name), of: t => t.point[name] }));
  for (const metric of DATA.objectives) axes.push({ key: metric, ...axisOf(metric), of: t => t.metrics[metric], metric: true });
  new Parallel(byId("parallel"), axes, valid, t => ({
    colour: t.number === chosen ? COLOURS.red : t.front ? COLOURS.blue : COLOURS.pale, width: t.number === chosen ? 3 : t.front ? 1.3 : 1, opacity: t.number === chosen ? 1 : t.front ? 0.6 : 0.7,
    rank: t.number === chosen ? 2 : t.front ? 1 : 0, tip: () => describe(t), choose: () => choose(t.number) }));
}
