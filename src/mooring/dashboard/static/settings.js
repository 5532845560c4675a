import { get } from "./api.js";
import { badge, h, number, table, text, time } from "./dom.js";

export class PluginsPage {
  constructor() { this.body = h("div", {}); }

  async enter() {
    await this.load();
    return [this.body];
  }

  leave() { clearTimeout(this.pending); this.left = true; }

  update(name) {
    if (name === "summary" && !this.pending) this.pending = setTimeout(() => { this.pending = null; if (!this.left) this.load().catch(() => {}); }, 2000);
  }

  async load() {
    const { plugins, reload } = await get("plugins");
    const open = new Set([...this.body.querySelectorAll("details[open]")].map((each) => each.dataset.plugin));
    const several = new Set(plugins.map((each) => each.profile)).size > 1;
    const state = (each) => (each.state.startsWith("running") ? (each.failures ? "warn" : "good") : each.state === "idle" ? "" : "bad");
    this.body.replaceChildren(
      h("section", { class: "card" }, h("h2", {}, "Plugins"), table([
        { title: "Plugin", cell: (each) => h("div", {}, h("b", {}, text(each.name)), several || !each.profile ? h("div", { class: "small muted" }, text(each.profile || "in no profile")) : null) },
        { title: "State", cell: (each) => badge(each.state, state(each)) },
        { title: "Source", cell: (each) => h("div", { class: "small" }, text(each.source), each.version ? h("div", { class: "muted" }, `version ${each.version}`) : null, each.sha256 ? h("div", { class: "muted mono" }, each.sha256.slice(0, 12)) : null) },
        { title: "Extension points", cell: (each) => h("span", { class: "small" }, each.points.join(", ")) },
        { title: "Weight", right: true, cell: (each) => (each.weight ? number(each.weight) : "–") },
        { title: "Calls", right: true, cell: (each) => number(each.calls) },
        { title: "Mean", right: true, tight: true, cell: (each) => (each.meanMicros === null ? "–" : `${each.meanMicros.toFixed(each.meanMicros < 10 ? 1 : 0)} µs`) },
        { title: "Failures", right: true, cell: (each) => failures(each, open) },
      ], plugins)),
      h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Reloads"), h("span", { class: "muted small" }, reload.watched ? `${number(reload.reloads)} succeeded, ${number(reload.failed)} failed` : "Files are not watched.")),
        table([
          { title: "When", tight: true, cell: (each) => time(each.time) },
          { title: "Result", cell: (each) => badge(each.ok ? "reloaded" : "failed", each.ok ? "good" : "bad") },
          { title: "What", cell: (each) => text(each.text) },
        ], reload.history, "No file has changed since the start.")));
  }
}

function failures(plugin, open) {
  if (!plugin.failures && !plugin.lastFailure && !plugin.warnings.length) return number(plugin.failures);
  return h("details", { "data-plugin": plugin.name, open: open.has(plugin.name) }, h("summary", {}, number(plugin.failures)),
    h("pre", {}, text([plugin.lastFailure, plugin.traceback, ...plugin.warnings].filter(Boolean).join("\n"))));
}

export class ConfigurationPage {
  async enter() {
    const { release, text: configuration, differences } = await get("configuration");
    const gates = Object.entries(release.gates);
    return [
      h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "Differences from the defaults"), badge(`as kube-scheduler ${release.reference}`, "info")),
        gates.length ? h("p", { class: "small" }, "Feature gates: ", gates.map(([name, value]) => `${name}=${value}`).join(", ")) : null,
        table([
          { title: "Setting", cell: (each) => h("span", { class: "mono" }, text(each.path)) },
          { title: "Value", cell: (each) => h("span", { class: "mono" }, text(each.value)) },
          { title: "Default", cell: (each) => h("span", { class: "mono muted" }, text(each.default)) },
        ], differences, "Everything has its default value.")),
      h("section", { class: "card" }, h("h2", {}, "Effective configuration"), h("pre", { tabindex: "0" }, text(configuration)))];
  }
}
