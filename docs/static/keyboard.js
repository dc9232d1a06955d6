/* What scrolls sideways can be reached by keyboard, and only as long as it scrolls. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const watcher = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  document.querySelectorAll("article pre, article .table-wrapper, article .math").forEach((box) => watcher.observe(box));
  const names = { ".sidebar-drawer": "All pages", ".toc-drawer": "On this page" };
  for (const [drawer, name] of Object.entries(names)) document.querySelector(drawer)?.setAttribute("aria-label", name);
});
