const colours = ["31,111,235", "217,72,15", "43,138,62", "134,46,156", "230,119,0", "12,133,153", "73,80,87"];
const unit = o => DATA.units[o] || "";
document.getElementById("lead").textContent = "Hypervolume of the logarithms (base 10) of " + DATA.objectives.join(", ") + " against the fixed reference point "
  + DATA.objectives.map((o, k) => o + " = " + DATA.reference[k].toPrecision(3) + " " + unit(o)).join(", ") + ".";
const traces = [];
DATA.groups.forEach((g, k) => {
  const x = g.quartiles[1].map((_, i) => i + 1), c = colours[k % colours.length];
  if (g.seeds.length > 1) traces.push({ x: [...x, ...x.slice().reverse()], y: [...g.quartiles[2], ...g.quartiles[0].slice().reverse()], fill: "toself", fillcolor: "rgba(" + c + ",.15)", line: { width: 0 }, hoverinfo: "skip", showlegend: false });
  traces.push({ x, y: g.quartiles[1], mode: "lines", name: g.optimizer + " (" + g.seeds.length + " seed" + (g.seeds.length > 1 ? "s" : "") + ")", line: { color: "rgb(" + c + ")", width: 2.5 } });
});
const longest = Math.max(...DATA.groups.map(g => g.quartiles[1].length));
traces.push({ x: [1, longest], y: [DATA.best, DATA.best], mode: "lines", name: "all runs together", line: { dash: "dot", color: "#5b6475" } });
Plotly.newPlot("curves", traces, { margin: { l: 62, r: 12, t: 12, b: 48 }, xaxis: { title: { text: "trials" } }, yaxis: { title: { text: "hypervolume [decades^" + DATA.objectives.length + "]" } }, legend: { x: 1, xanchor: "right", y: 0.02, yanchor: "bottom" } }, { responsive: true, displayModeBar: false });
const columns = ["optimiser", "seeds", "trials", "median hypervolume", "quartiles", "share of all runs", "trials to 90 % of all runs", "median seconds"];
const row = (tag, cells) => { const r = document.createElement("tr"); for (const c of cells) { const e = document.createElement(tag); e.textContent = c; r.append(e); } return r; };
document.querySelector("#table thead").append(row("th", columns));
for (const g of DATA.groups) {
  const last = g.quartiles[1].length - 1, seconds = g.seconds.slice().sort((a, b) => a - b);
  document.querySelector("#table tbody").append(row("td", [g.optimizer, g.seeds.join(", "), last + 1, g.quartiles[1][last].toFixed(4), g.quartiles[0][last].toFixed(4) + " – " + g.quartiles[2][last].toFixed(4),
    (100 * g.quartiles[1][last] / DATA.best).toFixed(1) + " %", g.trials_to_90_percent === null ? "not reached" : g.trials_to_90_percent, seconds[Math.floor(seconds.length / 2)].toFixed(0)]));
}
