import { get, post } from "./api.js";
import { badge, h, loading, nodeLink, number, percent, podLink, problem, table, text } from "./dom.js";

const FIELDS = [
  ["addNodes", "Add nodes", "m5.xlarge=2", "Nodes like an existing one, named by its instance type or its name"],
  ["drain", "Drain", "node-3, node-4", "Cordon nodes and evict their pods"],
  ["cordon", "Cordon", "node-5", "Make nodes unschedulable"],
  ["scale", "Scale", "default/deployment/web=50", "Set the replicas of workloads"],
  ["weights", "Weights", "NodeAffinity=5", "Weights of Score plugins"],
];

const POD = `apiVersion: v1
kind: Pod
metadata: {name: one-cpu}
spec:
  containers:
  - name: main
    image: example
    resources: {requests: {cpu: 1, memory: 1Gi}}
`;

export class WhatIfPage {
  constructor(context) {
    this.context = context;
    this.result = h("div", { id: "what-if-answer", "aria-live": "polite" });
    this.inputs = {};
  }

  async enter() {
    const fields = FIELDS.map(([name, label, example, hint]) => {
      this.inputs[name] = h("input", { id: `what-if-${name}`, placeholder: example, autocomplete: "off" });
      return h("div", {}, h("label", { for: `what-if-${name}` }, label), this.inputs[name], h("div", { class: "small muted" }, hint));
    });
    this.manifest = h("textarea", { id: "what-if-add", rows: "6", spellcheck: "false", placeholder: "apiVersion: apps/v1\nkind: Deployment\n…" });
    this.config = h("textarea", { id: "what-if-config", rows: "6", spellcheck: "false", placeholder: "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n…" });
    this.fit = h("input", { id: "what-if-fit", type: "checkbox" });
    this.button = h("button", { type: "submit" }, "Show what would happen");
    return [h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); this.ask(); } }, h("h2", {}, "What if"),
      h("p", { class: "muted" }, "The cluster is simulated without and with the changes. Nothing is changed in it."),
      await this.examples(),
      h("div", { class: "fields" }, fields),
      h("div", { class: "halves" },
        h("div", {}, h("label", { for: "what-if-add" }, "Add or replace objects (manifests)"), this.manifest,
          h("p", {}, this.fit, " ", h("label", { for: "what-if-fit", class: "inline" }, "Count how many copies of these objects fit"))),
        h("div", {}, h("label", { for: "what-if-config" }, "Another configuration of the scheduler"), this.config)),
      this.button), this.result];
  }

  // Questions about this cluster, to start with.
  async examples() {
    const label = "node.kubernetes.io/instance-type";
    const { names, use, flags, labels, groups, codes } = await get("cluster", {}).then((found) => (label in found.labels ? get("cluster", { group: label }) : found));
    if (!names.length) return null;
    const rows = names.map((_, row) => row).filter((row) => !flags[row]);
    const fullest = names[rows.reduce((best, row) => (use[row] > use[best] ? row : best), rows[0] ?? 0)];
    const most = codes.reduce((counts, code) => { counts[code] = (counts[code] ?? 0) + 1; return counts; }, []);
    const type = label in labels ? groups[most.indexOf(Math.max(...most.map((each) => each ?? 0)))] : fullest;
    const offer = (title, values, manifest = "") => h("button", { class: "choice", type: "button", onclick: () => {
      for (const [name, input] of Object.entries(this.inputs)) input.value = values[name] ?? "";
      [this.manifest.value, this.fit.checked, this.config.value] = [manifest, manifest !== "", ""];
      this.ask();
    } }, title);
    return h("div", { class: "examples" }, h("span", { class: "small muted" }, "For example:"), offer(["Add two nodes like ", text(type)], { addNodes: `${type}=2` }),
      offer(["Drain ", text(fullest)], { drain: fullest }), offer("How many pods with 1 CPU fit?", {}, POD));
  }

  async ask() {
    let question;
    try {
      question = this.question();
    } catch (error) {
      this.result.replaceChildren(problem(error));
      return;
    }
    this.button.disabled = true;
    this.result.replaceChildren(h("div", { class: "card" }, loading()));
    try {
      const answer = await post("what-if", question);
      this.result.replaceChildren(...("copies" in answer ? fitted(answer) : compared(answer)));
    } catch (error) {
      this.result.replaceChildren(problem(error));
    } finally {
      this.button.disabled = false;
      this.result.scrollIntoView({ block: "nearest" });
    }
  }

  question() {
    const list = (name) => this.inputs[name].value.split(",").map((each) => each.trim()).filter(Boolean);
    const pairs = (name) => list(name).map((each) => {
      const found = each.match(/^(.+)=(\d{1,9})$/);
      if (!found) throw new Error(`${each}: give NAME=NUMBER`);
      return [found[1], Number(found[2])];
    });
    const scale = pairs("scale").map(([path, replicas]) => {
      const parts = path.split("/");
      if (parts.length < 2 || parts.length > 3) throw new Error(`${path}: give NAMESPACE/KIND/NAME`);
      const [name, kind, namespace] = parts.reverse();
      return { namespace: namespace ?? "default", kind, name, replicas };
    });
    const manifest = this.manifest.value.trim();
    return {
      addNodes: pairs("addNodes").map(([type, count]) => ({ type, count })),
      drain: list("drain"), cordon: list("cordon"), scale,
      weights: Object.fromEntries(pairs("weights")),
      ...(this.config.value.trim() ? { config: this.config.value } : {}),
      ...(manifest ? (this.fit.checked ? { fit: manifest } : { add: manifest }) : {}),
    };
  }
}

