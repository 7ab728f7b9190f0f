// Rows that do not hold every word that was typed are hidden.
const filter = document.getElementById("filter");
filter.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
  for (const row of document.querySelectorAll("table.sort tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
});
