import { get } from "./api.js";
import { badge, h, loading, meter, nodeLink, number, podLink, problem, table, text, time } from "./dom.js";

const STATES = { bound: "good", binding: "info", held: "info", pending: "warn", gated: "warn", gone: "" };
const PAGE = 40;

export class PodPage {
  constructor(context) {
    this.context = context;
    this.search = h("input", { id: "pod-search", type: "search", placeholder: "namespace/name", autocomplete: "off", oninput: () => this.find() });
    this.results = h("div", {});
    this.body = h("div", {});
    this.shown = "weighted";
  }

  async enter(key) {
    this.key = key;
    this.search.value = key;
    this.body.replaceChildren();
    if (key) await this.load().catch((error) => this.missing(error)); else await this.find();
    return [h("div", { class: "card" }, h("label", { for: "pod-search" }, "Find a pod"), this.search, this.results), this.body];
  }

  leave() { clearTimeout(this.pending); clearTimeout(this.typing); this.key = null; }

  go(key) {
    this.key = key;
    this.search.value = key;
    this.results.replaceChildren();
    this.matrix = null;
    if (key) { this.body.replaceChildren(loading()); this.load().catch((error) => this.missing(error)); } else { this.body.replaceChildren(); this.find(); }
    return true;
  }

  // The search stays, with pods of a similar name.
  missing(error) {
    this.data = null;
    this.body.replaceChildren(problem(error));
    this.find();
  }

  update(name, data) {
    if (name !== "summary" || !this.key || this.pending) return;
    if (data.attempts === this.attempts && data.pods === this.pods) return;
    [this.attempts, this.pods] = [data.attempts, data.pods];
    if (this.data) this.pending = setTimeout(() => { this.pending = null; if (this.key) this.load().catch(() => {}); }, 1500);
  }

  find() {
    clearTimeout(this.typing);
    return new Promise((done) => {
      this.typing = setTimeout(async () => {
        try {
          const { pods } = await get("pods", { search: this.search.value });
          this.results.replaceChildren(table([
            { title: "Pod", cell: (each) => podLink(each.pod) },
            { title: "Node", cell: (each) => (each.node ? nodeLink(each.node) : badge("no node", "warn")) },
          ], pods.slice(0, 20), this.search.value.trim() ? "No pod has such a name." : "The cluster has no pods yet."));
        } catch (error) {
          this.results.replaceChildren(problem(error));
        }
        done();
      }, 200);
    });
  }

  async load() {
    const key = this.key;
    const data = await get("pod", { name: key });
    if (this.key !== key) return;
    this.data = data;
    this.place = h("div", { class: "card matrix", id: "matrix" }, loading());
    this.draw();
    await this.loadMatrix();
  }

  async loadMatrix(offset = 0) {
    const key = this.key;
    try {
      const found = await get("matrix", { name: key, offset, limit: PAGE, search: this.filter ?? "" });
      if (this.key !== key) return;
      this.matrix = { ...found, offset, search: this.filter ?? "" };
      this.drawMatrix();
    } catch (error) {
      this.place.replaceChildren(h("h2", {}, "Decision"), h("p", { class: "muted" }, error.message));
    }
  }

