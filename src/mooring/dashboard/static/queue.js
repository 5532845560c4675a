import { get } from "./api.js";
import { ago, badge, h, meter, number, percent, podLink, nodeLink, problem, table, text } from "./dom.js";

const PARTS = [
  ["active", "active", "Ready; the first one is tried next."],
  ["backoff", "backoff", "Tried again when the backoff ends."],
  ["unschedulable", "unschedulable", "Rejected; wait for an event that may help."],
  ["gated", "gated", "A PreEnqueue plugin does not let them in."],
  ["permit", "waiting at Permit", "Have a node, and wait for a plugin's permission."],
];

export class QueuePage {
  constructor(context) {
    this.context = context;
    this.body = h("div", {});
    this.part = null;
  }

  async enter() {
    await this.load();
    return [this.body];
  }

  leave() { clearTimeout(this.pending); }

  update(name, data) {
    if (name !== "summary" || !this.data) return;
    const state = JSON.stringify([data.queue, data.attempts, data.gangChanges]);
    if (state === this.state || this.pending) return;
    this.state = state;
    this.pending = setTimeout(() => { this.pending = null; this.load(); }, 700);
  }

  async load() {
    try {
      this.data = await get("queue");
    } catch (error) {
      if (!this.data) throw error;
      return;
    }
    this.part ??= PARTS.map(([name]) => name).filter((name) => this.data.parts[name]?.length).sort((a, b) => this.data.counts[b] - this.data.counts[a])[0] ?? "active";
    this.draw();
  }

  draw() {
    const { counts, parts, reasons } = this.data;
    const [, label, told] = PARTS.find(([name]) => name === this.part);
    const focused = document.activeElement?.dataset?.part;
    this.body.replaceChildren(
      h("div", { class: "tiles", role: "group", "aria-label": "Parts of the queue" }, PARTS.map(([name, shown]) => h("button", {
        class: "tile", type: "button", "data-part": name, "aria-pressed": String(name === this.part), onclick: () => { this.part = name; this.draw(); } },
      h("div", { class: "number" }, number(counts[name])), h("div", { class: "name" }, shown)))),
      h("div", { class: "halves" },
        h("div", { class: "stack" }, h("section", { class: "card" }, h("h2", {}, "Why pods wait"), this.reasons(reasons)), ...this.gangs()),
        h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, `Pods: ${label}`), h("span", { class: "muted small" }, told)), this.pods(parts[this.part] ?? [], counts[this.part]))));
    if (focused) this.body.querySelector(`[data-part="${focused}"]`)?.focus();
  }

  reasons(reasons) {
    const most = Math.max(1, ...reasons.map((each) => each.pods));
    return table([
      { title: "Reason", cell: (each) => h("div", {}, text(each.reason), h("div", { class: "small muted" }, badge(each.part, each.part === "gated" ? "info" : "warn"), " ", text(each.plugin))) },
      { title: "Pods", right: true, cell: (each) => h("div", {}, number(each.pods), meter(0.84 * each.pods / most, `${each.pods} pods`)) },
      { title: "For example", cell: (each) => podLink(each.example) },
    ], reasons, "No pod waits.");
  }

  pods(rows, count) {
    if (this.part === "permit") {
      return table([
        { title: "Pod", cell: (each) => podLink(each.pod) },
        { title: "Node", cell: (each) => nodeLink(each.node) },
        { title: "Waits for", cell: (each) => text(each.plugins.map((hold) => hold.plugin).join(", ")) },
      ], rows, "No pod waits at Permit.");
    }
    const shown = table([
      { title: "Pod", cell: (each) => podLink(each.pod) },
      { title: "Priority", right: true, cell: (each) => number(each.priority) },
      { title: "Attempts", right: true, cell: (each) => number(each.attempts) },
      { title: "Waiting", tight: true, cell: (each) => ago(each.since) },
    ], rows, `No pod is ${this.part === "backoff" ? "in backoff" : this.part}.`);
    return h("div", {}, shown, count > rows.length ? h("p", { class: "muted small" }, `The first ${number(rows.length)} of ${number(count)}.`) : null);
  }

  gangs() {
    const { gangs, queues } = this.data;
    if (!this.context.summary?.batch) return [];
    return [h("div", { class: "stack" },
      h("section", { class: "card" }, h("h2", {}, "Queues of batch sessions"), table([
        { title: "Queue", cell: (each) => h("div", {}, text(each.queue), " ", each.state && each.state !== "Open" ? badge(each.state, "warn") : null) },
        { title: "Weight", right: true, cell: (each) => number(each.weight) },
        { title: "Share", cell: (each) => h("div", {}, percent(each.share), meter(each.share)) },
        { title: "Allocated", cell: (each) => text(amounts(each.allocated)) },
        { title: "Deserved / capability", cell: (each) => text([amounts(each.deserved), amounts(each.capability)].filter(Boolean).join(" / ") || "–") },
        { title: "Gangs (waiting)", right: true, cell: (each) => `${number(each.gangs)} (${number(each.waiting)})` },
      ], queues, "There are no queues.")),
      h("section", { class: "card" }, h("h2", {}, "Gangs that wait"), table([
        { title: "Gang", cell: (each) => h("div", {}, text(each.gang), h("div", { class: "small muted" }, text(`queue ${each.queue}`)), each.pod ? h("a", { class: "small", href: `#/pod/${encodeURIComponent(each.pod)}` }, "What would help?") : null) },
        { title: "Pods", right: true, tight: true, cell: (each) => `${number(each.pods)} of ${number(each.minMember)}` },
        { title: "Waits for", cell: (each) => h("div", {}, each.gate ? badge(each.gate, "warn") : null, " ", text(each.text)) },
      ], gangs, "No gang waits.")))];
  }
}

const amounts = (found) => Object.entries(found).map(([name, amount]) => `${name} ${amount}`).join(", ");
