// A 3-D scatter that turns: three logarithmic axes in a box, points sorted by depth, drop lines for the front.

class Scene {
  // axes: three of {title, values, factor}; dots: {at: [x, y, z], colour, size, front, tip, number}.
  constructor(holder, axes, dots, onChoose) {
    this.axes = axes.map(axis => ({ ...axis, scale: logScale(padded(axis.values.map(v => v * axis.factor), true, 0.05), [-1, 1]) }));
    this.dots = dots.map(dot => ({ ...dot, place: dot.at.map((v, k) => this.axes[k].scale(v * this.axes[k].factor)) }));
    this.turn = -0.62;
    this.tilt = 0.42;
    this.onChoose = onChoose;
    this.root = svg("svg", { viewBox: "0 0 620 480", class: "chart scene", role: "img", "aria-label": "front in three dimensions; drag to turn" });
    holder.replaceChildren(this.root);
    this.listen();
    this.draw();
  }

  listen() {
    let from = null;
    this.root.addEventListener("pointerdown", event => { from = [event.clientX, event.clientY]; });
    window.addEventListener("pointermove", event => {
      if (!from) return;
      this.turn += (event.clientX - from[0]) * 0.009;
      this.tilt = Math.max(-0.1, Math.min(1.45, this.tilt + (event.clientY - from[1]) * 0.007));
      from = [event.clientX, event.clientY];
      hideTip();
      this.draw();
    });
    window.addEventListener("pointerup", () => { from = null; });
  }

  // Position in the box, [-1, 1] each, to the screen and depth. The third axis points up.
  project([x, y, z]) {
    const c = Math.cos(this.turn), s = Math.sin(this.turn), ct = Math.cos(this.tilt), st = Math.sin(this.tilt);
    const across = c * x - s * y, away = s * x + c * y;
    const up = z * ct + away * st, depth = away * ct - z * st, far = 5.2 / (5.2 + depth);
    return { x: 310 + 160 * across * far, y: 206 - 146 * up * far, depth };
  }

  line(from, to, attributes) {
    const a = this.project(from), b = this.project(to);
    return svg("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, ...attributes });
  }

  draw() {
    const parts = [], back = { x: Math.sin(this.turn) > 0 ? 1 : -1, y: Math.cos(this.turn) > 0 ? 1 : -1 };
    const ticks = this.axes.map(axis => axis.scale.ticks(5));
    const grid = { stroke: "#dfe4ec", "stroke-width": 1 }, edge = { stroke: "#8d97a8", "stroke-width": 1.2 };
    for (const tick of ticks[0]) { const at = this.axes[0].scale(tick.value); parts.push(this.line([at, -1, -1], [at, 1, -1], grid), this.line([at, back.y, -1], [at, back.y, 1], grid)); }
    for (const tick of ticks[1]) { const at = this.axes[1].scale(tick.value); parts.push(this.line([-1, at, -1], [1, at, -1], grid), this.line([back.x, at, -1], [back.x, at, 1], grid)); }
    for (const tick of ticks[2]) { const at = this.axes[2].scale(tick.value); parts.push(this.line([-1, back.y, at], [1, back.y, at], grid), this.line([back.x, -1, at], [back.x, 1, at], grid)); }
    parts.push(this.line([-1, -back.y, -1], [1, -back.y, -1], edge), this.line([-back.x, -1, -1], [-back.x, 1, -1], edge));
    const upright = this.project([back.x, -back.y, 0]).x > this.project([-back.x, back.y, 0]).x ? [-back.x, back.y] : [back.x, -back.y];
    parts.push(this.line([...upright, -1], [...upright, 1], edge));
    parts.push(...this.labels(0, ticks[0], at => [at, -back.y, -1], [0, -back.y * 0.13, 0]));
    parts.push(...this.labels(1, ticks[1], at => [-back.x, at, -1], [-back.x * 0.13, 0, 0]));
    parts.push(...this.labels(2, ticks[2], at => [...upright, at], [upright[0] * 0.1, upright[1] * 0.1, 0]));
    const sorted = this.dots.map(dot => ({ dot, seen: this.project(dot.place) })).sort((a, b) => b.seen.depth - a.seen.depth);
    for (const { dot } of sorted) if (dot.front) parts.push(this.line(dot.place, [dot.place[0], dot.place[1], -1], { stroke: dot.colour, "stroke-width": 1, opacity: 0.35 }));
    for (const { dot, seen } of sorted) {
      const circle = svg("circle", { cx: seen.x, cy: seen.y, r: dot.size * (1.06 - 0.14 * seen.depth), fill: dot.colour, stroke: dot.ring || "white", "stroke-width": dot.ring ? 3 : 1, opacity: dot.front ? 1 : 0.65, class: "dot", "data-trial": dot.number });
      circle.addEventListener("click", () => this.onChoose(dot.number));
      parts.push(hover(circle, dot.tip));
    }
    this.root.replaceChildren(...parts);
  }

  // Tick labels along an edge, moved outwards, and the title at its middle.
  labels(index, ticks, place, outwards) {
    const moved = (at, far) => place(at).map((v, k) => v + outwards[k] * far), parts = [];
    const shift = this.project(moved(0, 1)).x - this.project(moved(0, 0)).x, anchor = Math.abs(shift) < 6 ? "middle" : shift < 0 ? "end" : "start";
    for (const tick of ticks) { const at = this.project(moved(this.axes[index].scale(tick.value), 1)); parts.push(svg("text", { x: at.x, y: at.y + 4, "text-anchor": anchor, class: "small" }, tick.text)); }
    const middle = this.project(moved(0, index === 2 ? 4.6 : 3.4)), first = this.project(place(-1)), last = this.project(place(1));
    let angle = Math.atan2(last.y - first.y, last.x - first.x) * 180 / Math.PI;
    if (angle > 90) angle -= 180;
    if (angle <= -90) angle += 180;
    parts.push(svg("text", { x: middle.x, y: middle.y + 4, "text-anchor": "middle", class: "title", transform: `rotate(${angle} ${middle.x} ${middle.y})` }, this.axes[index].title));
    return parts;
  }
}
