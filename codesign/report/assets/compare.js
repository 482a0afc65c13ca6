// The page of a comparison: curves, summary, trials to a level, rank tests.

const decades = "decades" + superscript(DATA.objectives.length);
const colourOf = DATA.groups.map((_, k) => SERIES[k % SERIES.length]);
const runsText = g => g.seeds.length + (g.seeds.length > 1 ? " runs" : " run");

function fillTable(id, heads, rows) {
  byId(id).tHead.replaceChildren(html("tr", {}, ...heads.map(h => html("th", {}, h))));
  byId(id).tBodies[0].replaceChildren(...rows.map(row => html("tr", {}, ...row.map(cell => html("td", {}, cell instanceof Node ? cell : String(cell))))));
}

byId("problem").textContent = DATA.problem;
byId("answer").textContent = DATA.summary.join(" ");
byId("lead").textContent = "Volume of the logarithms (base 10) of " + DATA.objectives.map(labelOf).join(", ") + " between the front and the reference point "
  + DATA.objectives.map((o, k) => labelOf(o) + " " + si(DATA.reference[k], unitOf(o))).join(", ") + ", 1.1 times the worst value on the front of any run.";

const longest = Math.max(...DATA.groups.map(g => g.quartiles[1].length));
byId("legend").append(legend([...DATA.groups.map((g, k) => [g.optimizer + ", " + runsText(g), colourOf[k], "line"]), ["all runs together", COLOURS.grey, "dash"]]));
curves(byId("curves"), [
  ...DATA.groups.map((g, k) => ({ colour: colourOf[k], step: true, points: g.quartiles[1].map((v, i) => [i + 1, v]), band: g.seeds.length > 1 ? g.quartiles[0].map((v, i) => [i + 1, v, g.quartiles[2][i]]) : null,
    tip: i => [g.optimizer + ", " + runsText(g), "after " + (i + 1) + " trials", "median  " + g.quartiles[1][i].toFixed(4), "quartiles  " + g.quartiles[0][i].toFixed(4) + " to " + g.quartiles[2][i].toFixed(4)] })),
  { colour: COLOURS.grey, points: [[1, DATA.best], [longest, DATA.best]], dash: "5 5", width: 1.6 },
], { width: 1180, height: 470, zero: true, domainX: [1, Math.max(2, longest)], titleX: "trials", titleY: "hypervolume [" + decades + "]" });

const median = list => list.slice().sort((a, b) => a - b)[Math.floor(list.length / 2)];
fillTable("table", ["optimiser", "seeds", "trials", "median", "quartiles", "share of all runs", ...DATA.levels.map(l => "trials to " + percent(l / DATA.best)), "median time", ...(DATA.proven === null ? [] : ["from the proven front"]), "certified factor"], DATA.groups.map((g, k) => {
  const last = g.quartiles[1].length - 1;
  return [html("span", { style: "color:" + colourOf[k] + ";font-weight:600" }, g.optimizer), g.seeds.length > 8 ? g.seeds.length + " seeds" : g.seeds.join(", "), last + 1, g.quartiles[1][last].toFixed(4), g.quartiles[0][last].toFixed(4) + " – " + g.quartiles[2][last].toFixed(4), percent(g.quartiles[1][last] / DATA.best), ...g.trials_to_levels.map(n => n === null ? "not reached" : String(n)), si(median(g.seconds), "s"), ...(DATA.proven === null ? [] : [percent(median(g.distances))]), g.certified_factor === null ? "–" : g.certified_factor.toFixed(3)];
}));
byId("table-note").textContent = "Hypervolume in " + decades + " after the last trial that all runs of the optimiser have; all runs together reach " + DATA.best.toFixed(4) + ". Trials: median over runs, a run that never reaches the level counting as infinitely many."
  + (DATA.proven === null ? "" : " From the proven front: the least share by which a run comes near every design of it in every objective, median over runs.");

// One row a level, one mark a run: how many trials each run needed.
function drawLevels() {
  const width = 1180, left = 250, right = 1120, lines = DATA.levels.flatMap((level, l) => DATA.groups.map((g, k) => ({ level, l, g, k }))), step = 22, gap = 14;
  const height = lines.length * step + DATA.levels.length * gap + 46, x = linearScale([0, longest], [left, right]), root = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart wide", role: "img" });
  for (const tick of x.ticks(8)) root.append(svg("line", { x1: x(tick.value), x2: x(tick.value), y1: 4, y2: height - 42, stroke: "#e8ebf1" }), svg("text", { x: x(tick.value), y: height - 26, "text-anchor": "middle" }, tick.text));
  root.append(svg("text", { class: "title", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, "trials"));
  lines.forEach(({ level, l, g, k }, row) => {
    const y = 16 + row * step + l * gap, runs = g.trials_to_levels_by_run[l], reached = runs.filter(n => n !== null), middle = g.trials_to_levels[l];
    if (k === 0) root.append(svg("text", { class: "name", x: 6, y: y + 4, "font-weight": 600 }, percent(level / DATA.best) + " (" + level.toFixed(3) + ")"));
    root.append(svg("text", { class: "small", x: left - 12, y: y + 4, "text-anchor": "end" }, g.optimizer), svg("line", { x1: left, x2: right, y1: y, y2: y, stroke: "#eef1f6" }));
    for (const n of reached) root.append(svg("circle", { cx: x(n), cy: y, r: 3.6, fill: colourOf[k], opacity: 0.4 }));
    if (middle !== null) root.append(svg("line", { x1: x(middle), x2: x(middle), y1: y - 8, y2: y + 8, stroke: colourOf[k], "stroke-width": 3.5 }));
    root.append(svg("text", { class: "small", x: right + 10, y: y + 4 }, reached.length + " of " + runs.length));
  });
  byId("levels").replaceChildren(root, html("p", { class: "note" }, "A dot is a run, the bar the median over runs; on the right how many runs reach the level at all."));
}
drawLevels();

const pText = p => p === null ? "–" : p < 0.001 ? p.toExponential(1) : p.toPrecision(2);
fillTable("tests", ["pair", "after trials", "A₁₂", "Mann–Whitney p", "Wilcoxon p", "least p possible"], DATA.tests.map(t => [t.left + " over " + t.right, t.trials, t.superiority.toFixed(2), pText(t.p_value), pText(t.paired_p_value), pText(t.least_p_value)]));
byId("tests").parentElement.hidden = !DATA.tests.length;
byId("tests-note").textContent = DATA.tests.length ? "A₁₂ is the probability that a run of the first ends above a run of the second, ties counted half: 0.5 is no difference, 0.71 and above is commonly called large. p values are two-sided and adjusted for all pairs (Holm); Wilcoxon pairs runs of equal seeds. With few runs even a perfect separation cannot go below the last column."
  : "A rank test needs at least two optimisers with two runs each.";
document.body.dataset.ready = "yes";
