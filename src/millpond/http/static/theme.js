// The theme, before the first paint: a plain script, because a module would come after a flash.
// What the reader chose is kept in localStorage; without a choice the system's preference holds.
"use strict";

(() => {
  const KEY = "millpond.theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // Storage can be forbidden; the system's preference is then all there is.
    }
  }

  function apply() {
    const choice = chosen();
    const dark = choice ? choice === "dark" : system.matches;
    root.dataset.theme = dark ? "dark" : "light";
    const button = document.getElementById("theme");
    if (button) {
      button.textContent = dark ? "Light" : "Dark";
      button.setAttribute("aria-label", dark ? "Use the light theme" : "Use the dark theme");
    }
  }

  function toggle() {
    const next = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, next);
      apply();
    } catch {
      root.dataset.theme = next;
    }
  }

  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", toggle);
  });
})();
