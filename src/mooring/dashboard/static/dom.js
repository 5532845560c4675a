// Elements are made with createElement and textContent only: no text of the cluster is ever parsed as HTML.

// Characters that reorder or hide text are shown as a replacement character.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

export function safe(value) {
  return String(value ?? "").replace(HIDDEN, "\ufffd");
}

export function h(tag, props, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "value") made.value = value;
    else made.setAttribute(name, value === true ? "" : safe(value));
  }
  made.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false)
    .map((each) => (each instanceof Node ? each : document.createTextNode(safe(each)))));
  return made;
}

// A name or text of a user: isolated from the direction of the text around it.
export const text = (value) => h("bdi", { dir: "auto" }, value);

export const podLink = (key) => h("a", { href: `#/pod/${encodeURIComponent(key)}` }, text(key));
export const nodeLink = (name) => h("a", { href: `#/cluster/${encodeURIComponent(name)}` }, text(name));

// On a narrow screen, a table with many columns shows each row as a list of titles and values. The roles stay those of a table.
const STACKED = 5;

export function table(columns, rows, empty = "Nothing here.") {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  const stacks = columns.length >= STACKED;
  const role = (name) => (stacks ? name : null);
  const kind = (each) => [each.right && "right", each.tight && "tight"].filter(Boolean).join(" ") || null;
  return h("div", { class: "scroll" }, h("table", { class: stacks ? "stacks" : null, role: role("table") },
    h("thead", { role: role("rowgroup") }, h("tr", { role: role("row") }, columns.map((each) => h("th", { scope: "col", role: role("columnheader"), class: each.right ? "right" : null }, each.title)))),
    h("tbody", { role: role("rowgroup") }, rows.map((row) => h("tr", { role: role("row") }, columns.map((each) => h("td", { class: kind(each), role: role("cell"), "data-title": stacks ? each.title : null }, each.cell(row))))))));
}

export function meter(share, label) {
  const level = share >= 0.97 ? "full" : share >= 0.85 ? "high" : "normal";
  const fill = h("i", { "data-level": level });
  fill.style.width = `${Math.min(100, Math.round(share * 100))}%`;
  return h("div", { class: "meter", role: "img", "aria-label": label ?? percent(share) }, fill);
}

export const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
export const number = (value) => Number(value ?? 0).toLocaleString("en");
// A quantity as people read it: 43750m is 43.8, 33k is 33,000, and 266240Mi is 260Gi.
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

export function amount(quantity) {
  const found = String(quantity).match(/^(\d+)(m|[kMGTPE]|[KMGTPE]i)?$/);
  if (!found) return quantity;
  const round = (value) => Number(value.toFixed(value < 10 ? 2 : 1)).toLocaleString("en");
  if (found[2] === "m") return round(Number(found[1]) / 1000);
  const thousands = ["", "k", "M", "G", "T", "P", "E"].indexOf(found[2] ?? "");
  if (thousands >= 0) return number(Number(found[1]) * 1000 ** thousands);
  let [value, unit] = [Number(found[1]), BINARY.indexOf(found[2])];
  while (value >= 1024 && unit < BINARY.length - 1) { value /= 1024; unit += 1; }
  return round(value) + BINARY[unit];
}

export const badge = (label, kind = "") => h("span", { class: `badge ${kind}` }, label);
export const loading = () => h("p", { class: "empty", "aria-busy": "true" }, "Loading…");

export function problem(error) {
  return h("div", { class: "card" }, h("p", { class: "problem", role: "alert" }, error.message),
    error.status === 403 ? h("p", { class: "muted" }, "Ask an administrator for the permission that the message names.") : null);
}

export function time(seconds) {
  const moment = new Date(seconds * 1000);
  return h("time", { datetime: moment.toISOString() }, moment.toLocaleString());
}

export function ago(seconds) {
  const passed = Math.max(0, Date.now() / 1000 - seconds);
  if (passed < 60) return `${Math.round(passed)} s`;
  if (passed < 3600) return `${Math.round(passed / 60)} min`;
  return passed < 172800 ? `${Math.round(passed / 3600)} h` : `${Math.round(passed / 86400)} d`;
}

export function select(label, options, value, onchange) {
  const id = `field-${label.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  const made = h("select", { id, onchange: (event) => onchange(event.target.value) },
    options.map((each) => { const [key, shown] = Array.isArray(each) ? each : [each, each]; return h("option", { value: key, selected: key === value }, shown); }));
  return h("div", {}, h("label", { for: id }, label), made);
}
