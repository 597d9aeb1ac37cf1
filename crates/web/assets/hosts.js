// The page of hosts: what they have, and charts of what is used of them beside what clients get for it.

import { get } from "./api.js";
import { chart } from "./chart.js";
import { bytes, count, el, meter, Table } from "./dom.js";

const rate = (pair) => (pair ? `${bytes(pair[0] + pair[1])}/s` : "");
const sum = (pair) => (pair ? pair[0] + pair[1] : -1);
const cores = (n) => `${+n.toFixed(1)}`;

const columns = [
  { name: "Host", of: (h) => h.name, key: (h) => h.name },
  { name: "OSDs up", num: true, key: (h) => h.osds_up - h.osds, of: (h) => el("span", { class: h.osds_up < h.osds ? "err" : undefined }, `${h.osds_up} of ${h.osds}`) },
  { name: "Space", num: true, key: (h) => h.bytes, of: (h) => bytes(h.bytes) },
  { name: "Used", key: (h) => h.used_percent, of: (h) => meter(h.used_percent) },
  { name: "PGs", num: true, key: (h) => h.pgs, of: (h) => count(h.pgs) },
  { name: "Cores", num: true, key: (h) => (h.cores ? h.cores[0] : -1), of: (h) => (h.cores ? `${cores(h.cores[0])} of ${cores(h.cores[1])}` : "") },
  { name: "Clients", num: true, key: (h) => sum(h.client_bytes_per_s), of: (h) => rate(h.client_bytes_per_s) },
  { name: "Network", num: true, key: (h) => sum(h.net_bytes_per_s), of: (h) => rate(h.net_bytes_per_s) },
  { name: "Disks", num: true, key: (h) => sum(h.disk_bytes_per_s), of: (h) => rate(h.disk_bytes_per_s) },
  { name: "Other daemons", narrow: true, of: (h) => h.daemons.join(", ") },
  { name: "Memory", num: true, narrow: true, key: (h) => h.memory_bytes, of: (h) => (h.memory_bytes ? bytes(h.memory_bytes) : "") },
  { name: "System", narrow: true, of: (h) => h.system },
];

// How many bytes of others there are for each byte of clients, over the time that is charted.
function overhead(what, payload, others) {
  const all = (values) => values.reduce((a, b) => a + b, 0), whole = all(payload);
  if (!whole) return `Clients ${what} nothing.`;
  return `For each byte that clients ${what} ${others.map(([values, text]) => `${(all(values) / whole).toFixed(1)} ${text}`).join(", ")}.`;
}

function charts(usage) {
  const column = (name) => usage.samples.map((row) => row[usage.sample_fields.indexOf(name)]);
  const [at, read, written, received, sent, from_disk, to_disk, ops, used, all] = ["at", "client_read_bytes", "client_written_bytes",
    "net_in_bytes", "net_out_bytes", "disk_read_bytes", "disk_written_bytes", "ops", "osd_cores", "cores_used"].map(column);
  const both = read.map((n, i) => n + written[i]);
  // Of less than one in a second the time is that of other work.
  const operation = ops.map((n, i) => (n >= 1 ? (1e6 * used[i]) / n : 0));
  const per_s = (n) => `${bytes(n)}/s`, us = (n) => `${count(n)} µs`;
  const noted = (card, text) => { card.append(el("p", { class: "soft" }, text)); return card; };
  return [
    noted(chart("Network", at, [both, received, sent], ["of clients", "received", "sent"], per_s),
      overhead("read and wrote", both, [[received, "were received"], [sent, "were sent"]])),
    noted(chart("Disks, written", at, [written, to_disk], ["by clients", "to disks"], per_s), overhead("wrote", written, [[to_disk, "went to disks"]])),
    noted(chart("Disks, read", at, [read, from_disk], ["by clients", "from disks"], per_s), overhead("read", read, [[from_disk, "came from disks"]])),
    noted(chart("Cores in use", at, [all, used], ["host", "OSDs"], cores), `Of ${cores(column("cores").at(-1) ?? 0)}.`),
    noted(chart("Processor time of an operation", at, [operation], ["OSDs"], us), `${count(ops.at(-1) ?? 0)} operations/s.`),
  ];
}

export function hosts(main) {
  const table = new Table(columns), graphs = el("div", { class: "cards charts" });
  const pick = el("select", { "aria-label": "Host that is charted", onchange: () => update() }, el("option", { value: "" }, "All hosts"));
  main.replaceChildren(el("h1", {}, "Hosts"), el("div", { class: "tools" }, pick), graphs,
    el("div", { class: "tools" }, table.search("hosts"), table.count), table.node);
  let version = 0;
  const update = async () => {
    const [answer, usage] = await Promise.all([get(`hosts?since=${version}`), get(`hosts/usage?host=${encodeURIComponent(pick.value)}`)]);
    version = answer.version;
    table.update(answer);
    const known = [...pick.options].slice(1).map((option) => option.value);
    if (known.join() !== usage.hosts.join()) {
      const chosen = pick.value;
      pick.replaceChildren(el("option", { value: "" }, "All hosts"), ...usage.hosts.map((name) => el("option", { value: name }, name)));
      pick.value = usage.hosts.includes(chosen) ? chosen : "";
    }
    graphs.replaceChildren(...charts(usage));
  };
  return update;
}
