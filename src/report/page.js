"use strict";
// Tables sort by the column whose head is clicked: numbers by value, largest first, and texts by letter.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    const sort = () => {
      const rows = [...table.tBodies[0].rows];
      const number = rows.some(row => row.cells[column].dataset.v !== undefined);
      const before = head.getAttribute("aria-sort");
      const up = before ? before === "descending" : !number;
      const key = row => number ? parseFloat(row.cells[column].dataset.v ?? "NaN") : row.cells[column].textContent;
      const compare = (a, b) => number ? (isNaN(a) - isNaN(b)) || (up ? a - b : b - a) || 0 : (up ? 1 : -1) * a.localeCompare(b);
      rows.sort((a, b) => compare(key(a), key(b)));
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      table.tBodies[0].append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
  });
}
// A finger cannot hover: a tap on a part of a drawing shows its hint.
let tip = null;
document.addEventListener("pointerdown", event => {
  if (tip) tip.remove();
  tip = null;
  const hint = event.pointerType === "touch" && event.target.closest && event.target.closest("svg *")?.querySelector(":scope > title");
  if (!hint) return;
  tip = document.createElement("div");
  tip.id = "tip";
  tip.textContent = hint.textContent;
  document.body.append(tip);
});
// Paper has no way to open what is folded.
addEventListener("beforeprint", () => { for (const folded of document.querySelectorAll("details")) folded.open = true; });
