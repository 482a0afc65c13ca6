// Charts in SVG: scales, axes, and the few kinds the pages need.

// Charts wider than this scroll on a narrow screen instead of shrinking until nobody can read them.
const WIDE = 800;

// ---- scales: value to position -----------------------------------------------------------------

function linearScale(domain, range) {
  const [a, b] = domain, [p, q] = range, span = b - a || 1;
  const scale = value => p + (q - p) * (value - a) / span;
  scale.ticks = (most = 6) => niceTicks(a, b, most).map(value => ({ value, text: tickText(value) }));
  return scale;
}

function logScale(domain, range) {
  const scale = linearScale(domain.map(Math.log10), range), on = value => scale(Math.log10(value));
  on.ticks = (most = 6) => {
    const [a, b] = domain, decades = Math.log10(b / a), ticks = [];
    const steps = decades < 0.9 ? null : decades < 1.8 ? [1, 2, 3, 5] : decades < 3.2 ? [1, 3] : [1];
    if (!steps) return niceTicks(a, b, most).filter(v => v > 0).map(value => ({ value, text: tickText(value) }));
    for (let e = Math.floor(Math.log10(a)); e <= Math.ceil(Math.log10(b)); e++)
      for (const m of steps) { const value = m * 10 ** e; if (value >= a * 0.999 && value <= b * 1.001) ticks.push({ value, text: tickText(value) }); }
    return ticks;
  };
  return on;
}

function niceTicks(a, b, most) {
  const rough = (b - a) / most || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = (rough >= 1 && power < 10 ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).map(m => m * power).find(s => s >= rough * 0.999), ticks = [];
  for (let k = Math.ceil(a / step - 1e-9); k * step <= b + step * 1e-9; k++) ticks.push(k * step);
  return ticks;
}

function tickText(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) { const e = Math.floor(Math.log10(size) + 1e-9), m = value / 10 ** e; return (Math.abs(m - 1) < 1e-6 ? "" : Number(m.toPrecision(3)) + "·") + "10" + superscript(e); }
  return String(Number(value.toPrecision(4)));
}

const superscript = number => String(number).replace(/[-0-9]/g, c => c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)]);

// The factor and title of an axis, so that its ticks are plain numbers: latency [ms].
function axisUnit(values, label, unit) {
  if (!unit || unit.startsWith("mm") || !values.length) return { factor: 1, title: label + (unit ? " [" + unit + "]" : "") };
  const sorted = values.filter(v => v > 0).sort((p, q) => p - q), middle = sorted[Math.floor(sorted.length / 2)] || 1, [scale, letter] = prefixOf(middle);
  return { factor: 1 / scale, title: label + " [" + letter + unit + "]" };
}

// The domain of some values with a margin; positive ones on a log scale.
function padded(values, log, share = 0.06) {
  let low = Math.min(...values), high = Math.max(...values);
  if (!values.length) return log ? [1, 10] : [0, 1];
  if (log) { const room = Math.max((high / low) ** share, 1.04); return [low / room, high * room]; }
  const room = (high - low || Math.abs(high) || 1) * share;
  return [low - room, high + room];
}

// ---- a frame with axes ---------------------------------------------------------------------------

// options: width, height, x and y: {domain, log, title, ticks (own ones), grid}. Returns {root, plot, x, y, box}.
function frame(holder, options) {
  const width = options.width || 560, height = options.height || 380;
  const margin = { left: 62, right: 14, top: 14, bottom: 50, ...options.margin };
  const box = { left: margin.left, right: width - margin.right, top: margin.top, bottom: height - margin.bottom };
  const make = (axis, range) => (axis.log ? logScale : linearScale)(axis.domain, range);
  const x = make(options.x, [box.left, box.right]), y = make(options.y, [box.bottom, box.top]);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: width > WIDE ? "chart wide" : "chart", role: "img", "aria-label": options.label || "" });
  const grid = svg("g", { class: "grid" }), axes = svg("g", { class: "axes" }), plot = svg("g");
  for (const tick of options.x.ticks || x.ticks(options.x.most || 6)) {
    const at = x(tick.value);
    if (options.x.grid !== false) grid.append(svg("line", { x1: at, x2: at, y1: box.top, y2: box.bottom }));
    const text = svg("text", { x: at, y: box.bottom + 17, "text-anchor": "middle" }, tick.text);
    if (options.x.slant) { text.setAttribute("text-anchor", "end"); text.setAttribute("transform", `rotate(-40 ${at} ${box.bottom + 12})`); text.setAttribute("y", box.bottom + 12); }
    axes.append(text);
  }
  for (const tick of options.y.ticks || y.ticks(options.y.most || 6)) {
    const at = y(tick.value);
    if (options.y.grid !== false) grid.append(svg("line", { x1: box.left, x2: box.right, y1: at, y2: at }));
    axes.append(svg("text", { x: box.left - 8, y: at + 4, "text-anchor": "end" }, tick.text));
  }
  axes.append(svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }), svg("line", { class: "axis", x1: box.left, x2: box.left, y1: box.top, y2: box.bottom }));
  if (options.x.title) axes.append(svg("text", { class: "title", x: (box.left + box.right) / 2, y: height - 8, "text-anchor": "middle" }, options.x.title));
  if (options.y.title) axes.append(svg("text", { class: "title", "text-anchor": "middle", transform: `translate(15 ${(box.top + box.bottom) / 2}) rotate(-90)` }, options.y.title));
  root.append(grid, axes, plot);
  holder.replaceChildren(root);
  return { root, plot, x, y, box };
}

