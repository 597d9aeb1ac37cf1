// Elements and numbers. Text is always set as text: nothing of the cluster's becomes markup.

export function el(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "text", "title", "g"].includes(tag) && attributes.svg !== false;
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false || name === "svg") continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i += 1; }
  return `${n < 100 && i > 0 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

export const count = (n) => Math.round(n ?? 0).toLocaleString("en-US").replaceAll(",", "\u202f");

export function time(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${(seconds / 86400).toFixed(1)} d`;
}

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export const level = (status) => ({ HEALTH_OK: "ok", HEALTH_WARN: "warn", HEALTH_ERR: "err" })[status] ?? "";

export function meter(percent) {
  const bar = el("meter", { min: 0, max: 100, low: 85, high: 95, optimum: 0, value: percent });
  return el("span", {}, bar, ` ${percent.toFixed(1)} %`);
}

// A table that keeps its rows by key, so that an update changes only what differs, and can be sorted and
// filtered. Columns: { name, of: row => text or node, key: row => sortable, num, narrow, wide }.
export class Table {
  constructor(columns, sort = 0, down = false) {
    this.columns = columns;
    this.sort = sort;
    this.down = down;
    this.filter = "";
    this.rows = new Map();
    this.shown = new Map();
    this.body = el("tbody");
    this.heads = columns.map((column, i) => el("th", { class: this.kind(column), scope: "col" },
      column.key ? el("button", { onclick: () => this.sortBy(i) }, column.name) : column.name));
    this.count = el("span", { class: "soft", role: "status" });
    this.node = el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, this.heads)), this.body));
  }

  kind(column) {
    return [column.num && "num", column.narrow && "hide-narrow", column.wide && "wide"].filter(Boolean).join(" ") || undefined;
  }

  search(what) {
    return el("input", {
      type: "search", placeholder: `Filter ${what}`, "aria-label": `Filter ${what}`,
      oninput: (event) => { this.filter = event.target.value.toLowerCase(); this.order(); },
    });
  }

  sortBy(i) {
    this.down = this.sort === i && !this.down;
    this.sort = i;
    this.order();
  }

  // Takes what an endpoint says has changed.
  update(answer) {
    if (answer.whole) { this.rows.clear(); this.shown.clear(); }
    for (const key of answer.gone) { this.rows.delete(key); this.shown.delete(key); }
    for (const [key, row] of Object.entries(answer.rows)) { this.rows.set(key, row); this.shown.delete(key); }
    this.order();
  }

  order() {
    this.heads.forEach((head, i) =>
      head.setAttribute("aria-sort", i !== this.sort ? "none" : this.down ? "descending" : "ascending"));
    const key = this.columns[this.sort].key;
    const matches = (row) => !this.filter || JSON.stringify(Object.values(row)).toLowerCase().includes(this.filter);
    const rows = [...this.rows].filter(([, row]) => matches(row));
    const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0) * (this.down ? -1 : 1);
    rows.sort(([, a], [, b]) => order(key(a), key(b)));
    const limit = 300;
    this.body.replaceChildren(...rows.slice(0, limit).map(([id, row]) => this.line(id, row)));
    this.count.textContent = rows.length > limit
      ? `first ${limit} of ${rows.length}: filter to see others` : `${rows.length}`;
  }

  line(id, row) {
    let line = this.shown.get(id);
    if (!line) {
      line = el("tr", {}, this.columns.map((column) => el("td", { class: this.kind(column) }, column.of(row))));
      this.shown.set(id, line);
    }
    return line;
  }
}