  draw() {
    const { pod, description, explanation, timeline } = this.data;
    const state = explanation?.state ?? (this.data.node ? "bound" : "pending");
    const decision = explanation?.decision;
    const facts = { Node: this.data.node ? nodeLink(this.data.node) : "none", Scheduler: description.scheduler, Priority: number(description.priority), Owner: description.owner || "none",
      Requests: Object.entries(description.requests ?? {}).map(([name, amount]) => `${name} ${amount}`).join(", ") || "none" };
    this.body.replaceChildren(
      h("div", { class: "halves" },
        h("section", { class: "card" },
          h("div", { class: "head" }, h("h2", {}, text(pod)), badge(state, STATES[state])),
          this.data.note ? h("p", { class: "note" }, this.data.note) : null,
          explanation?.note ? h("p", { class: "note" }, text(explanation.note)) : null,
          ...causes(decision), ...fixes(explanation), ...victims(decision), ...waits(explanation),
          explanation?.state === "bound" ? null : h("h3", { class: "section" }, "Pod"),
          h("dl", { class: "pairs" }, Object.entries(facts).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value instanceof Node ? value : text(value))]))),
        h("section", { class: "card" }, h("h2", {}, "Timeline"), timelineOf(timeline))),
      h("div", { class: "spaced" }, this.place));
  }

  drawMatrix() {
    const found = this.matrix;
    const modes = ["weighted", "normalized", "raw"].map((name) => h("button", { class: "choice", type: "button", "aria-pressed": String(this.shown === name), onclick: () => { this.shown = name; this.drawMatrix(); } }, name));
    const rejected = found.nodes - found.feasible;
    const filters = found.filters.filter((name) => !found.skipped.includes(name));
    const head = h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Node"), found.feasible ? h("th", { scope: "col", class: "right" }, "Total") : null,
      found.scorers.map((each) => h("th", { scope: "col", class: "right turn" }, words(each.name), ` × ${each.weight}`)),
      filters.map((name) => h("th", { scope: "col" }, words(name)))));
    const rows = found.rows.map((row) => this.row(row, found, filters));
    const filter = h("input", { id: "matrix-filter", type: "search", value: this.filter ?? "",
      onchange: (event) => { this.filter = event.target.value.trim(); this.loadMatrix(); } });
    const last = Math.min(found.nodes, found.offset + found.rows.length);
    this.place.replaceChildren(
      h("div", { class: "head" }, h("h2", {}, "Decision: nodes and plugins"), h("div", { role: "group", "aria-label": "Scores" }, modes)),
      ...won(found),
      h("p", { class: "muted" }, `${number(found.feasible)} nodes are feasible, ${number(Math.max(0, rejected))} are rejected. `, found.present ? "As if the pod were not on its node." : "", found.extenders ? " Extenders are not asked." : "",
        found.skipped.length ? ` Not concerned: ${found.skipped.join(", ")}.` : ""),
      h("div", { class: "toolbar" }, h("div", {}, h("label", { for: "matrix-filter" }, "Filter by the name of a node"), filter)),
      rows.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Matrix of nodes and plugins" }, h("table", {}, head, h("tbody", {}, rows))) : h("p", { class: "empty" }, "No node has such a name."),
      h("div", { class: "legend" }, h("span", {}, "✓ passed"), h("span", {}, "✗ rejected, with the reason"), h("span", {}, "· not asked: an earlier plugin rejected the node"),
        found.scorers.length && this.shown === "weighted" ? h("span", {}, "71 → 71: the raw and the normalized score, below the weighted one") : null),
      h("div", { class: "toolbar" },
        h("span", { class: "muted small" }, found.nodes ? `Nodes ${number(found.offset + 1)}–${number(last)} of ${number(found.nodes)}` : ""),
        found.offset > 0 ? h("button", { class: "quiet", type: "button", onclick: () => this.loadMatrix(Math.max(0, found.offset - PAGE)) }, "Previous") : null,
        last < found.nodes ? h("button", { class: "quiet", type: "button", onclick: () => this.loadMatrix(found.offset + PAGE) }, "Next") : null));
  }

  row(row, found, filters) {
    const name = h("td", {}, nodeLink(row.node), row.node === found.present ? h("div", { class: "small muted" }, "its node") : row.node === found.chosen && !found.present ? h("div", { class: "small muted" }, "would be chosen") : null);
    if (row.feasible) {
      const place = { raw: 0, normalized: 1, weighted: 2 }[this.shown];
      return h("tr", { class: row.node === (found.present || found.chosen) ? "chosen" : null }, name, h("td", { class: "score" }, h("b", {}, number(row.total))),
        row.scores.map((cell) => h("td", { class: "score", title: `raw ${cell[0]}, normalized ${cell[1]}, weighted ${cell[2]}` }, number(cell[place]), place === 2 ? h("small", {}, `${number(cell[0])} → ${number(cell[1])}`) : null)),
        filters.map(() => h("td", { class: "pass" }, h("span", { "aria-label": "passed" }, "✓"))));
    }
    const at = filters.indexOf(row.plugin);
    name.append(h("div", { class: "small beside", "aria-hidden": "true" }, text(`✗ ${row.reasons.join(", ") || row.code}`))); // its column may be far away on a phone
    const none = () => h("td", { class: "off" }, h("span", { "aria-label": "not asked" }, "·"));
    const told = h("td", { class: "reject", colspan: at < 0 ? Math.max(1, found.scorers.length) : null }, "✗ ", at < 0 ? h("b", {}, text(row.plugin)) : null, " ", text(row.reasons.join(", ") || row.code));
    return h("tr", {}, name, found.feasible ? h("td", { class: "score muted" }, "–") : null,
      at < 0 ? told : found.scorers.map(none),
      filters.map((_, place) => (at < 0 || place > at ? none() : place < at ? h("td", { class: "pass" }, h("span", { "aria-label": "passed" }, "✓")) : told)));
  }
}

