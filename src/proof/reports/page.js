// Names what the pointer is on, sorts tables, chooses the stream that is shown.

// A method stands out in all figures, tables and legends; none does for null.
function highlight(m) {
  for (const element of document.querySelectorAll("[data-m]")) {
    const same = element.dataset.m === String(m);
    element.classList.toggle("lit", same);
    element.classList.toggle("dim", m !== null && !same);
  }
}

// Name the mark that is nearest to the pointer, or that the arrow keys have come to.
function watch(svg, marks, reach = 60) {
  let current = null, ring = null;
  function show(found) {
    if (found === current) return;
    current = found;
    if (ring) ring.remove();
    tip.hidden = !found;
    highlight(found && !found.cell ? found.m : null);
    if (!found) return;
    ring = found.cell ? node("rect", { class: "here", ...found.cell })
      : node("circle", { class: "here", cx: found.x, cy: found.y, r: 7 });
    svg.append(ring);
    tip.replaceChildren(html("b", "", report.methods[found.m]), " ", found.text);
    const at = svg.getBoundingClientRect();
    const left = Math.min(at.left + found.x + 14, document.documentElement.clientWidth - tip.offsetWidth - 8);
    const above = at.top + found.y - tip.offsetHeight - 12;
    tip.style.left = `${Math.max(8, left) + scrollX}px`;
    tip.style.top = `${(above > 8 ? above : at.top + found.y + 14) + scrollY}px`;
  }
  const near = (event) => {
    const at = svg.getBoundingClientRect();
    const away = (one) => Math.hypot(one.x - event.clientX + at.left, one.y - event.clientY + at.top);
    const found = marks.reduce((a, b) => (away(b) < away(a) ? b : a));
    show(away(found) <= reach ? found : null);
  };
  svg.addEventListener("pointermove", near);
  svg.addEventListener("pointerdown", near);
  svg.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") show(null); // a finger that is lifted leaves too
  });
  svg.addEventListener("blur", () => show(null));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Escape") show(null);
    if (!step) return;
    event.preventDefault();
    show(current ? next(marks, current, ...step) : marks[0]);
  });
}

// The mark beside this one: first of the same method, or above and below it.
function next(marks, from, across, down) {
  const ahead = (one) => (across ? (one.column - from.column) * across : (one.y - from.y) * down);
  const ok = marks.filter((one) => ahead(one) > 0 && (across || one.column === from.column));
  const far = (one) => ahead(one) * 1e4 + (one.m === from.m ? 0 : 1e3) + Math.abs(one.y - from.y) * (across ? 1 : 0);
  return ok.reduce((a, b) => (far(b) < far(a) ? b : a), ok[0]) || from;
}

// --- The page -------------------------------------------------------------------------------

function drawFigures() {
  for (const plot of document.querySelectorAll("[data-figure]")) {
    const width = Math.floor(plot.clientWidth);
    if (!width || plot.drawn === width) continue;
    plot.drawn = width;
    plot.replaceChildren();
    FIGURES[plot.dataset.figure](report.settings[plot.dataset.setting], plot, width);
  }
}

function choose() {
  const articles = [...document.querySelectorAll("article")];
  const asked = articles.find((article) => `#${article.id}` === location.hash);
  const wanted = asked || articles.find((article) => !article.hidden);
  for (const article of articles) article.hidden = article !== wanted;
  const select = document.getElementById("choose");
  if (select) select.value = wanted.id;
  drawFigures();
  if (asked) asked.scrollIntoView();
}

function sort(heading) {
  const table = heading.closest("table"), body = table.tBodies[0];
  const number = heading.dataset.column;
  const before = heading.getAttribute("aria-sort");
  const first = heading.classList.contains("text") ? "ascending" : "descending";
  const order = before ? { ascending: "descending", descending: "ascending" }[before] : first;
  for (const other of table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const key = (row) => row.cells[number].dataset.v;
  const compare = (a, b) => (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
  const rows = [...body.rows].sort((a, b) =>
    (key(a) === "") - (key(b) === "") || sign * compare(key(a), key(b)));
  body.append(...rows);
}

for (const place of document.querySelectorAll("[data-swatch]")) place.prepend(swatch(+place.dataset.swatch));
for (const image of document.querySelectorAll("img[data-p]")) image.src = report.pictures[image.dataset.p];
for (const heading of document.querySelectorAll("th[data-column]")) {
  heading.querySelector("button").addEventListener("click", () => sort(heading));
}
let pointed = false; // at a row or a legend, which light up in the figures
document.addEventListener("pointerover", (event) => {
  const named = event.target.closest("tr[data-m], li[data-m]");
  if (named || pointed) highlight(named ? +named.dataset.m : null);
  pointed = Boolean(named);
});
document.getElementById("choose")?.addEventListener("change", (event) => { location.hash = event.target.value; });
addEventListener("hashchange", choose);
new ResizeObserver(drawFigures).observe(document.body);
choose();
