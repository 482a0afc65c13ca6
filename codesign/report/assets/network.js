// The page of a network on one accelerator: what a run takes, and every layer.

const design = DATA.design, clock = design.architecture.clock_hz;
const proven = design.layers.filter(l => l.proof === "optimal").length;

byId("title").textContent = DATA.network + " on " + design.architecture.name;
byId("lead").textContent = [count(DATA.operators) + " operators", si(DATA.macs, "MACs"), bytes(DATA.weight_bytes) + " of weights", DATA.mapper === "given" ? "mappings as given" : "mapper " + DATA.mapper + ", each layer's " + (DATA.objective === "edp" ? "energy-delay product" : DATA.objective) + " minimised"].join(" · ");
byId("cards").replaceChildren(...[...Object.keys(DATA.labels).filter(m => DATA.metrics[m] != null).map(m => [si(DATA.metrics[m], unitOf(m)), labelOf(m)]), [bytes(DATA.dram_bytes), "moved at " + design.architecture.levels[0].name], [percent(DATA.utilization), "MAC utilisation"]]
  .map(([value, name]) => html("div", { class: "card" }, html("b", {}, value), html("span", {}, name))));

function drawAnswer() {
  const time = new Map(), add = (name, cycles) => time.set(name, (time.get(name) || 0) + cycles);
  for (const l of design.layers) add(boundText(l.bottlenecks), l.latency_cycles * l.count);
  if (design.vector.latency_cycles) add("vector operators", design.vector.latency_cycles);
  const total = [...time.values()].reduce((a, b) => a + b, 0), [name, most] = [...time].sort((a, b) => b[1] - a[1])[0];
  const heavy = design.layers.slice().sort((a, b) => b.latency_cycles * b.count - a.latency_cycles * a.count)[0];
  const where = name === "vector operators" ? percent(most / total) + " of the time goes to vector operators. " : percent(most / total) + " of the time is bound by " + name.replaceAll("bandwidth", "the bandwidth") + ". ";
  const proof = DATA.mapper === "given" ? "" : proven === design.layers.length ? " Every mapping is proven optimal for its layer." : " " + proven + " of " + design.layers.length + " mappings are proven optimal for their layer.";
  byId("answer").textContent = where + "The heaviest layer is " + heavy.name + ", " + percent(heavy.latency_cycles * heavy.count / total) + " of the time." + proof;
}

function drawLayerTable() {
  const heads = ["", "layer", "times", "MACs", "cycles", "time", "bound by", "utilisation", "energy", "DRAM traffic", "proof"], words = new Set([1, 6, 10]);
  const rows = design.layers.map((l, k) => [k + 1, l.name, digits(l.count).replace(/\.0+$/, ""), count(l.macs), count(l.latency_cycles), si(l.latency_cycles * l.count / clock, "s"), boundText(l.bottlenecks), percent(l.utilization), si(l.energy_pj * 1e-12, "J"), bytes(l.dram_bytes), proofText(l)]);
  if (design.vector.operations) rows.push(["", "vector operators", "", "", count(design.vector.latency_cycles), si(design.vector.latency_cycles / clock, "s"), "", "", si(design.vector.energy_pj * 1e-12, "J"), bytes(design.vector.dram_bytes), ""]);
  byId("table").tHead.replaceChildren(html("tr", {}, ...heads.map((h, k) => html("th", { class: words.has(k) ? "words" : null }, h))));
  byId("table").tBodies[0].replaceChildren(...rows.map(row => html("tr", {}, ...row.map((cell, k) => html("td", { class: words.has(k) ? "words" : null }, String(cell))))));
}

drawAnswer();
drawDesign(design, byId("work"));
drawLayerTable();
document.body.dataset.ready = "yes";
