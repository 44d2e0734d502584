// Words of a mark as a tooltip, by pointer and by keyboard: Tab to a picture, arrows from mark to mark, Escape.
"use strict";
const tip = document.getElementById("tip");
// Axes and legends have words too, for screen readers; they are no marks.
const MARKS = '[role="graphics-symbol"][aria-label]:not([aria-roledescription="axis"], [aria-roledescription="legend"])';

function show(mark) {
  hide();
  mark.classList.add("here");
  tip.textContent = mark.getAttribute("aria-label");
  const box = mark.getBoundingClientRect(), own = tip.getBoundingClientRect();
  const left = Math.min(Math.max(4, box.x + box.width / 2 - own.width / 2), innerWidth - own.width - 4);
  const above = box.y - own.height - 8;
  tip.style.left = left + "px";
  tip.style.top = (above > 4 ? above : Math.min(box.bottom + 8, innerHeight - own.height - 4)) + "px";
}

function hide() {
  document.querySelectorAll(".here").forEach((mark) => mark.classList.remove("here"));
  tip.textContent = "";
}

// In a map up and down stay in the column: the nearest mark there, else the same again.
function beside(marks, at, down) {
  if (at < 0) return 0;
  const middle = (mark) => { const box = mark.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; };
  const [x, y] = middle(marks[at]);
  let best = at, least = Infinity;
  marks.forEach((mark, place) => {
    const [own, height] = middle(mark), far = (height - y) * down;
    if (Math.abs(own - x) < 1 && far > 1 && far < least) { best = place; least = far; }
  });
  return best;
}

for (const picture of document.querySelectorAll(".picture")) {
  const marks = [...picture.querySelectorAll(MARKS)];
  let at = -1;
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  picture.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return hide();
    if (event.key === "Home") at = 0;
    else if (event.key === "End") at = marks.length - 1;
    else if (picture.dataset.kind === "heat" && event.key === "ArrowDown") at = beside(marks, at, 1);
    else if (picture.dataset.kind === "heat" && event.key === "ArrowUp") at = beside(marks, at, -1);
    else if (event.key in steps) at = at < 0 ? 0 : (at + steps[event.key] + marks.length) % marks.length;
    else return;
    event.preventDefault();
    if (marks.length) show(marks[at]);
  });
  picture.addEventListener("blur", hide);
  picture.addEventListener("pointerover", (event) => {
    const mark = event.target.closest(MARKS);
    if (mark) { at = marks.indexOf(mark); show(mark); } else hide();
  });
  picture.addEventListener("pointerleave", hide);
}
// The scrolling that brought the focus here ends after the first key: words that a key asked for stay with their mark.
addEventListener("scroll", () => {
  const mark = document.querySelector(".picture:focus .here");
  if (mark) show(mark); else hide();
}, true);
