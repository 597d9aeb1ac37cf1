// The pages. Each is { title, start(main) → update() }: update is called every few seconds while it is shown.

import { get } from "./api.js";
import { button } from "./actions.js";
import { chart } from "./chart.js";
import { bytes, count, el, level, meter, sentence, Table, time } from "./dom.js";
import { filesystems } from "./filesystems.js";
import { hosts } from "./hosts.js";

const card = (title, ...content) => el("section", { class: "card" }, el("h2", {}, title), ...content);

function recovery(r) {
  const wrong = r.degraded + r.misplaced;
  if (!wrong && !r.unfound) return card("Recovery", el("p", { class: "ok" }, "All copies are where they should be."));
  const part = (n) => `${count(n)} (${(100 * n / Math.max(1, r.copies)).toFixed(2)} %)`;
  return card("Recovery",
    el("p", {}, `${part(r.degraded)} copies lack, ${part(r.misplaced)} lie elsewhere`),
    r.unfound ? el("p", { class: "err" }, `${count(r.unfound)} objects unfound`) : null,
    el("p", {}, r.objects_per_s
      ? `${bytes(r.bytes_per_s)}/s, ${count(r.objects_per_s)} objects/s; ${time(r.seconds_left)} left`
      : "Nothing is being recovered now."));
}

const states = (list) => el("ul", {}, list.map((s) =>
  el("li", { class: s.state_name === "active+clean" ? "ok" : "warn" }, `${count(s.count)} ${s.state_name}`)));

function overview(main) {
  const top = el("div", { class: "cards" }), charts = el("div", { class: "cards" });
  const problems = el("div");
  main.replaceChildren(el("h1", {}, "Overview"), top, problems, charts);
  return async () => {
    const [s, health] = await Promise.all([get("summary"), get("health")]);
    const line = (n, what, bad) => el("p", { class: bad ? "warn" : undefined }, `${n} ${what}`);
    top.replaceChildren(
      card("Health", el("p", { class: `big ${level(s.health)}` }, s.health), el("a", { href: "#health" }, s.checks === 1 ? "1 check raised" : `${s.checks} checks raised`)),
      card("Daemons",
        line(`${s.mons.in_quorum} of ${s.mons.all}`, "monitors in quorum", s.mons.in_quorum < s.mons.all),
        line(`${s.osds.up} of ${s.osds.all}`, "OSDs up", s.osds.up < s.osds.all),
        line(`${s.osds.in} of ${s.osds.all}`, "OSDs in", s.osds.in < s.osds.all)),
      card("Space", el("p", { class: "big" }, `${bytes(s.used_bytes)} of ${bytes(s.total_bytes)}`),
        meter(100 * s.used_bytes / Math.max(1, s.total_bytes)),
        el("p", { class: "soft" }, `${count(s.objects)} objects with ${bytes(s.stored_bytes)}`)),
      card(`${count(s.pgs)} PGs in ${s.pools} pools`, states(s.pgs_by_state)),
      recovery(s.recovery));
    problems.replaceChildren(...health.checks.map((check) => el("p", { class: level(check.severity) }, `${check.code}: ${check.summary}`)));
    const at = s.samples.map((row) => row[0]);
    const column = (name) => s.samples.map((row) => row[s.sample_fields.indexOf(name)]);
    const rate = (n) => `${bytes(n)}/s`, ops = (n) => `${count(n)}/s`, ms = (n) => `${n < 10 ? +n.toFixed(1) : Math.round(n)} ms`;
    charts.replaceChildren(
      chart("Throughput", at, ["read_bytes", "write_bytes", "recovery_bytes"].map(column), ["read", "written", "recovery"], rate),
      chart("Operations", at, ["read_ops", "write_ops"].map(column), ["reads", "writes"], ops),
      chart("Commit latency of OSDs", at, ["commit_ms_p50", "commit_ms_p99", "commit_ms_max"].map(column), ["median", "99 %", "worst"], ms));
  };
}

function health(main) {
  const list = el("div", { class: "cards" });
  main.replaceChildren(el("h1", {}, "Health"), list);
  const update = async () => {
    const h = await get("health");
    if (!h.checks.length) return list.replaceChildren(el("p", { class: "ok big" }, "Nothing is wrong."));
    list.replaceChildren(...h.checks.map((c) => card(c.code,
      el("p", { class: level(c.severity) }, c.summary, c.muted ? " (muted)" : ""),
      el("h2", {}, "Cause"), el("pre", {}, c.cause.join("\n") || c.summary),
      el("h2", {}, "Effect"), el("p", {}, sentence(c.effect ?? "unknown")),
      el("h2", {}, "To do"), el("p", {}, sentence(c.to_do ?? "see `ceph health detail`")),
      el("div", { class: "row" }, c.muted
        ? button("Unmute", "health-unmute", `Unmute ${c.code}`, () => ({ code: c.code }), update)
        : button("Mute for 4 hours", "health-mute", `Mute ${c.code}`, () => ({ code: c.code, ttl: "4h" }), update)))));
  };
  return update;
}

// A page that is one long list.
function list(title, path, what, columns) {
  return (main) => {
    const table = new Table(columns(() => update()));
    main.replaceChildren(el("h1", {}, title), el("div", { class: "tools" }, table.search(what), table.count), table.node);
    let version = 0;
    const update = async () => {
      const answer = await get(`${path}?since=${version}`);
      version = answer.version;
      table.update(answer);
    };
    return update;
  };
}

