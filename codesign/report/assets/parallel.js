// Parallel coordinates: one line a design over all parameters and objectives; drag along an axis to select, click it to clear.

class Parallel {
  // axes: {key, title, of: trial => value, factor, log, metric}; lines: trials; tips and colours by trial.
  constructor(holder, axes, trials, style) {
    this.width = 1180;
    this.height = 400;
    this.top = 46;
    this.bottom = 372;
    this.trials = trials;
    this.style = style;
    this.axes = axes.map((axis, k) => this.place(axis, 70 + k * (this.width - 140) / Math.max(1, axes.length - 1)));
    this.brushes = new Map();
    this.root = svg("svg", { viewBox: `0 0 ${this.width} ${this.height}`, class: "chart wide parallel", role: "img", "aria-label": "designs over all parameters" });
    holder.replaceChildren(this.root);
    this.draw();
  }

  place(axis, x) {
    const values = this.trials.map(axis.of), range = [this.bottom, this.top];
    const numbers = values.filter(v => typeof v === "number");
    if (axis.metric) {
      const scale = logScale(padded(numbers.map(v => v * axis.factor), true, 0.01), range);
      return { ...axis, x, y: trial => scale(axis.of(trial) * axis.factor), ticks: scale.ticks(5).map(t => ({ at: scale(t.value), text: t.text })) };
    }
    const distinct = [...new Set(values.map(v => v === undefined || v === null ? "–" : v))];
    if (numbers.length === values.length) distinct.sort((a, b) => a - b); else distinct.sort((a, b) => String(a).localeCompare(String(b)));
    if (numbers.length === values.length && distinct.length > 12) {
      const scale = linearScale([distinct[0], distinct[distinct.length - 1]], range);
      return { ...axis, x, y: trial => scale(axis.of(trial)), ticks: scale.ticks(5).map(t => ({ at: scale(t.value), text: t.text })) };
    }
    const scale = linearScale([0, Math.max(1, distinct.length - 1)], range);
    const rank = trial => { const v = axis.of(trial); return distinct.indexOf(v === undefined || v === null ? "–" : v); };
    return { ...axis, x, y: trial => scale(rank(trial)), ticks: distinct.map((v, k) => ({ at: scale(k), text: String(v).replace("-stationary", "-st.") })) };
  }

  selected(trial) {
    for (const [k, [low, high]] of this.brushes) { const y = this.axes[k].y(trial); if (y < low - 4 || y > high + 4) return false; }
    return true;
  }

  draw() {
    const parts = [], order = this.trials.slice().sort((a, b) => this.style(a).rank - this.style(b).rank);
    for (const trial of order) {
      const style = this.style(trial), on = this.selected(trial);
      const path = svg("path", { d: pathOf(this.axes.map(axis => [axis.x, axis.y(trial)])), fill: "none", stroke: on ? style.colour : "#e9ecf2", "stroke-width": on ? style.width : 1, opacity: on ? style.opacity : 0.7, class: "design", "data-trial": trial.number });
      if (on) { hover(path, style.tip); path.addEventListener("click", style.choose); }
      parts.push(path);
    }
    this.axes.forEach((axis, k) => parts.push(this.axisOf(axis, k)));
    this.root.replaceChildren(...parts);
  }

  axisOf(axis, k) {
    const group = svg("g", { class: "axes" }, svg("line", { class: "axis", x1: axis.x, x2: axis.x, y1: this.top, y2: this.bottom }));
    const up = k % 2 ? 14 : 30;
    group.append(svg("text", { class: "title", x: axis.x, y: up, "text-anchor": "middle", "font-weight": axis.metric ? 600 : 400 }, axis.title));
    for (const tick of axis.ticks) group.append(svg("text", { class: "small halo", x: axis.x + 5, y: tick.at + 4 }, tick.text));
    const brush = this.brushes.get(k);
    if (brush) group.append(svg("rect", { x: axis.x - 8, y: brush[0], width: 16, height: Math.max(4, brush[1] - brush[0]), fill: COLOURS.orange, opacity: 0.35 }));
    const handle = svg("rect", { x: axis.x - 9, y: this.top - 8, width: 18, height: this.bottom - this.top + 16, fill: "transparent", style: "cursor:crosshair", "data-axis": axis.key });
    handle.addEventListener("pointerdown", event => this.drag(event, k));
    group.append(handle);
    return group;
  }

  drag(event, k) {
    const within = e => { const box = this.root.getBoundingClientRect(); return (e.clientY - box.top) * this.height / box.height; };
    const start = within(event);
    const move = e => { const now = within(e); this.brushes.set(k, [Math.min(start, now), Math.max(start, now)]); this.draw(); };
    const stop = e => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", stop);
      if (Math.abs(within(e) - start) < 4) { this.brushes.delete(k); this.draw(); }
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", stop);
  }
}
