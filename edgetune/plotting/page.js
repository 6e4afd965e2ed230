"use strict";
// Links marks of figures with rows of tables by data-key, describes marks, sorts and filters tables, copies commands,
// and zooms into time. Without it the page still shows every figure and every table.
const tip = document.getElementById("tip");
const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const make = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  return element;
};

// Marks and rows
const linked = new Map();
for (const element of all("[data-key]")) {
  if (!linked.has(element.dataset.key)) linked.set(element.dataset.key, []);
  linked.get(element.dataset.key).push(element);
}
function describe(row) {
  const names = [...row.closest("table").rows[0].cells].map((th) => th.dataset.name || th.textContent);
  return [...row.cells].map((cell, at) => [names[at], cell.textContent]).filter(([, text]) => text && text !== "-")
    .map((pair) => pair.join(": ")).join("\n");
}
for (const figure of all("svg")) {
  const points = all(".point", figure);
  for (const point of points) {
    const title = point.querySelector("title");
    const row = linked.get(point.dataset.key).find((element) => element.tagName === "TR");
    point.dataset.words = title ? title.textContent : row ? describe(row) : "";
    if (title) title.remove();  // else the browser's own box would cover ours
    if (!point.dataset.words) continue;
    point.setAttribute("role", "img");
    point.setAttribute("aria-label", point.dataset.words);
  }
  if (points.length) points[0].setAttribute("tabindex", "0");  // the arrow keys lead to the others
}
let lit = [];
function hide() {
  tip.textContent = "";
  for (const element of lit) element.classList.remove("on");
  lit = [];
}
function show(event) {
  const target = event.target.closest && event.target.closest("[data-key]");
  hide();
  if (!target) return;
  lit = linked.get(target.dataset.key);
  for (const element of lit) element.classList.add("on");
  if (!target.dataset.words) return;
  tip.textContent = target.dataset.words;
  const at = target.getBoundingClientRect(), box = tip.getBoundingClientRect();
  const left = at.right + 12 + box.width < innerWidth ? at.right + 12 : Math.max(4, at.left - 12 - box.width);
  tip.style.left = left + "px";
  tip.style.top = Math.max(4, Math.min(at.top, innerHeight - box.height - 4)) + "px";
}
document.addEventListener("mouseover", show);
document.addEventListener("focusin", show);
document.addEventListener("focusout", hide);
document.addEventListener("scroll", hide, true);
document.addEventListener("click", (event) => {
  const point = event.target.closest(".point");
  const row = point && linked.get(point.dataset.key).find((element) => element.tagName === "TR");
  if (!row) return;
  const folded = row.closest("details");
  if (folded) folded.open = true;
  row.scrollIntoView({ block: "center" });
  show(event);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return hide();
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const here = document.activeElement;
  if (!step || !here.matches(".point")) return;
  event.preventDefault();
  const order = all(".point", here.closest("svg"));
  const next = order[(order.indexOf(here) + step + order.length) % order.length];
  here.removeAttribute("tabindex");
  next.setAttribute("tabindex", "0");
  next.focus();
});

// Tables
const number = (cell) => cell.dataset.value !== undefined ? +cell.dataset.value : parseFloat(cell.textContent);
const compare = (one, other) => {
  const [a, b] = [number(one), number(other)];
  if (!isNaN(a) && !isNaN(b)) return a - b;
  return isNaN(a) - isNaN(b) || one.textContent.localeCompare(other.textContent);
};
for (const table of all("table")) {
  const body = table.tBodies[0], rows = [...body.rows];
  if (rows.length < 2) continue;
  [...table.rows[0].cells].forEach((th, at) => {
    if (!th.textContent) return;
    th.dataset.name = th.textContent;
    const button = make("button", th.textContent, { type: "button", class: "sort" });
    th.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = th.getAttribute("aria-sort") !== "ascending";
      for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", up ? "ascending" : "descending");
      rows.sort((one, other) => (up ? 1 : -1) * compare(one.cells[at], other.cells[at]));
      body.append(...rows);
    });
  });
  if (rows.length < 10) continue;
  const filter = make("input", "", { type: "search", placeholder: "Show rows with ...", "aria-label": "Show rows with" });
  const count = make("span", "", { class: "dim", role: "status" });
  const line = make("p", "", { class: "filter" });
  line.append(filter, " ", count);
  table.parentElement.before(line);
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      left += !row.hidden;
    }
    count.textContent = words.length ? `${left} of ${rows.length} rows` : "";
  });
}