// Why the first node is better than the second one.
function won(found) {
  const [first, second] = found.rows;
  if (found.offset || found.search || !second?.feasible) return [];
  const name = first.node === found.present ? "It runs on" : found.present ? "Now it would run on" : "It would run on";
  if (first.total === second.total) return [h("p", { class: "note" }, `${name} `, text(first.node), `. Other nodes have the same total, ${number(first.total)}.`)];
  const gains = found.scorers.map((each, place) => [each.name, first.scores[place][2] - second.scores[place][2]]).filter(([, gain]) => gain)
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).map(([plugin, gain]) => `${plugin} ${gain > 0 ? "+" : "−"}${number(Math.abs(gain))}`);
  return [h("p", { class: "note" }, `${name} `, text(first.node), `: ${number(first.total - second.total)} more than `, text(second.node), ` (${gains.join(", ")}).`)];
}

// A name of a plugin, which may break between its words.
function words(name) {
  return h("bdi", {}, name.split(/(?=[A-Z])/).flatMap((part, place) => (place ? [h("wbr"), part] : [part])));
}

// Why no node is feasible, the most frequent reason first, and the message of the event for those who search for it.
function causes(decision) {
  const verdicts = [...(decision?.verdicts ?? [])].sort((one, other) => other.nodes - one.nodes);
  if (!verdicts.length || decision.node) return decision?.message ? [h("p", { class: "note" }, text(decision.message))] : [];
  const total = decision.evaluatedNodes || verdicts.reduce((sum, each) => sum + each.nodes, 0) || 1;
  return [h("ol", { class: "causes", "aria-label": "Why it waits" }, verdicts.map((each, place) => h("li", {},
    h("div", { class: "head" }, h(place ? "span" : "b", {}, text(each.reasons.join(", ") || each.code)), h("span", { class: "muted small" }, `${number(each.nodes)} of ${number(total)} nodes`)),
    meter(each.nodes / total, `${number(each.nodes)} of ${number(total)} nodes`), h("span", { class: "muted small" }, text(each.plugin))))),
  decision.message ? h("details", { class: "small" }, h("summary", {}, "Message of the event"), h("p", { class: "note" }, text(decision.message))) : null];
}

function fixes(explanation) {
  const found = explanation?.suggestions ?? [];
  if (!found.length) return [];
  return [h("h3", { class: "section" }, explanation.gang ? `What would let gang ${explanation.gang} start` : "What would make it schedulable"), h("ol", { class: "fixes" }, found.map((each) => h("li", {}, text(each.text), each.node ? h("div", { class: "muted small" }, each.pods ? `Then ${number(each.pods)} pods run on ${number(each.nodes)} nodes, such as ` : "Then it runs on ", each.kind.includes("add-node") && !each.pods ? "the new node" : nodeLink(each.node)) : null))),
    h("p", { class: "muted small" }, "Each change was verified by deciding again.")];
}

function victims(decision) {
  const parts = [];
  const preemption = decision?.preemption;
  if (preemption?.message && !preemption.victims?.length && !decision.message?.includes(preemption.message)) parts.push(h("p", { class: "small muted" }, text(preemption.message)));
  if (decision?.victims?.length) parts.push(h("h3", { class: "section" }, "Victims"), h("div", { class: "chips" }, decision.victims.map((each) => h("span", { class: "chip" }, podLink(each)))));
  if (decision?.preempted) parts.push(h("p", { class: "note" }, "Preempted by ", podLink(decision.preempted.by), " on ", nodeLink(decision.preempted.node)));
  return parts;
}

function waits(explanation) {
  const waiting = explanation?.waiting;
  const held = explanation?.heldBy ?? [];
  const parts = [];
  if (held.length) parts.push(h("h3", { class: "section" }, "Waits at Permit for"), h("div", { class: "chips" }, held.map((each) => h("span", { class: "chip" }, text(each.plugin)))));
  if (!waiting) return parts;
  parts.push(h("h3", { class: "section" }, `Queue: ${waiting.queue}`));
  if (waiting.gates?.length) parts.push(h("p", { class: "small" }, "Scheduling gates: ", text(waiting.gates.join(", "))));
  for (const each of waiting.wokenBy ?? []) parts.push(h("p", { class: "small" }, h("b", {}, text(each.plugin)), " tries again after: ", text(each.events.join("; "))));
  return parts;
}

function timelineOf(events) {
  if (!events.length) return h("p", { class: "empty" }, "Nothing is known about the past of this pod.");
  return h("ol", { class: "timeline" }, events.map((each) => h("li", { "data-kind": each.kind }, h("div", {}, text(each.text)),
    each.plugins?.length ? h("div", { class: "small muted" }, text(`rejected by ${each.plugins.join(", ")}`)) : null,
    each.detail ? h("div", { class: "small muted" }, text(each.detail)) : null, time(each.time))));
}