function compared(answer) {
  const { before, after } = answer.summary;
  const rows = [["Nodes", before.nodes, after.nodes], ["Pods on nodes", before.onNodes, after.onNodes], ["Pending pods", before.pending, after.pending], ["Evicted pods", before.evicted, after.evicted]];
  const uses = Object.entries(answer.utilization).filter(([, use]) => use.before || use.after).map(([name, use]) => [`${name} requested`, use.before, use.after, " %"]);
  const groups = [["Moved", answer.moved, "info"], ["Becomes schedulable", answer.scheduled, "good"], ["Becomes pending", answer.pending, "bad"], ["Evicted", answer.evicted, "warn"]];
  return [
    h("section", { class: "card", id: "what-if-result" }, h("h2", {}, "Now and with the changes"),
      answer.notes.map((each) => h("p", { class: "note" }, text(each))),
      table([
        { title: "", cell: (row) => text(row[0]) },
        { title: "Now", right: true, cell: (row) => `${number(row[1])}${row[3] ?? ""}` },
        { title: "Then", right: true, cell: (row) => h("b", {}, `${number(row[2])}${row[3] ?? ""}`) },
        { title: "Change", right: true, cell: (row) => { const change = Math.round(10 * (row[2] - row[1])) / 10; return change ? `${change > 0 ? "+" : ""}${number(change)}${row[3] ?? ""}` : "–"; } },
      ], [...rows, ...uses])),
    ...groups.filter(([, moves]) => moves.length).map(([title, moves, kind]) => h("section", { class: "card" },
      h("div", { class: "head" }, h("h2", {}, title), badge(number(answer.counts?.[title] ?? moves.length), kind)),
      table([
        { title: "Pod", cell: (each) => podLink(each.pod) },
        { title: "Now", cell: (each) => (each.before ? nodeLink(each.before) : "–") },
        { title: "Then", cell: (each) => (each.after ? text(each.after) : text(each.message || "–")) },
      ], moves.slice(0, 100)))),
    answer.deleted.length ? h("section", { class: "card" }, h("h2", {}, "Deleted"), h("div", { class: "chips" }, answer.deleted.slice(0, 100).map((each) => h("span", { class: "chip" }, text(each))))) : null,
  ].filter(Boolean);
}

function fitted(answer) {
  const nodes = Object.entries(answer.nodes).sort((a, b) => b[1] - a[1]);
  return [h("section", { class: "card", id: "what-if-result" }, h("h2", {}, `${number(answer.copies)} copies fit`),
    answer.message ? h("p", { class: "note" }, "The next copy does not fit: ", text(answer.message)) : h("p", { class: "muted" }, `Stopped at ${number(answer.limit)} copies.`),
    table([{ title: "Node", cell: (row) => text(row[0]) }, { title: "Pods", right: true, cell: (row) => number(row[1]) }], nodes.slice(0, 50)))];
}
