/* Connects the tree of fields with the bytes: pointing at one marks the other. In the bytes, the arrow keys go from name
   to name. Without this script, each byte's title names it, and each field says where its bytes are. */
"use strict";

const runsOf = (id) => document.querySelectorAll(`.run[data-field="${CSS.escape(id)}"]`);

function mark(id) {
  for (const marked of document.querySelectorAll(".marked")) marked.classList.remove("marked");
  if (!id) return;
  document.getElementById(id)?.classList.add("marked");
  for (const run of runsOf(id)) run.classList.add("marked");
}

function name(run) {
  mark(run.dataset.field);
  run.closest(".bytes").querySelector(".byte-name").textContent = run.title;
}

/* The address then leads to this field. */
function choose(run) {
  name(run);
  history.replaceState(null, "", `#${run.dataset.field}`);
  document.getElementById(run.dataset.field)?.scrollIntoView({ block: "nearest" });
}

function step(hex, by) {
  const runs = [...hex.querySelectorAll(".run")];
  const at = runs.indexOf(hex.querySelector(".run.current"));
  let next = at < 0 ? (by > 0 ? 0 : runs.length - 1) : at + by;
  while (at >= 0 && runs[next] && runs[next].title === runs[at].title) next += by; /* its bytes in the next row */
  if (!runs[next]) return;
  runs[at]?.classList.remove("current");
  runs[next].classList.add("current");
  runs[next].scrollIntoView({ block: "nearest" });
  choose(runs[next]);
}

for (const hex of document.querySelectorAll(".hex")) {
  hex.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    step(hex, by);
  });
  hex.addEventListener("pointerover", (event) => {
    const run = event.target.closest(".run");
    if (run) name(run);
  });
  hex.addEventListener("click", (event) => {
    const run = event.target.closest(".run");
    if (run) choose(run);
  });
}

for (const fields of document.querySelectorAll(".fields")) {
  const markField = (event) => {
    const field = event.target.closest("li");
    if (field) mark(field.id);
  };
  fields.addEventListener("pointerover", markField);
  fields.addEventListener("focusin", markField);
}

function followAddress() {
  const id = decodeURIComponent(location.hash.slice(1));
  mark(id);
  if (id) runsOf(id)[0]?.scrollIntoView({ block: "nearest" });
}

addEventListener("hashchange", followAddress);
followAddress();
