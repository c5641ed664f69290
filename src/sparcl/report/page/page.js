"use strict";
// The page works without this script. With it: a switch between light and dark, values under the pointer, and, while
// a run is watched, sections that renew themselves.

const root = document.documentElement;
const tip = document.getElementById("tip");

// Light, dark, or as the system.

const themes = ["system", "light", "dark"];
const button = document.getElementById("theme");

function stored(value) {
  try {
    if (value) localStorage.setItem("sparcl-theme", value);
    return localStorage.getItem("sparcl-theme");
  } catch {
    return value; // a page from a file may have no storage
  }
}

function show(theme) {
  if (theme === "system") delete root.dataset.theme;
  else root.dataset.theme = theme;
  button.textContent = { system: "Theme: system", light: "Theme: light", dark: "Theme: dark" }[theme];
}

let theme = themes.includes(stored()) ? stored() : "system";
show(theme);
button.addEventListener("click", () => {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  stored(theme);
  show(theme);
});

// Values under the pointer.

function place(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, innerWidth - box.width - 8);
  const top = event.clientY + box.height + 24 > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16;
  // Through the object model: the page's policy forbids style attributes, not this.
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}

function inside(svg, event) {
  return new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
}

function readLines(svg, event) {
  const at = inside(svg, event).x;
  const lines = [...svg.querySelectorAll("path[data-x]")].map(({ dataset }) => ({
    name: dataset.name,
    x: JSON.parse(dataset.x),
    y: JSON.parse(dataset.y),
    names: JSON.parse(dataset.names),
  }));
  const near = (xs) => xs.reduce((best, x, i) => (Math.abs(x - at) < Math.abs(xs[best] - at) ? i : best), 0);
  const known = lines.filter((line) => line.x.length);
  if (!known.length) return;
  const found = known.map((line) => ({ ...line, i: near(line.x) }));
  const closest = found.reduce((a, b) => (Math.abs(a.x[a.i] - at) <= Math.abs(b.x[b.i] - at) ? a : b));
  const x = closest.x[closest.i];
  const values = found
    .filter((line) => Math.abs(line.x[line.i] - x) < 1)
    .map((line) => `${line.name}: ${Number(line.y[line.i].toPrecision(5))}${svg.dataset.unit}`);
  let cursor = svg.querySelector(".cursor");
  if (!cursor) {
    cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
    cursor.setAttribute("class", "cursor");
    cursor.setAttribute("y1", "12");
    cursor.setAttribute("y2", "204");
    svg.prepend(cursor);
  }
  cursor.setAttribute("x1", x);
  cursor.setAttribute("x2", x);
  const label = closest.names[closest.i];
  place(event, [/^\d/.test(label) ? `${svg.dataset.xLabel}: ${label}` : label, ...values].join("\n"));
}

function readPicture(image, event) {
  const box = image.getBoundingClientRect();
  const { rows, columns, values } = image.dataset;
  const names = JSON.parse(rows);
  const others = JSON.parse(columns);
  const row = Math.floor(((event.clientY - box.top) / box.height) * names.length);
  const column = Math.floor(((event.clientX - box.left) / box.width) * others.length);
  image.table ??= JSON.parse(values);
  const value = image.table[row]?.[column];
  if (value !== undefined && value !== null) place(event, `${names[row]} → ${others[column]}: ${value}`);
}

document.addEventListener("pointermove", (event) => {
  const lines = event.target.closest?.("svg.lines");
  const picture = event.target.closest?.("image.pixels");
  if (lines) readLines(lines, event);
  else if (picture) readPicture(picture, event);
  else tip.hidden = true;
  for (const cursor of document.querySelectorAll(".cursor")) if (cursor.parentNode !== lines) cursor.remove();
});

// A live page asks every two seconds, and replaces only the sections that have changed.

const live = document.getElementById("live");
let etag = "";

function renew(name, { digest, html }) {
  let section = document.getElementById(name);
  if (!section) {
    section = document.createElement("section");
    section.id = name;
    document.querySelector("main").append(section);
  }
  if (section.dataset.digest === digest) return;
  section.dataset.digest = digest;
  const open = [...section.querySelectorAll("details[open]")].map((details) => details.dataset.name);
  section.innerHTML = html; // made by the same server, everything in it escaped
  for (const details of section.querySelectorAll("details")) details.open = open.includes(details.dataset.name);
}

async function ask() {
  try {
    const answer = await fetch("/sections", { headers: etag ? { "If-None-Match": etag } : {}, cache: "no-store" });
    if (answer.status === 200) {
      etag = answer.headers.get("ETag") ?? "";
      const sections = Object.entries(await answer.json());
      for (const [name, section] of sections) renew(name, section);
      const links = sections.map(([name, { title }]) => {
        const link = document.createElement("a");
        link.href = `#${name}`;
        link.textContent = title;
        return link;
      });
      document.querySelector("nav").replaceChildren(...links);
    } else if (answer.status !== 304) throw new Error(answer.statusText);
    live.textContent = `live, ${new Date().toLocaleTimeString()}`;
    live.classList.remove("lost");
  } catch {
    live.textContent = "the server has ended";
    live.classList.add("lost");
  }
  setTimeout(ask, 2000);
}

if (document.body.dataset.live) ask();
