// The pages work without this script. It signs in with the token of the address, and moves by keyboard.
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
