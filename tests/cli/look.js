addEventListener("load", async () => {
  const check = (good, text) => { if (!good) faults.push(text); };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const paper = getComputedStyle(document.body).backgroundColor;
  check(dark === (paper !== "rgb(255, 255, 255)"), `dark ${dark}, and the paper ${paper}`);
  document.body.dataset.dark = dark;
  const requests = performance.getEntriesByType("resource").map((entry) => entry.name);
  check(requests.length === 0, "requests: " + requests.join(" "));
  const visible = (node) => node.getClientRects().length > 0;
  const charts = [...document.querySelectorAll("svg.chart")].filter(visible);
  check(charts.length > 0, "no chart is shown");
  for (const chart of charts) {
    const name = chart.getAttribute("aria-label") ?? "";
    check(name.length > 10, "a chart without words: " + name);
    check(chart.querySelectorAll(".mark, .line, .area, .points, .dot").length > 0, "no data: " + name);
    const box = chart.getBoundingClientRect();
    check(box.left >= -1 && box.right <= innerWidth + 1, "beyond the edge: " + name);
  }
  const tip = document.getElementById("tip");
  let told = 0;
  for (const chart of charts) {
    for (const mark of chart.querySelectorAll("*")) {
      const { left, top } = mark.getBoundingClientRect();
      mark.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: left, clientY: top }));
      if (!tip.hidden && tip.textContent.length > 3) { told += 1; break; }
    }
  }
  check(told === charts.length, `the pointer tells values in ${told} of ${charts.length} charts`);
  for (const table of document.querySelectorAll("table.sort")) {
    const name = table.caption?.textContent ?? "";
    check(name.length > 3, "a table without a caption");
    const rows = [...table.tBodies[0].rows];
    const button = table.tHead.querySelector("button");
    check(button !== null, "nothing to sort by: " + name);
    button?.click();
    const up = [...table.tBodies[0].rows];
    button?.click();
    const down = [...table.tBodies[0].rows];
    check(up.length === rows.length && down.length === rows.length, "rows got lost: " + name);
    const keys = (list) => list.map((row) => row.cells[0].dataset.key ?? row.cells[0].textContent.trim());
    const different = new Set(keys(up)).size > 1;
    check(!different || keys(up)[0] !== keys(down)[0], "it does not sort: " + name);
  }
  check(document.documentElement.scrollWidth <= innerWidth + 1, "the page is wider than the screen");
  check(document.documentElement.lang === "en" && document.title.length > 5, "no language or title");
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  check(new Set(ids).size === ids.length, "an id is there twice");
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    check(document.getElementById(link.hash.slice(1)) !== null, "leads nowhere: " + link.hash);
  }
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].map((head) => Number(head.tagName[1]));
  check(levels[0] === 1, "does not begin with a first-level head");
  levels.forEach((level, at) =>
    check(at === 0 || level <= levels[at - 1] + 1, "a level of heads is left out"));
  for (const node of document.querySelectorAll("button, a")) check(node.textContent.trim() !== "", "no name");
  for (const node of document.querySelectorAll("th"))
    check(node.scope !== "", "a head without scope: " + node.textContent);
  // On paper a figure must fit on a page (A4 with margins, at 96 pixels for an inch), and may not be cut.
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
  const printed = rules.filter((rule) => rule.media?.mediaText === "print")
    .flatMap((rule) => [...rule.cssRules]);
  const whole = printed.some((rule) =>
    rule.selectorText?.includes("figure") && rule.style.breakInside === "avoid");
  check(whole, "figures may be cut in print");
  for (const chart of charts) {
    const { width, height } = chart.viewBox.baseVal;
    check((height / width) * 700 < 900, "higher than a page: " + chart.getAttribute("aria-label"));
  }
  if (window.axe) {
    const found = await window.axe.run(document, { resultTypes: ["violations"] });
    for (const { id, impact, help, nodes } of found.violations) {
      if (impact !== "serious" && impact !== "critical") continue;
      check(false, `axe, ${impact}: ${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html).join(" ")}`);
    }
    check(found.passes.length > 10, "axe checked hardly anything");
  }
  document.body.dataset.faults = JSON.stringify(faults);
});