const pathOf = points => points.map(([a, b], k) => (k ? "L" : "M") + a.toFixed(1) + " " + b.toFixed(1)).join("");

// A legend under or over a chart: entries of [name, colour, shape], shape "dot", "line", "bar" or "dash".
function legend(entries) {
  return html("div", { class: "legend" }, ...entries.map(([name, colour, shape]) => html("span", {}, html("i", { class: shape || "bar", style: `--c:${colour}` }), name)));
}

// ---- kinds of charts --------------------------------------------------------------------------

// Horizontal bars: rows of {name, value, colour, text, tip}; they share one scale from 0.
function barList(holder, rows, options = {}) {
  const width = options.width || 560, left = options.left || 130, line = 27, height = rows.length * line + 8;
  const most = options.most || Math.max(...rows.map(row => row.value), 1e-300), right = width - (options.right || 118);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: width > WIDE ? "chart wide" : "chart", role: "img" });
  rows.forEach((row, k) => {
    const top = 4 + k * line, length = Math.max(1, (right - left) * row.value / most);
    const group = svg("g", {}, svg("rect", { x: 0, y: top, width, height: line, fill: "transparent" }), svg("text", { class: "name", x: left - 9, y: top + 18, "text-anchor": "end" }, row.name));
    if (row.behind !== undefined) group.append(svg("rect", { x: left, y: top + 5, width: Math.max(1, (right - left) * row.behind / most), height: line - 10, fill: row.colour, opacity: 0.28, rx: 2 }));
    group.append(svg("rect", { x: left, y: top + 5, width: length, height: line - 10, fill: row.colour, rx: 2 }));
    group.append(svg("text", { class: "value", x: left + Math.max(length, row.behind === undefined ? 0 : (right - left) * row.behind / most) + 7, y: top + 18 }, row.text));
    if (row.tip) hover(group, row.tip);
    root.append(group);
  });
  holder.replaceChildren(root);
}

// Curves with an optional band: series of {name, colour, points: [[x, y]], band: [[x, low, high]], step, dash, tip}.
function curves(holder, series, options) {
  const all = series.flatMap(s => [...s.points, ...(s.band || []).flatMap(([x, low, high]) => [[x, low], [x, high]])]);
  const xs = all.map(p => p[0]), ys = all.map(p => p[1]);
  const x = { log: options.logX, domain: options.domainX || (options.logX ? padded(xs, true) : [Math.min(...xs), Math.max(...xs) || 1]), title: options.titleX };
  const y = { log: options.logY, domain: options.domainY || (options.zero ? [0, Math.max(...ys) * 1.06 || 1] : padded(ys, options.logY)), title: options.titleY };
  const chart = frame(holder, { width: options.width, height: options.height, margin: options.margin, x, y, label: options.titleY });
  for (const s of series) {
    if (s.band) chart.plot.append(svg("path", { d: pathOf([...stepped(s.band.map(b => [b[0], b[2]]), s.step), ...stepped(s.band.map(b => [b[0], b[1]]), s.step).reverse()].map(([a, b]) => [chart.x(a), chart.y(b)])) + "Z", fill: s.colour, opacity: 0.16 }));
    chart.plot.append(svg("path", { d: pathOf(stepped(s.points, s.step).map(([a, b]) => [chart.x(a), chart.y(b)])), fill: "none", stroke: s.colour, "stroke-width": s.width || 2.4, "stroke-dasharray": s.dash || null, "stroke-linejoin": "round" }));
    if (s.tip) for (const [k, [a, b]] of s.points.entries()) {
      const dot = svg("circle", { cx: chart.x(a), cy: chart.y(b), r: s.points.length > 60 ? 5 : 7, fill: "transparent" });
      hover(dot, () => s.tip(k, a, b));
      chart.plot.append(dot);
    }
  }
  return chart;
}

function stepped(points, step) {
  if (!step) return points;
  const result = [];
  points.forEach(([a, b], k) => { if (k) result.push([a, points[k - 1][1]]); result.push([a, b]); });
  return result;
}
