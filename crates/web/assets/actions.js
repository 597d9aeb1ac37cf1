// Actions: what one will do is shown, with the command that it is equal to, before it is done.

import { post } from "./api.js";
import { el } from "./dom.js";

let isAdministrator = false;
export const allow = (role) => { isAdministrator = role === "administrator"; };
export const allowed = () => isAdministrator;

const dialog = () => document.getElementById("dialog");

function show(title, ...content) {
  const box = dialog();
  box.replaceChildren(el("h2", { id: "dialog-title" }, title), ...content.filter(Boolean));
  if (!box.open) box.showModal();
}

const close = () => dialog().close();

// A button that leads to the question; nothing for those who may only look.
export function button(text, name, title, args, done) {
  if (!isAdministrator) return null;
  return el("button", { onclick: () => ask(name, title, args(), done) }, text);
}

export async function ask(name, title, args, done) {
  let plan;
  try {
    plan = await post("actions", { name, args, dry_run: true });
  } catch (error) {
    return show(title, el("p", { class: "err" }, error.message), el("div", { class: "row" }, el("button", { onclick: close }, "Close")));
  }
  const run = el("button", { class: "main" }, "Run");
  run.addEventListener("click", async () => {
    run.disabled = true;
    try {
      const answer = await post("actions", { name, args, command: plan.command });
      show(title, el("p", { class: "ok" }, "Done."), answer.output ? el("pre", {}, answer.output) : null,
        el("div", { class: "row" }, el("button", { class: "main", autofocus: true, onclick: close }, "Close")));
      done?.();
    } catch (error) {
      show(title, el("p", { class: "err" }, error.message), el("div", { class: "row" }, el("button", { onclick: close }, "Close")));
    }
  });
  show(title, el("p", {}, plan.effect), el("p", { class: "soft" }, "The same as:"), el("pre", {}, plan.command),
    el("div", { class: "row" }, run, el("button", { autofocus: true, onclick: close }, "Cancel")));
}
