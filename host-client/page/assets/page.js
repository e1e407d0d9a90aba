// The pages work without this script. It signs in with the token of the address, moves by keyboard, and keeps views up to date.
"use strict";
const form = document.getElementById("sign-in");
if (form && location.hash.length > 1) {
  form.elements.token.value = location.hash.slice(1);
  // Neither the history nor a copied address keeps the token.
  history.replaceState(null, "", location.pathname);
  form.submit();
}
addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const move = (step) => {
    const items = [...document.querySelectorAll("[data-item]")];
    const at = items.indexOf(document.activeElement);
    items[Math.max(0, Math.min(items.length - 1, at + step))]?.focus();
  };
  // The buttons are focused, not pressed: a decision takes Enter.
  const here = document.activeElement.closest("article, details") ?? document;
  const actions = {
    j: () => move(1),
    k: () => move(-1),
    a: () => here.querySelector("[data-approve]")?.focus(),
    d: () => here.querySelector("[data-deny]")?.focus(),
    "/": () => document.querySelector("[data-search]")?.focus(),
  };
  if (!Object.hasOwn(actions, event.key)) return;
  event.preventDefault();
  actions[event.key]();
});
const openTarget = () => {
  const target = document.getElementById(location.hash.slice(1));
  const details = target?.closest("details");
  if (details) details.open = true;
};
addEventListener("hashchange", openTarget);
openTarget();

// A form is never replaced, nor what is before it moved: a click or Enter decides about what the person saw.
const decides = (part) => part.querySelector("form [name=decision]");
const replace = (old, fresh) => {
  const open = new Set([...old.querySelectorAll("details[open][id]")].map((details) => details.id));
  const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  old.replaceChildren(...document.importNode(fresh, true).childNodes);
  for (const details of old.querySelectorAll("details[id]")) details.open ||= open.has(details.id);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
};
// A part that is replaced between the press and the release of a button would swallow the click.
let released = Promise.resolve();
addEventListener("pointerdown", () => {
  released = new Promise((resolve) => {
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(resolve), { once: true });
  });
}, true);
const update = async () => {
  const response = await fetch(location.href, { headers: { accept: "text/html" } });
  // The session is over, or the run is gone: the reload says so.
  if (!response.ok) return news();
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  await released;
  const parts = [...document.querySelectorAll("[data-live]")];
  const changed = parts.filter((old) => fresh.getElementById(old.id)?.innerHTML !== old.dataset.shown);
  if (parts.some(decides) && changed.length > 0) return news();
  for (const old of changed) {
    const part = fresh.getElementById(old.id);
    if (!part) { news(); continue; }
    old.dataset.shown = part.innerHTML;
    replace(old, part);
  }
};
const news = () => { document.getElementById("news").hidden = false; };
for (const part of document.querySelectorAll("[data-live]")) part.dataset.shown = part.innerHTML;
const watched = document.querySelector("[data-changes]")?.dataset.changes;
if (watched) {
  let running = false, again = false;
  const changed = async () => {
    again = true;
    if (running) return;
    running = true;
    while (again) {
      again = false;
      await update().catch(news);
    }
    running = false;
  };
  const watch = () => {
    const events = new EventSource(watched);
    events.onmessage = changed;
    // Browsers try again by themselves unless the answer was an error.
    events.onerror = () => {
      if (events.readyState === EventSource.CLOSED) setTimeout(watch, 5000);
    };
    addEventListener("pagehide", () => events.close(), { once: true });
  };
  watch();
}
