// Log-in, the navigation, and the clock that updates the page that is shown.

import { allow } from "./actions.js";
import { get, post } from "./api.js";
import { el, level } from "./dom.js";
import { views } from "./views.js";

const PERIOD_MS = 5000;
const main = document.getElementById("main"), nav = document.getElementById("nav");
const status = document.getElementById("status"), stale = document.getElementById("stale");
let update = null, timer = 0, shown = "";

function logIn(text = "") {
  stop();
  nav.hidden = true;
  status.textContent = "";
  document.getElementById("who").replaceChildren();
  const name = el("input", { name: "username", autocomplete: "username", required: true });
  const password = el("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const error = el("p", { class: "err", role: "alert" }, text);
  const form = el("form", { class: "card", onsubmit: async (event) => {
    event.preventDefault();
    try {
      begin(await post("auth", { username: name.value, password: password.value }));
    } catch (failed) {
      error.textContent = failed.message;
      password.value = "";
      password.focus();
    }
  } }, el("h1", {}, "Log in"), el("label", {}, "Name", name), el("label", {}, "Password", password), error,
  el("button", { class: "main" }, "Log in"));
  main.replaceChildren(form);
  name.focus();
}

function begin(user) {
  allow(user.role);
  nav.hidden = false;
  nav.replaceChildren(...Object.entries(views).map(([name, [title]]) => el("a", { href: `#${name}` }, title)));
  const end = async () => { await post("auth/logout", {}).catch(() => {}); logIn(); };
  document.getElementById("who").replaceChildren(`${user.username} (${user.role}) `, el("button", { onclick: end }, "Log out"));
  shown = "";
  show();
}

function stop() {
  clearTimeout(timer);
  update = null;
}

async function tick() {
  clearTimeout(timer);
  const current = update;
  if (!current) return;
  try {
    await current();
    const summary = shown === "overview" || shown === "health" ? null : await get("summary");
    if (summary) badge(summary.health);
    else badge((await get("health")).status);
    stale.hidden = true;
  } catch (failed) {
    if (failed.status === 401) return logIn("The session has ended: log in again.");
    stale.textContent = `Not up to date: ${failed.message}`;
    stale.hidden = false;
  }
  if (update === current) timer = setTimeout(tick, document.hidden ? 6 * PERIOD_MS : PERIOD_MS);
}

function badge(text) {
  status.textContent = text;
  status.className = `badge ${level(text)}`;
}

function show() {
  const wanted = location.hash.slice(1), name = views[wanted] ? wanted : "overview";
  if (nav.hidden || name === shown || wanted === "main") return;
  stop();
  shown = name;
  const [title, start] = views[name];
  document.title = `${title} – Nacre`;
  for (const link of nav.children) {
    if (link.getAttribute("href") === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  update = start(main);
  tick();
}

addEventListener("hashchange", () => { show(); main.focus(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) tick(); });

get("session").then(begin, (failed) => logIn(failed.status === 401 ? "" : failed.message));
