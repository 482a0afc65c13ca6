// An architecture as a block diagram: memories from DRAM inwards, the array of PEs, and one PE opened.

function roundBox(x, y, width, height, fill, stroke, dash) {
  return svg("rect", { x, y, width, height, rx: 6, fill, stroke, "stroke-width": 1.4, "stroke-dasharray": dash || null });
}

function boxText(x, y, lines, bold = 1) {
  return lines.filter(line => line).map((line, k) => svg("text", { x, y: y + k * 16, "text-anchor": "middle", class: k < bold ? "name" : "small", "font-weight": k < bold ? 600 : 400 }, line));
}

// Lines broken at spaces so that none is wider than a box; the first is bold, and so are the lines that it becomes.
function wrapped(lines, width) {
  const parts = lines.filter(line => line).map((line, k) => {
    const room = Math.max(6, Math.floor((width - 10) / (k ? 6.4 : 8))), rows = [];
    line.replace(/([\d×]) (?=[\dA-Za-zµ])/g, "$1\u00a0").split(" ").forEach(word => rows.length && (rows[rows.length - 1] + " " + word).length <= room ? rows[rows.length - 1] += " " + word : rows.push(word));
    return rows;
  });
  return { lines: parts.flat(), bold: parts[0].length };
}

const keeps = level => level.keep.length >= 3 ? "all tensors" : level.keep.join(", ") + (level.keep.length === 1 ? "s" : "");

// What a level is, a line each.
function levelLines(level, many = false) {
  const kind = level.kind === "dram" ? "DRAM" : level.kind === "sram" ? "SRAM" : "registers";
  return [
    level.name + (level.name.toLowerCase() === kind.toLowerCase() ? "" : " (" + kind + ")") + (many ? " × " + level.instances : ""),
    level.capacity_bytes === null ? (level.kind === "dram" ? "off chip" : "unbounded") : bytes(level.capacity_bytes) + (level.banks > 1 ? " in " + level.banks + " banks" : ""),
    bandwidthText(level),
    level.kind === "dram" ? "" : keeps(level),
  ];
}

// Where the array is: the largest fan-out; levels before it stand in a row, those after it are in every PE.
function drawArchitecture(holder, architecture, colours) {
  const levels = architecture.levels, sizes = levels.map(v => v.fanout[0] * v.fanout[1]);
  const array = sizes.indexOf(Math.max(...sizes)), outer = levels.slice(0, array + 1), inner = levels.slice(array + 1);
  const boxWidth = Math.min(176, (outer.length > 3 ? 640 : 560) / outer.length - 34);
  const texts = outer.map(level => wrapped(levelLines(level, level.instances > 1), boxWidth)), boxHeight = Math.max(118, 38 + 16 * Math.max(...texts.map(text => text.lines.length)));
  const width = 1180, height = 320, root = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart wide drawing", role: "img", "aria-label": "block diagram of the accelerator" });
  let x = 12;
  const chipLeft = x + boxWidth + 18;
  root.append(svg("rect", { x: chipLeft, y: 10, width: width - chipLeft - 8, height: height - 20, rx: 10, fill: "#fafbfd", stroke: "#aab3c2", "stroke-dasharray": "6 4" }),
    svg("text", { x: chipLeft + 14, y: 32, class: "small" }, "chip, " + (architecture.area_mm2 === null ? "area not given" : digits(architecture.area_mm2) + " mm²") + ", " + (architecture.technology || "no technology named") + (architecture.provenance ? " (area " + architecture.provenance.area + ", energy " + architecture.provenance.energy + ")" : "") + ", " + si(architecture.clock_hz, "Hz")));
  outer.forEach((level, k) => {
    const top = 160 - boxHeight / 2, colour = colours(level.name);
    const group = svg("g", {}, roundBox(x, top, boxWidth, boxHeight, colour + "1c", colour));
    if (level.banks > 1) for (let b = 1; b < Math.min(level.banks, 32); b++) group.append(svg("line", { x1: x + b * boxWidth / Math.min(level.banks, 32), x2: x + b * boxWidth / Math.min(level.banks, 32), y1: top + boxHeight - 14, y2: top + boxHeight, stroke: colour, opacity: 0.7 }));
    group.append(...boxText(x + boxWidth / 2, top + 26, texts[k].lines, texts[k].bold));
    root.append(hover(group, [...levelLines(level), level.area_mm2 ? digits(level.area_mm2) + " mm² in all" : "", level.read_pj === null ? "" : digits(level.read_pj) + " pJ per read of " + level.word_bits + " bits"]));
    const gap = k === outer.length - 1 ? 46 : 34;
    root.append(arrow(x + boxWidth + 4, 160, x + boxWidth + gap - 5, 160));
    x += boxWidth + gap;
  });
  const [columns, rows] = levels[array].fanout, links = levels[array].links, side = 216;
  drawArray(root, x, 160 - side / 2, side, columns, rows, links, colours("MAC"));
  root.append(...boxText(x + side / 2, 160 + side / 2 + 20, [`${rows} × ${columns} ${inner.length ? "PEs" : "MACs"}${levels[array].instances > 1 ? " each" : ""}, ${linkWords(links)}`]));
  drawElement(root, x + side + 60, architecture, array, inner, colours);
  root.append(svg("line", { x1: x + side, y1: 160 - side / 2, x2: x + side + 60, y2: 64, stroke: "#8d97a8", "stroke-dasharray": "3 3" }), svg("line", { x1: x + side, y1: 160 - side / 2 + 14, x2: x + side + 60, y2: 262, stroke: "#8d97a8", "stroke-dasharray": "3 3" }));
  holder.replaceChildren(root);
}

