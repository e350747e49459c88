/* Keeps the live parts of a page up to date: when the server says that there is something new, the page is loaded again
   in the background, and each part marked data-live is replaced if it has changed. Without this script, pages work, too:
   they show what was known when they were loaded. */
"use strict";

const status = () => document.getElementById("live-state");

let isLoading = false;
let isWaiting = false;
let isPressed = false;
let pressEnds = 0;
const LONGEST_PRESS_MS = 3000;
const LONGEST_LOAD_MS = 20000;

async function update() {
  if (document.hidden) return;
  if (isLoading || isPressed) {
    isWaiting = true;
    return;
  }
  isLoading = true;
  try {
    const limit = AbortSignal.timeout(LONGEST_LOAD_MS);
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, signal: limit });
    if (!response.ok) {
      say(`· not up to date: status ${response.status}`);
      return;
    }
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    if (isPressed) {
      isWaiting = true;
      return;
    }
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(part.id);
      if (other && other.innerHTML !== part.innerHTML && !part.contains(editing())) replace(part, other);
    }
    say("· live");
  } catch {
    say("· not connected");
  } finally {
    isLoading = false;
    if (!isPressed) catchUp();
  }
}

function catchUp() {
  if (isWaiting) {
    isWaiting = false;
    setTimeout(update, 200);
  }
}

/* What is replaced between pressing and releasing the mouse button, or the space bar, gets no click: nothing is then.
   The release isn't always reported, for example when a menu has opened. */
function onPress(event) {
  if (event.type === "keydown" ? event.key !== " " : event.button !== 0) return;
  isPressed = true;
  clearTimeout(pressEnds);
  pressEnds = setTimeout(onRelease, LONGEST_PRESS_MS);
}

function onRelease() {
  isPressed = false;
  clearTimeout(pressEnds);
  if (!isLoading) catchUp();
}

/* What the user is typing into isn't replaced. */
function editing() {
  const focused = document.activeElement;
  return focused && focused.matches("input, textarea, select") ? focused : null;
}

/* Keeps the focus, and how far tables were scrolled. */
function replace(part, other) {
  const focused = placesIn(part).find(([element]) => element === document.activeElement)?.[1];
  const scrolled = [...part.querySelectorAll(".table")].map((table) => table.scrollLeft);
  part.replaceChildren(...other.childNodes);
  [...part.querySelectorAll(".table")].forEach((table, at) => (table.scrollLeft = scrolled[at] ?? 0));
  if (focused) placesIn(part).find(([, place]) => place === focused)?.[0].focus({ preventScroll: true });
}

/* What can have the focus, and where it leads to. A row may be inserted before it, so its number doesn't tell. */
function placesIn(part) {
  const counts = new Map();
  return [...part.querySelectorAll("a, button, [tabindex]")].map((element) => {
    const form = element.form ? `${element.form.action}?${new URLSearchParams(new FormData(element.form))}` : "";
    const target = [element.tagName, element.href, form, element.value, element.ariaLabel].join(" ");
    counts.set(target, (counts.get(target) ?? 0) + 1);
    return [element, `${target} ${counts.get(target)}`];
  });
}

function say(text) {
  const place = status();
  if (place) place.textContent = text;
}

if (document.body.hasAttribute("data-follow")) {
  const events = new EventSource("/events");
  events.onmessage = update;
  events.onopen = () => say("· live");
  events.onerror = () => say("· not connected");
  document.addEventListener("visibilitychange", update);
  for (const name of ["pointerdown", "keydown"]) document.addEventListener(name, onPress);
  for (const name of ["pointerup", "pointercancel", "dragend", "contextmenu", "keyup"]) document.addEventListener(name, onRelease);
  addEventListener("blur", onRelease);
}
