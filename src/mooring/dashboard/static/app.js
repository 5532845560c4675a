import { get, Updates } from "./api.js";
import { ClusterPage } from "./cluster.js";
import { ConfigurationPage, PluginsPage } from "./settings.js";
import { h, loading, problem } from "./dom.js";
import { PodPage } from "./pod.js";
import { QueuePage } from "./queue.js";
import { WhatIfPage } from "./what_if.js";

const PAGES = { cluster: ClusterPage, queue: QueuePage, pod: PodPage, plugins: PluginsPage, configuration: ConfigurationPage, "what-if": WhatIfPage };
const TITLES = { cluster: "Cluster", queue: "Queue", pod: "Pod", plugins: "Plugins", configuration: "Configuration", "what-if": "What if" };

const main = document.getElementById("main");
const live = document.getElementById("live");
let page = null;
let summary = null;

// What a page can use: the last summary, and the resource whose changes it wants.
const context = {
  get summary() { return summary; },
  show(resource) { updates.open(resource); },
};

const updates = new Updates((name, data) => {
  if (name === "summary") {
    summary = data;
    document.getElementById("decides").textContent = data.reported
      ? `Read-only: another scheduler decides. Shown with the rules of kube-scheduler ${data.decidesAs}.`
      : `Decides as kube-scheduler ${data.decidesAs}.`;
    document.getElementById("tab-what-if").hidden = !data.whatIf;
  }
  page?.update?.(name, data);
}, (state) => {
  live.dataset.state = state;
  live.textContent = state === "live" ? "live" : "connection lost; trying again";
});

async function route() {
  const [name, ...rest] = location.hash.replace(/^#\//, "").split("/");
  const known = name in PAGES ? name : "cluster";
  document.title = `${TITLES[known]} · Mooring`;
  for (const link of document.querySelectorAll(".tabs a")) {
    if (link.getAttribute("href") === `#/${known}`) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "center" });
    } else link.removeAttribute("aria-current");
  }
  const wanted = rest.map(decodeURIComponent).join("/");
  if (page instanceof PAGES[known] && page.go?.(wanted)) return;
  page?.leave?.();
  const inside = main.contains(document.activeElement);
  main.replaceChildren(loading());
  scrollTo(0, 0);
  if (inside) main.focus(); // whoever follows a link with the keyboard continues at the start of the new view
  const made = (page = new PAGES[known](context));
  try {
    summary ??= await get("summary");
    const content = await made.enter(wanted);
    if (page === made) main.replaceChildren(h("h1", { class: "hidden" }, TITLES[known]), ...content);
  } catch (error) {
    if (page === made) main.replaceChildren(problem(error));
  }
}

function theme() {
  const chosen = localStorage.getItem("mooring-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("mooring-theme", root.dataset.theme);
  page?.redraw?.();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page?.redraw?.());
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
addEventListener("hashchange", route);
theme();
updates.open("cpu");
route();
