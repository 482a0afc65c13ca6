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
  if (DATA.recommended.length) byId("summary").children[0].after(drawRecommended());
  const sections = [["front", "Front"], ["search", "Search"], ["parameters", "Parameters"], ["designs", "Table"], ["chosen", "Chosen design"], ["made", "How it was made"]];
  byId("nav").replaceChildren(...sections.map(([id, name]) => html("a", { href: "#" + id }, name)));
}

// The designs to look at first: what each is best at, what it gives and takes, what bounds it.
function drawRecommended() {
  const heads = ["design", ...DATA.objectives.map(labelOf), "why", "bound by", "parameters"];
  const rows = DATA.recommended.map(r => html("tr", { "data-trial": r.trial }, html("td", {}, html("b", {}, r.roles.join(", ")), html("br"), html("a", { href: "#chosen", onclick: () => choose(r.trial) }, "trial " + r.trial)),
    ...DATA.objectives.map(o => html("td", { "data-label": labelOf(o) }, si(byNumber.get(r.trial).metrics[o], unitOf(o)))), ...[r.why, r.bound, r.design].map((text, k) => html("td", { class: "words", "data-label": heads[heads.length - 3 + k] }, text))));
  return html("div", { id: "recommended" }, html("table", { class: "plain" }, html("thead", {}, html("tr", {}, ...heads.map((h, k) => html("th", { class: k >= heads.length - 3 ? "words" : null }, h)))), html("tbody", {}, ...rows)));
}

function drawJump() {
  byId("jump").replaceChildren(...DATA.recommended.map(r => html("button", { class: r.trial === chosen ? "on" : null, onclick: () => choose(r.trial) }, r.roles.join(", "))));
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
drawGap();
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
