// The page of a study: the parts in order, and the one thing they share, the chosen design.

let chosen = DATA.knee;

function drawHead() {
  const names = DATA.config.workload.names.join(" + "), mapper = DATA.config.mapper.name;
  byId("title").textContent = "Accelerators for " + names;
  byId("lead").textContent = [count(DATA.trials.length) + " designs of the space “" + DATA.config.space.name + "”", "optimiser " + DATA.config.optimizer + ", seed " + DATA.config.seed, mapper ? (DATA.config.evaluation.scheduler ? "scheduler " : "mapper ") + mapper : null, DATA.config.constraints.length ? "subject to " + DATA.config.constraints.join(", ") : null].filter(Boolean).join(" · ");
  const best = DATA.objectives.map(o => [onFront.length ? si(Math.min(...onFront.map(t => t.metrics[o])), unitOf(o)) : "–", "lowest " + labelOf(o)]);
  byId("cards").replaceChildren(...[[DATA.trials.length, "designs tried"], [valid.length, "feasible"], [onFront.length, "on the front"], ...best].map(([value, name]) => html("div", { class: "card" }, html("b", {}, String(value)), html("span", {}, name))));
  byId("summary").replaceChildren(...DATA.summary.map(part => html("p", { class: part === DATA.summary[0] ? "answer" : null }, html("b", {}, part.title + ". "), part.text,
    part.trial === null ? null : html("a", { href: "#chosen", onclick: () => choose(part.trial) }, " Show it."))));
  const sections = [["front", "Front"], ["search", "Search"], ["parameters", "Parameters"], ["designs", "Table"], ["chosen", "Chosen design"], ["made", "How it was made"]];
  byId("nav").replaceChildren(...sections.map(([id, name]) => html("a", { href: "#" + id }, name)));
}

function drawJump() {
  const list = [["recommended", DATA.knee], ...DATA.objectives.map(o => ["lowest " + labelOf(o), onFront.length ? onFront.reduce((a, b) => b.metrics[o] < a.metrics[o] ? b : a).number : null])];
  byId("jump").replaceChildren(...list.filter(([, number]) => number !== null).map(([name, number]) => html("button", { class: number === chosen ? "on" : null, onclick: () => choose(number) }, name)));
}

function choose(number) {
  chosen = number;
  hideTip();
  drawFronts();
  drawParallel();
  drawTable();
  drawJump();
  drawChosen();
}

drawHead();
drawCurve();
drawInfeasible();
drawImportance();
drawEffects();
choose(chosen);
document.querySelectorAll("input[name=against]").forEach(input => { input.onchange = drawCurve; });
byId("which").onchange = drawTable;
byId("filter").oninput = drawTable;
byId("made-note").textContent = DATA.note;
byId("config").textContent = JSON.stringify({ ...DATA.config, space: DATA.config.space.name, versions: DATA.versions }, null, 1);
document.body.dataset.ready = "yes";