const osds = list("OSDs", "osds", "OSDs", (update) => [
  { name: "OSD", num: true, key: (o) => o.id, of: (o) => `${o.id}` },
  { name: "Host", key: (o) => o.host ?? "", of: (o) => o.host ?? "" },
  { name: "State", key: (o) => `${o.up}${o.in}`, of: (o) => el("span", { class: o.up && o.in ? "ok" : "err" }, `${o.up ? "up" : "down"}, ${o.in ? "in" : "out"}`) },
  { name: "Class", narrow: true, key: (o) => o.class ?? "", of: (o) => o.class ?? "" },
  { name: "Space", num: true, key: (o) => o.bytes, of: (o) => bytes(o.bytes) },
  { name: "Used", key: (o) => o.used_percent, of: (o) => meter(o.used_percent) },
  { name: "PGs", num: true, key: (o) => o.pgs, of: (o) => `${o.pgs}` },
  { name: "Commit", num: true, key: (o) => o.commit_ms, of: (o) => `${o.commit_ms} ms` },
  { name: "Slow requests", num: true, key: (o) => o.slow_ops, of: (o) => el("span", { class: o.slow_ops ? "warn" : undefined }, `${o.slow_ops}`) },
  { name: "Disk", narrow: true, of: (o) => o.device },
  { name: "", of: (o) => el("span", {},
    o.in ? button("Out", "osd-out", `Mark osd.${o.id} out`, () => ({ osd: `${o.id}` }), update)
      : button("In", "osd-in", `Mark osd.${o.id} in`, () => ({ osd: `${o.id}` }), update),
    " ", button("Scrub", "osd-scrub", `Scrub osd.${o.id}`, () => ({ osd: `${o.id}` }))) },
]);

const pools = list("Pools", "pools", "pools", () => [
  { name: "Pool", key: (p) => p.name, of: (p) => p.name },
  { name: "Id", num: true, key: (p) => p.id, of: (p) => `${p.id}` },
  { name: "Copies", num: true, key: (p) => p.size, of: (p) => `${p.size} (${p.min_size} to write)` },
  { name: "Stored", num: true, key: (p) => p.stored_bytes, of: (p) => bytes(p.stored_bytes) },
  { name: "Objects", num: true, key: (p) => p.objects, of: (p) => count(p.objects) },
  { name: "Used", key: (p) => p.used_percent, of: (p) => meter(p.used_percent) },
  { name: "Free", num: true, key: (p) => p.max_avail_bytes, of: (p) => bytes(p.max_avail_bytes) },
  { name: "PGs", num: true, key: (p) => p.pg_num, of: (p) => `${p.pg_num}` },
  { name: "States", narrow: true, of: (p) => Object.entries(p.pg_states ?? {}).map(([s, n]) => `${n} ${s}`).join(", ") },
  { name: "Uses", narrow: true, of: (p) => p.uses.join(", ") },
]);

function monitors(main) {
  const body = el("div", { class: "cards" });
  main.replaceChildren(el("h1", {}, "Monitors"), body);
  return async () => {
    const m = await get("monitors");
    body.replaceChildren(
      ...m.monitors.map((mon) => card(`mon.${mon.name}`,
        el("p", { class: mon.in_quorum ? "ok" : "err" }, mon.leads ? "leads" : mon.in_quorum ? "in quorum" : "out of quorum"),
        el("p", {}, `${mon.addr}, host ${mon.host ?? "unknown"}`), el("p", { class: "soft" }, mon.version ?? ""))),
      card("Managers", el("p", {}, m.managers.active ? `mgr.${m.managers.active} is active` : "none is active"),
        el("p", { class: "soft" }, m.managers.standbys.map((name) => `mgr.${name}`).join(", "))));
  };
}

function flags(main) {
  const body = el("div", { class: "cards" });
  main.replaceChildren(el("h1", {}, "Flags"), el("p", {}, "Each stops something in all OSDs until it is unset."), body);
  const update = async () => {
    const [actions, s] = await Promise.all([get("actions"), get("summary")]);
    body.replaceChildren(...Object.entries(actions.flags).map(([name, does]) => {
      const set = s.flags.includes(name);
      return card(name, el("p", { class: set ? "warn" : "soft" }, set ? "set" : "not set"), el("p", {}, `While it is set: ${does}.`),
        button(set ? "Unset" : "Set", set ? "flag-unset" : "flag-set", `${set ? "Unset" : "Set"} ${name}`, () => ({ flag: name }), update));
    }));
  };
  return update;
}

function log(main) {
  const body = el("div", { class: "card log", tabindex: 0, "aria-live": "polite" });
  main.replaceChildren(el("h1", {}, "Cluster log"), body);
  let last = "";
  return async () => {
    const { lines } = await get(`log?after=${encodeURIComponent(last)}`);
    const below = body.scrollHeight - body.scrollTop - body.clientHeight < 40;
    const kind = { "[WRN]": "warn", "[ERR]": "err" };
    body.append(...lines.map((line) => el("p", { class: kind[line.priority] }, `${line.at}  ${line.who}  ${line.priority}  ${line.text}`)));
    while (body.childElementCount > 1000) body.firstChild.remove();
    if (lines.length) last = lines.at(-1).key;
    if (below) body.scrollTop = body.scrollHeight;
  };
}

export const views = {
  overview: ["Overview", overview], health: ["Health", health], hosts: ["Hosts", hosts], osds: ["OSDs", osds],
  pools: ["Pools", pools], filesystems: ["File systems", filesystems], monitors: ["Monitors", monitors],
  flags: ["Flags", flags], log: ["Log", log],
};