// Commands
for (const button of all("button.copy")) {
  button.addEventListener("click", async () => {
    const text = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {  // a page may not write to the clipboard: select the text for Ctrl-C
      getSelection().selectAllChildren(text);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

// Time
function zoomable(figure) {
  const svg = figure.querySelector("svg"), axes = all("g.time", svg);
  const first = axes[0].dataset, whole = { from: +first.from, to: +first.to };
  let shown = { ...whole };
  const upright = all(".data text, .data use", svg);  // they move, but are not stretched
  for (const element of upright) element.dataset.x = element.getAttribute("x") || 0;
  function ticks() {
    const rough = (shown.to - shown.from) / 7, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((each) => each * power >= rough);
    const found = [];
    for (let at = Math.ceil(shown.from / step); at * step <= shown.to; at++) found.push(at * step);
    return found.map((value) => [value, +value.toPrecision(12)]);
  }
  function draw() {
    const factor = (whole.to - whole.from) / (shown.to - shown.from);
    for (const each of upright) {
      each.setAttribute("transform", `translate(${each.dataset.x * (1 - 1 / factor)} 0) scale(${1 / factor} 1)`);
    }
    for (const group of axes) {
      const left = +group.dataset.left, right = +group.dataset.right, bottom = +group.dataset.bottom;
      const begin = left + (whole.from - shown.from) * (right - left) / (shown.to - shown.from);
      const shift = begin - factor * left;
      group.querySelector(".data").setAttribute("transform", `translate(${shift} 0) scale(${factor} 1)`);
      const zoomed = factor > 1.0001;
      for (const tick of all(".tick", group)) tick.style.display = zoomed ? "none" : "";
      for (const old of all(".new-tick", group)) old.remove();
      if (!zoomed) continue;
      for (const [value, words] of ticks()) {
        const x = left + (value - shown.from) * (right - left) / (shown.to - shown.from);
        const line = document.createElementNS(svg.namespaceURI, "path");
        line.setAttribute("d", `M${x} ${bottom}v3.5`);
        line.setAttribute("class", "new-tick");
        group.append(line);
        if (group.dataset.labels !== "true") continue;
        const text = document.createElementNS(svg.namespaceURI, "text");
        text.setAttribute("x", x);
        text.setAttribute("y", bottom + 13);
        text.setAttribute("class", "new-tick");
        text.textContent = words;
        group.append(text);
      }
    }
  }
  function move(from, to) {
    const span = Math.max((whole.to - whole.from) / 1e5, Math.min(to - from, whole.to - whole.from));
    const begin = Math.max(whole.from, Math.min(from, whole.to - span));
    shown = { from: begin, to: begin + span };
    draw();
  }
  const zoom = (by, at = (shown.from + shown.to) / 2) => move(at - (at - shown.from) / by, at + (shown.to - at) / by);
  const pan = (share) => move(shown.from + share * (shown.to - shown.from), shown.to + share * (shown.to - shown.from));
  const bar = make("div", "", { class: "bar", role: "group", "aria-label": "Time shown" });
  const actions = [
    ["+", "Zoom in", () => zoom(2)], ["\u2212", "Zoom out", () => zoom(0.5)], ["\u2190", "Earlier", () => pan(-0.25)],
    ["\u2192", "Later", () => pan(0.25)], ["Whole run", "Show the whole run", () => move(whole.from, whole.to)],
  ];
  for (const [text, label, act] of actions) {
    const button = make("button", text, { type: "button", "aria-label": label });
    button.addEventListener("click", act);
    bar.append(button);
  }
  figure.prepend(bar);
  const timeAt = (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const { left, right } = axes[0].dataset;
    return shown.from + (at.x - left) * (shown.to - shown.from) / (right - left);
  };
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;  // plain wheels scroll the page
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, timeAt(event));
  }, { passive: false });
  let from = null;
  svg.addEventListener("pointerdown", (event) => { if (event.button === 0) from = timeAt(event); });
  svg.addEventListener("pointerup", (event) => {
    const to = timeAt(event);
    if (from !== null && Math.abs(to - from) > 0.02 * (shown.to - shown.from)) move(Math.min(from, to), Math.max(from, to));
    from = null;
  });
}
for (const figure of all("figure.zooms")) zoomable(figure);
