"use strict";
// Without this script a browser shows the title of a point when the mouse rests on it.
const tip = document.getElementById("tip");
const points = [...document.querySelectorAll(".point")];
for (const point of points) {
  const title = point.querySelector("title");
  point.dataset.words = title.textContent;
  point.setAttribute("aria-label", title.textContent);
  title.remove();  // else the browser's own box would cover ours
}
function hide() {
  tip.textContent = "";
  for (const point of points) point.classList.remove("on");
}
function show(event) {
  const point = event.target.closest(".point");
  hide();
  if (!point) return;
  tip.textContent = point.dataset.words;
  for (const other of points) other.classList.toggle("on", other.dataset.spot === point.dataset.spot);
  const at = point.getBoundingClientRect(), box = tip.getBoundingClientRect();
  const left = at.right + 12 + box.width < innerWidth ? at.right + 12 : Math.max(4, at.left - 12 - box.width);
  tip.style.left = left + "px";
  tip.style.top = Math.max(4, Math.min(at.top, innerHeight - box.height - 4)) + "px";
}
document.addEventListener("mouseover", show);
document.addEventListener("focusin", show);
document.addEventListener("focusout", hide);
document.addEventListener("scroll", hide, true);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return hide();
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const order = points.filter((point) => point.hasAttribute("tabindex"));
  const here = order.indexOf(document.activeElement);
  if (!step || here < 0) return;
  event.preventDefault();
  order[(here + step + order.length) % order.length].focus();
});