const linkWords = links => ({ none: "one word a PE", systolic: "systolic links", multicast: "multicast bus", peer: "bus and peer links" })[links] || links;

function arrow(x1, y1, x2, y2) {
  return svg("path", { d: `M${x1} ${y1}H${x2}M${x1 + 6} ${y1 - 5}L${x1} ${y1}L${x1 + 6} ${y1 + 5}M${x2 - 6} ${y2 - 5}L${x2} ${y2}L${x2 - 6} ${y2 + 5}`, fill: "none", stroke: "#5b6475", "stroke-width": 1.6 });
}

// The array, every PE a square; large ones in proportion, so that 4 x 64 looks different from 64 x 4.
function drawArray(root, left, top, side, columns, rows, links, colour) {
  const pitch = side / Math.max(columns, rows), size = pitch * (pitch > 8 ? 0.66 : 0.78), x0 = left + (side - pitch * columns) / 2, y0 = top + (side - pitch * rows) / 2;
  const group = svg("g", {});
  group.append(svg("rect", { x: left, y: top, width: side, height: side, fill: "white", stroke: "#dfe4ec", rx: 4 }));
  const wires = [];
  if (pitch > 5 && links !== "none") for (let r = 0; r < rows; r++) wires.push(`M${x0 + pitch / 2} ${y0 + (r + 0.5) * pitch}H${x0 + (columns - 0.5) * pitch}`);
  if (pitch > 5 && links === "systolic") for (let c = 0; c < columns; c++) wires.push(`M${x0 + (c + 0.5) * pitch} ${y0 + pitch / 2}V${y0 + (rows - 0.5) * pitch}`);
  group.append(svg("path", { d: wires.join("") || "M0 0", stroke: "#9aa4b5", "stroke-width": Math.min(1.4, pitch / 8), fill: "none" }));
  const cells = [];
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) { const x = x0 + c * pitch + (pitch - size) / 2, y = y0 + r * pitch + (pitch - size) / 2; cells.push(`M${x.toFixed(1)} ${y.toFixed(1)}h${size.toFixed(2)}v${size.toFixed(2)}h${(-size).toFixed(2)}Z`); }
  group.append(svg("path", { d: cells.join(""), fill: colour, opacity: 0.85 }));
  root.append(group);
}

// One PE opened: its memories and its MACs.
function drawElement(root, left, architecture, array, inner, colours) {
  const width = Math.min(1180 - left - 24, 280), top = 64, height = 198;
  const macs = inner.reduce((product, level) => product * level.fanout[0] * level.fanout[1], 1);
  root.append(roundBox(left, top, width, height, "white", "#5b6475"), svg("text", { x: left + 12, y: top + 20, class: "small" }, inner.length ? "one PE" : "one MAC unit"));
  const slots = inner.length + 1, slot = (height - 36) / slots;
  inner.forEach((level, k) => {
    const colour = colours(level.name), y = top + 30 + k * slot, lines = levelLines(level);
    root.append(hover(svg("g", {}, roundBox(left + 14, y, width - 28, slot - 10, colour + "1c", colour), ...boxText(left + width / 2, y + slot / 2 - (slot > 60 ? 12 : 0), slot > 60 ? [lines[0], lines[1] + " · " + lines[3], lines[2]] : [lines[0] + " · " + lines[1]], slot > 60 || (lines[0] + " · " + lines[1]).length * 8 < width - 34 ? 1 : 0)),
      [...lines, level.area_mm2 ? digits(level.area_mm2) + " mm² in all" : "", level.read_pj === null ? "" : digits(level.read_pj) + " pJ per read of " + level.word_bits + " bits"]));
  });
  const y = top + 30 + inner.length * slot, colour = colours("MAC"), mac = architecture.mac, macLines = [count(macs) + " × MAC, " + mac.bits + " bits", mac.energy_pj === null ? "" : digits(mac.energy_pj) + " pJ each"];
  root.append(svg("g", {}, roundBox(left + 14, y, width - 28, slot - 10, colour + "1c", colour), ...boxText(left + width / 2, y + slot / 2 - (slot > 44 ? 8 : 1), slot > 44 ? macLines : [macLines.filter(line => line).join(" · ")], slot > 44 ? 1 : 0)));
}
