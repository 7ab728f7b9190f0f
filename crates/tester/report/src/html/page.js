"use strict";
// Tables sort by their heads, which become buttons so that the keyboard reaches them.
for (const table of document.querySelectorAll("table.sort")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.key ?? cell.textContent.trim();
  };
  const compare = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const difference = Number(a) - Number(b);
    return Number.isNaN(difference) ? a.localeCompare(b, "en", { numeric: true }) : difference;
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [key(row, column), row]);
      rows.sort((a, b) => (up ? compare(a[0], b[0]) : compare(b[0], a[0])));
      body.append(...rows.map((pair) => pair[1]));
    });
  });
}

// The titles of marks show at once, also on a touch, instead of after the browser's pause.
const tip = document.getElementById("tip");
const texts = new WeakMap();
for (const title of document.querySelectorAll("svg.chart title")) {
  texts.set(title.parentNode, title.textContent);
  title.remove();
}
const textOf = (node) => {
  for (; node instanceof Element && !(node instanceof HTMLElement); node = node.parentNode) {
    if (texts.has(node)) return texts.get(node);
  }
  return null;
};
const show = (event) => {
  const text = textOf(event.target);
  tip.hidden = text === null;
  if (text === null) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - box.width - 8);
  const above = event.clientY - box.height - 14;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${above > 8 ? above : event.clientY + 18}px`;
};
document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

// What is folded on the screen is unfolded on paper.
addEventListener("beforeprint", () =>
  document.querySelectorAll("details").forEach((part) => { part.open = true; }));
