// The page of file systems: ranks, and what their servers say of clients and directories while it is shown.

import { button } from "./actions.js";
import { get } from "./api.js";
import { bytes, count, el, Table } from "./dom.js";

const rate = (n) => (n < 10 ? `${+n.toFixed(1)}` : count(n));
const ranks = (row) => row.ranks.join(", ");

const mounted = (c) => el("span", {}, c.root || "/", c.mount_point ? el("span", { class: "soft" }, ` at ${c.mount_point}`) : null);

const clientColumns = (update) => [
  { name: "Client", key: (c) => c.name, of: (c) => el("span", {}, c.name, el("span", { class: "soft" }, ` ${c.id}`)) },
  { name: "Host", key: (c) => c.host, of: (c) => c.host },
  { name: "Address", narrow: true, key: (c) => c.addr, of: (c) => c.addr },
  { name: "Mounted", key: (c) => c.root, of: mounted },
  { name: "Kind", narrow: true, key: (c) => c.kind, of: (c) => c.kind },
  { name: "Capabilities", num: true, key: (c) => c.caps, of: (c) => count(c.caps) },
  { name: "Requests/s", num: true, key: (c) => c.requests_per_s, of: (c) => rate(c.requests_per_s) },
  { name: "Ranks", narrow: true, of: ranks },
  { name: "State", key: (c) => c.state, of: (c) => el("span", { class: c.state === "open" ? "ok" : "warn" }, c.state) },
  { name: "", of: (c) => button("Evict", "client-evict", `Evict ${c.name} ${c.id} of ${c.host || c.addr}`, () => ({ mds: c.server, client: `${c.id}` }), update) },
];
const sizeColumns = [
  { name: "Largest directories", key: (d) => d.path, of: (d) => d.path, wide: true },
  { name: "Bytes", num: true, key: (d) => d.rbytes, of: (d) => bytes(d.rbytes) },
  { name: "Files", num: true, key: (d) => d.rfiles, of: (d) => count(d.rfiles) },
  { name: "Ranks", narrow: true, of: ranks },
];
const loadColumns = [
  { name: "Busiest directories", key: (d) => d.path, of: (d) => d.path, wide: true },
  { name: "Load", num: true, key: (d) => d.pop_auth_subtree, of: (d) => rate(d.pop_auth_subtree) },
  { name: "directly", num: true, narrow: true, key: (d) => d.pop_me, of: (d) => rate(d.pop_me) },
  { name: "Ranks", narrow: true, of: ranks },
];

// What is shown of one file system. It stays over updates, with what was typed and sorted.
class FileSystem {
  constructor(update) {
    this.update = update;
    this.title = el("h2");
    this.ranks = el("div");
    this.clients = new Table(clientColumns(update), 6, true);
    this.bySize = new Table(sizeColumns, 1, true);
    this.byLoad = new Table(loadColumns, 1, true);
    this.more = el("p", { class: "soft" });
    this.notes = el("div");
    this.clientCount = el("h3");
    this.node = el("section", { class: "fs" }, this.title, this.ranks, this.notes, this.clientCount,
      el("div", { class: "tools" }, this.clients.search("clients"), this.clients.count), this.clients.node, this.more,
      el("div", { class: "cards wide" }, this.bySize.node, this.byLoad.node));
  }

  showRanks(fs) {
    const fail = (m) => button("Fail", "mds-fail", `Let another server take over from mds.${m.name}`, () => ({ mds: m.name }), this.update);
    this.title.textContent = fs.name;
    this.ranks.replaceChildren(
      el("p", { class: "soft" }, `max_mds ${fs.max_mds}; metadata in ${fs.metadata_pool}, data in ${fs.data_pools.join(", ")}`),
      ...[["damaged", fs.damaged], ["failed", fs.failed]].filter(([, list]) => list.length)
        .map(([what, list]) => el("p", { class: "err" }, `${what} ranks: ${list.join(", ")}`)),
      servers(fs.servers, (m) => m.rank >= 0 && fail(m)));
  }

  showClients(answer, fs) {
    const own = ([key]) => key.startsWith(`${fs.id}/`);
    this.clients.update({
      whole: answer.whole, gone: answer.gone.filter((key) => own([key])),
      rows: Object.fromEntries(Object.entries(answer.rows).filter(own)),
    });
    this.clientCount.textContent = fs.clients === 1 ? "1 client" : `${count(fs.clients)} clients`;
    this.more.textContent = fs.more ? `and ${count(fs.more)} more, which ask for less` : "";
    this.notes.replaceChildren(...fs.unanswered.map((u) => el("p", { class: "warn" }, `Rank ${u.rank} does not say what it does: ${u.why}`)));
  }

  showDirectories(fs) {
    for (const [table, list] of [[this.bySize, fs.by_size], [this.byLoad, fs.by_load]]) {
      table.update({ whole: true, gone: [], rows: Object.fromEntries(list.map((d) => [d.path, d])) });
    }
  }
}

function servers(list, more) {
  const row = (m) => el("tr", {}, el("td", { class: "num" }, m.rank >= 0 ? `${m.rank}` : ""), el("td", {}, m.name),
    el("td", { class: m.state === "up:active" || m.rank < 0 ? "ok" : "warn" }, m.state), el("td", {}, m.host ?? ""), el("td", {}, more(m)));
  const names = ["Rank", "Server", "State", "Host", ""];
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, list.map(row))));
}

export function filesystems(main) {
  const body = el("div"), standbys = el("section", { class: "card" }), shown = new Map();
  let version = 0;
  main.replaceChildren(el("h1", {}, "File systems"), body, standbys);
  const update = async () => {
    const [all, clients, directories] = await Promise.all([get("filesystems"), get(`clients?since=${version}`), get("directories")]);
    version = clients.version;
    for (const id of shown.keys()) if (!all.filesystems.some((fs) => fs.id === id)) shown.delete(id);
    for (const fs of all.filesystems) {
      if (!shown.has(fs.id)) shown.set(fs.id, new FileSystem(update));
      const view = shown.get(fs.id), of = (list) => list.find((one) => one.id === fs.id);
      view.showRanks(fs);
      if (of(clients.filesystems)) view.showClients(clients, of(clients.filesystems));
      if (of(directories.filesystems)) view.showDirectories(of(directories.filesystems));
    }
    const nodes = [...shown.values()].map((view) => view.node);
    // Moving a node would take the focus from what is being typed in it.
    if (nodes.length !== body.children.length || nodes.some((node, i) => node !== body.children[i])) {
      body.replaceChildren(...(nodes.length ? nodes : [el("p", {}, "There is no file system: ceph fs volume create NAME")]));
    }
    standbys.replaceChildren(el("h2", {}, "Standbys"), all.standbys.length ? servers(all.standbys, () => null) : el("p", {}, "none"));
  };
  return update;
}
