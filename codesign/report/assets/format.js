// Numbers with units, and small helpers for building the page.

const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];

function prefixOf(value) {
  for (const entry of PREFIXES) if (Math.abs(value) >= entry[0] * 0.99995) return entry;
  return PREFIXES[PREFIXES.length - 1];
}

function digits(value, count = 3) {
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.max(0, Math.min(12, count - 1 - size)));
}

// A value with its unit: si(0.0162, "s") is "16.2 ms". Areas keep their unit.
function si(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!unit) return digits(value, 4);
  if (value === 0) return "0 " + unit;
  if (unit.startsWith("mm")) return digits(value) + " " + unit;
  const [scale, letter] = prefixOf(value);
  return digits(value / scale) + " " + letter + unit;
}

function percent(share) {
  return share >= 0.0995 || share === 0 ? (100 * share).toFixed(0) + " %" : (100 * share).toFixed(1) + " %";
}

function bytes(value) {
  if (value === null || value === undefined) return "unbounded";
  for (const [scale, name] of [[1 << 30, "GiB"], [1 << 20, "MiB"], [1 << 10, "KiB"]]) if (value >= scale) return digits(value / scale).replace(/\.0+$/, "") + " " + name;
  return value + " B";
}

function count(value) { return Number.isInteger(value) ? value.toLocaleString("en").replace(/,/g, " ") : digits(value); }

// Bytes per cycle of one instance of a level, as its ports share them; "" where nothing limits it.
function bandwidthText(level) {
  const read = level.read_bandwidth_bytes_per_cycle, write = level.write_bandwidth_bytes_per_cycle === undefined ? read : level.write_bandwidth_bytes_per_cycle, shared = level.ports === "shared";
  if (read === null && write === null) return "";
  const ways = read === write ? digits(read) + " B/cycle" : (read === null ? "reads unlimited" : digits(read) + " B/cycle read") + ", " + (write === null ? "writes unlimited" : digits(write) + " written");
  return ways + (shared ? ", one port" : read === write ? " each way" : "");
}

// The words of a parameter or label: pe_rows is "pe rows".
const words = name => name.replace(/_/g, " ");

const unitOf = metric => DATA.units[metric] || "";
const labelOf = metric => (DATA.labels && DATA.labels[metric]) || metric.replace(/_[a-z0-9]+$/, "");
const byId = id => document.getElementById(id);

// An HTML element: html("td", {class: "number"}, "3").
function html(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) element[key] = value;
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

// The same for SVG.
function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) element[key] = value;
    else if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

// Colours of Okabe and Ito, told apart by people with any kind of colour vision.
const COLOURS = { blue: "#0072B2", orange: "#E69F00", green: "#009E73", red: "#D55E00", sky: "#56B4E9", purple: "#CC79A7", grey: "#7d8797", pale: "#b9c1ce" };
const SERIES = [COLOURS.blue, COLOURS.red, COLOURS.green, COLOURS.purple, COLOURS.orange, COLOURS.sky, COLOURS.grey];
const METRIC_COLOURS = { latency_s: COLOURS.blue, energy_j: COLOURS.red, area_mm2: COLOURS.green, power_w: COLOURS.purple, edp_js: COLOURS.orange };

// One tooltip for the whole page; its lines are plain text, the first in bold.
const tip = html("div", { id: "tip", role: "tooltip" });
document.body.append(tip);
function showTip(event, lines) {
  tip.replaceChildren(...lines.map((line, k) => html("div", { class: k ? null : "first" }, line)));
  tip.style.display = "block";
  const box = tip.getBoundingClientRect(), left = event.clientX + 14, top = event.clientY + 14;
  tip.style.left = (left + box.width > innerWidth - 8 ? event.clientX - box.width - 14 : left) + "px";
  tip.style.top = (top + box.height > innerHeight - 8 ? Math.max(8, event.clientY - box.height - 14) : top) + "px";
}
function hideTip() { tip.style.display = "none"; }
function hover(element, lines) {
  element.addEventListener("mousemove", event => showTip(event, typeof lines === "function" ? lines() : lines));
  element.addEventListener("mouseleave", hideTip);
  return element;
}
