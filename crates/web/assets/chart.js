// Lines over time, as SVG.

import { el } from "./dom.js";

const WIDTH = 400, HEIGHT = 120, LEFT = 62, BOTTOM = 16, TOP = 6;

// `lines`: arrays of numbers of the same length as `times`; `names` of the lines; `unit` makes text of a number.
export function chart(title, times, lines, names, unit) {
  const most = Math.max(1e-9, ...lines.flat());
  const [first, last] = [times[0] ?? 0, times.at(-1) ?? 1];
  const x = (at) => LEFT + (WIDTH - LEFT - 4) * (last > first ? (at - first) / (last - first) : 1);
  const y = (value) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value / most);
  const path = (values) => values.map((v, i) => `${i ? "L" : "M"}${x(times[i]).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  const minutes = Math.round((last - first) / 60);
  const now = names.map((name, i) => `${name} ${unit(lines[i].at(-1) ?? 0)}`).join(", ");
  return el("div", { class: "card" },
    el("h2", {}, title),
    el("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${now}` },
      [0, 0.5, 1].map((part) => el("g", {},
        el("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: y(most * part), y2: y(most * part) }),
        el("text", { x: LEFT - 4, y: y(most * part) + 4, "text-anchor": "end" }, unit(most * part)))),
      el("text", { x: LEFT, y: HEIGHT - 2 }, minutes > 0 ? `${minutes} min ago` : ""),
      el("text", { x: WIDTH - 2, y: HEIGHT - 2, "text-anchor": "end" }, "now"),
      lines.map((values, i) => el("path", { class: `l${i}`, d: path(values) }))),
    el("div", { class: "key soft" }, names.map((name, i) => el("span", { class: `k${i}` }, `${name} ${unit(lines[i].at(-1) ?? 0)}`))));
}
