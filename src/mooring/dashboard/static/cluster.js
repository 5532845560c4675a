import { get } from "./api.js";
import { amount, badge, h, loading, meter, nodeLink, number, percent, podLink, problem, safe, select, table, text } from "./dom.js";
import { Heatmap, scale } from "./heatmap.js";

const CORDONED = 1;
const TAINTED = 2;
const SCORE = "(score of a pod)";
const NO_GROUP = "(none)"; // without a choice, the server chooses

export class ClusterPage {
  constructor(context) {
    this.context = context;
    this.data = null;
    this.scores = null;
    this.choice = { group: "", resource: "cpu", pod: "", plugin: "" };
    this.tiles = h("div", { class: "tiles" });
    this.tools = h("div", { class: "toolbar" });
    this.finder = h("input", { id: "find-node", type: "search", placeholder: "part of its name", autocomplete: "off", oninput: () => this.seek(),
      onkeydown: (event) => { if (event.key === "Enter" && this.heat.selected >= 0 && event.target.value.trim()) this.choose(this.heat.selected); } });
    this.canvas = h("canvas", { tabindex: "0", role: "img" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.map = h("div", { class: "map" }, this.canvas, this.tip);
    this.spoken = h("p", { class: "hidden", "aria-live": "polite" });
    this.legend = h("div", { class: "legend" });
    this.listing = h("div", {});
    this.side = h("aside", { "aria-label": "Node" });
    this.columns = h("div", { class: "columns wide" });
    this.heat = new Heatmap(this.canvas);
    this.resized = () => { if (this.data) { this.heat.place(); this.redraw(); } };
  }

  async enter(node) {
    this.data = await get("cluster", this.choice);
    this.context.show(this.choice.resource);
    this.node = node;
    this.events();
    this.drawing = h("div", { class: "card" }, this.tools, this.map, this.spoken, this.legend);
    this.columns.append(h("section", {}, this.drawing, this.listing), this.side);
    addEventListener("resize", this.resized);
    this.watch = new ResizeObserver(() => { if (this.map.clientWidth && Math.abs(this.map.clientWidth - (this.heat.width ?? 0)) > 2) this.arrange(); });
    this.watch.observe(this.map);
    this.showTools();
    this.showTiles();
    setTimeout(() => { this.arrange(); if (node) this.open(node); });
    return [this.tiles, this.columns];
  }

  leave() {
    removeEventListener("resize", this.resized);
    this.watch?.disconnect();
  }

  go(node) {
    if (node) this.open(node); else this.closeNode();
    return true;
  }

  // Loading

  async load() {
    try {
      this.data = await get("cluster", pick(this.choice));
      this.context.show(this.choice.resource);
      this.showTools();
      this.showTiles();
      this.arrange();
    } catch (error) {
      this.tools.replaceChildren(problem(error));
    }
  }

  async loadScores() {
    if (!this.choice.pod) return;
    try {
      this.scores = await get("scores", { name: this.choice.pod, plugin: this.choice.plugin });
      this.failure = null;
    } catch (error) {
      this.scores = null;
      this.failure = error;
    }
    this.showTools();
    this.redraw();
  }

  update(name, data) {
    if (name === "resync") return void this.load();
    if (name === "summary") return void this.showTiles();
    if (name !== "nodes" || !this.data || data.resource !== this.data.resource) return;
    if (data.structure !== this.data.structure) return void this.reload();
    const rows = data.rows ?? this.data.names.map((_, row) => row);
    rows.forEach((row, place) => {
      this.data.use[row] = data.use[place];
      this.data.pods[row] = data.pods[place];
      this.data.flags[row] = data.flags[place];
    });
    this.data.totals = data.totals;
    this.heat.refresh(rows, (row) => this.colour(row), (row) => this.marked(row));
    this.showTiles();
    this.describe();
    if (this.node && rows.includes(this.data.names.indexOf(this.node))) this.open(this.node);
    if (this.scores) { clearTimeout(this.again); this.again = setTimeout(() => this.loadScores(), 1500); }
  }

  reload() {
    clearTimeout(this.pending);
    this.pending = setTimeout(() => this.load(), 300);
  }

  // Display

  arrange() {
    this.heat.layout(this.data.codes, this.data.groups);
    this.redraw();
  }

  redraw() {
    if (!this.data || !this.heat.cells) return;
    this.drawing.hidden = !this.data.names.length;
    this.heat.selected = this.node ? this.data.names.indexOf(this.node) : -1;
    this.heat.draw((row) => this.colour(row), (row) => this.marked(row));
    this.showLegend();
    this.describe();
    this.showListing();
  }

  get byScore() { return this.choice.pod !== "" && this.scores !== null && this.scores.structure === this.data.structure; }

  colour(row) {
    const tones = scale();
    if (this.byScore) {
      const score = this.scores.scores[row];
      if (score < 0 || score === undefined) return tones.rejected;
      const { lowest, highest } = this.scores;
      const share = highest > lowest ? (score - lowest) / (highest - lowest) : 1;
      return tones.score[Math.min(tones.score.length - 1, Math.floor(share * tones.score.length))];
    }
    const use = this.data.use[row];
    if (use < 0) return tones.none;
    if (use >= 970) return tones.use[6];
    if (use >= 850) return tones.use[5];
    return tones.use[Math.min(4, Math.floor(use / 170))];
  }

  marked(row) { return !this.byScore && (this.data.flags[row] & CORDONED) !== 0; }

  showTiles() {
    const { summary } = this.context;
    if (!summary || !this.data) return;
    const pending = summary.queue.active + summary.queue.backoff + summary.queue.unschedulable + summary.queue.gated;
    const tiles = [
      tile("nodes", number(this.data.names.length)),
      tile("pods on nodes", number(summary.pods)),
      h("a", { class: "tile", href: "#/queue" }, h("div", { class: "number" }, number(pending)), h("div", { class: "name" }, summary.batch ? "pending pods, besides gangs" : "pending pods")),
    ];
    for (const [name, total] of Object.entries(this.data.totals).slice(0, 4)) {
      const [used, all] = total.texts.map(amount);
      tiles.push(h("div", { class: "tile" }, h("div", { class: "number" }, percent(total.share)),
        h("div", { class: "name" }, name === "pods" ? "of the room for pods" : text(`${name} requested`)), meter(total.share), h("div", { class: "name" }, `${used} of ${all}`)));
    }
    this.tiles.replaceChildren(...tiles);
  }

  showTools() {
    const labels = Object.entries(this.data.labels).map(([key, count]) => [key, `${key} (${count})`]);
    const colours = [...this.data.resources.map((each) => [each, `usage: ${each}`]), [SCORE, "score of a pod…"]];
    const parts = [
      select("Group by", [[NO_GROUP, "nothing"], ...labels], this.data.group || NO_GROUP, (value) => { this.choice.group = value; this.load(); }),
      select("Colour by", colours, this.asking ? SCORE : this.choice.resource, (value) => this.pickColour(value)),
      h("div", {}, h("label", { for: "find-node" }, "Find a node"), this.finder),
    ];
    if (this.asking) {
      const found = h("datalist", { id: "pods-found" });
      const field = h("input", { id: "score-pod", list: "pods-found", value: this.choice.pod, placeholder: "namespace/name", autocomplete: "off",
        oninput: (event) => this.find(event.target.value, found),
        onchange: (event) => { this.choice.pod = event.target.value.trim(); this.choice.plugin = ""; this.loadScores(); } });
      parts.push(h("div", {}, h("label", { for: "score-pod" }, "Pod"), field, found));
      if (this.scores) {
        parts.push(select("Plugin", this.scores.plugins, this.scores.plugin, (value) => { this.choice.plugin = value; this.loadScores(); }));
      }
      if (this.failure) parts.push(h("p", { class: "problem", role: "alert" }, this.failure.message));
      this.find(this.choice.pod, found);
    }
    this.tools.replaceChildren(...parts);
  }

  pickColour(value) {
    this.asking = value === SCORE;
    if (this.asking) { this.showTools(); return; }
    this.choice.resource = value;
    this.choice.pod = "";
    this.scores = null;
    this.load();
  }

  async find(typed, list) {
    const { pods } = await get("pods", { search: typed });
    list.replaceChildren(...pods.map((each) => h("option", { value: each.pod })));
  }

  showLegend() {
    const tones = scale();
    const item = (colour, label) => { const box = h("span", { class: "swatch" }); box.style.background = colour; return h("span", {}, box, label); };
    const parts = this.byScore
      ? [item(tones.score[0], `lowest (${number(this.scores.lowest)})`), item(tones.score[3], ""), item(tones.score[5], `highest (${number(this.scores.highest)})`),
        item(tones.rejected, `rejected (${number(this.data.names.length - this.scores.feasible)})`)]
      : [item(tones.use[0], "0–17 %"), item(tones.use[1], "17–34 %"), item(tones.use[2], "34–51 %"), item(tones.use[3], "51–68 %"), item(tones.use[4], "68–85 %"),
        item(tones.use[5], "85–97 %"), item(tones.use[6], "full"), h("span", {}, "╱ cordoned")];
    this.legend.replaceChildren(...parts);
  }

  describe() {
    const total = this.data.totals[this.data.resource];
    const what = this.byScore ? `score of ${this.scores.plugin} for pod ${this.choice.pod}` : `usage of ${this.data.resource}${total ? `, ${percent(total.share)} in total` : ""}`;
    this.canvas.setAttribute("aria-label", safe(`${number(this.data.names.length)} nodes, coloured by ${what}. Arrow keys select a node, Enter opens it. A table follows.`));
  }

  // The same as a table, for people who do not see the canvas: the fullest nodes, or the best.
  showListing() {
    const rank = this.byScore ? (row) => this.scores.scores[row] ?? -1 : (row) => this.data.use[row];
    const rows = this.data.names.map((_, row) => row);
    const sorted = rows.sort((a, b) => rank(b) - rank(a)).slice(0, 25);
    if (!sorted.length) {
      this.listing.replaceChildren(h("div", { class: "card" }, h("p", { class: "empty" }, h("b", {}, "The cluster has no nodes yet."), h("br"), "They appear here as soon as they register with the API server.")));
      return;
    }
    this.listing.replaceChildren(h("details", { class: "card", open: this.listed, ontoggle: (event) => { this.listed = event.target.open; } },
      h("summary", {}, this.byScore ? "The 25 best nodes as a table" : "The 25 fullest nodes as a table"),
      table([
        { title: "Node", cell: (row) => nodeLink(this.data.names[row]) },
        { title: "Group", cell: (row) => text(this.data.groups[this.data.codes[row]] ?? "") },
        { title: "Pods", right: true, cell: (row) => number(this.data.pods[row]) },
        { title: this.byScore ? "Score" : this.data.resource, right: true, cell: (row) => (this.byScore ? score(rank(row)) : use(rank(row))) },
      ], sorted)));
  }

  // Selection

  events() {
    const place = (event) => { const box = this.canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    this.canvas.addEventListener("pointermove", (event) => this.hover(...place(event)));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("click", (event) => { const row = this.heat.at(...place(event)); if (row >= 0) this.choose(row); });
    this.canvas.addEventListener("keydown", (event) => {
      if (event.key.startsWith("Arrow")) {
        event.preventDefault();
        const row = this.heat.next(event.key);
        if (row < 0) return;
        this.select(row);
      } else if (event.key === "Enter" && this.heat.selected >= 0) this.choose(this.heat.selected);
      else if (event.key === "Escape") { this.tip.hidden = true; location.hash = "#/cluster"; }
    });
  }

  select(row) {
    this.heat.selected = row;
    this.heat.draw((each) => this.colour(each), (each) => this.marked(each));
    this.spoken.textContent = safe(this.told(row));
    this.point(row);
  }

  // Selects the first node whose name contains what is typed; Enter opens it.
  seek() {
    const typed = this.finder.value.trim().toLowerCase();
    const row = typed ? this.data.names.findIndex((name) => name.toLowerCase().includes(typed)) : -1;
    if (row >= 0) { this.select(row); return; }
    this.tip.hidden = true;
    this.redraw();
    this.spoken.textContent = typed ? "No node has such a name." : "";
  }

  told(row) {
    const { names, groups, codes, pods, flags, resource } = this.data;
    const what = this.byScore ? `${this.scores.plugin}: ${score(this.scores.scores[row])}` : `${resource} ${use(this.data.use[row])}`;
    const group = groups.length > 1 ? `, ${groups[codes[row]]}` : "";
    return `${names[row]}${group}: ${what}, ${pods[row]} pods${flags[row] & CORDONED ? ", cordoned" : ""}${flags[row] & TAINTED ? ", tainted" : ""}`;
  }

  hover(x, y) {
    const row = this.heat.at(x, y);
    if (row < 0) { this.tip.hidden = true; return; }
    this.point(row);
  }

  point(row) {
    this.tip.replaceChildren(text(this.told(row)));
    this.tip.hidden = false;
    const x = this.heat.cells[row * 2];
    this.tip.style.left = `${Math.max(0, Math.min(x, this.heat.width - 310))}px`;
    this.tip.style.top = `${this.heat.cells[row * 2 + 1] + this.heat.size + 6}px`;
  }

  choose(row) { location.hash = `#/cluster/${encodeURIComponent(this.data.names[row])}`; }

  closeNode() {
    this.node = "";
    this.columns.classList.add("wide");
    this.side.replaceChildren();
    this.redraw();
  }

  async open(name) {
    const opened = this.node !== name || !this.side.firstChild;
    this.node = name;
    this.columns.classList.remove("wide");
    if (opened) this.side.replaceChildren(h("div", { class: "card" }, loading()));
    try {
      const details = await get("node", { name });
      if (this.node === name) this.side.replaceChildren(nodeCard(details));
      // On a narrow screen the node is below the map.
      if (opened && this.side.offsetTop > this.columns.offsetTop + 40) this.side.scrollIntoView({ block: "start" });
    } catch (error) {
      this.side.replaceChildren(problem(error));
    }
    if (opened) this.redraw();
  }
}

function nodeCard(node) {
  const state = node.unschedulable ? badge("cordoned", "warn") : node.ready === "True" ? badge("ready", "good") : badge(node.ready ? "not ready" : "no status", "bad");
  return h("div", { class: "card", id: "node" },
    h("div", { class: "head" }, h("h2", {}, text(node.name)), h("span", {}, state, " ", h("a", { href: "#/cluster", "aria-label": "Close the node" }, "Close"))),
    node.resources.map((each) => h("div", { class: "small resource" }, h("span", {}, text(each.name), ` ${amount(each.texts[0])} of ${amount(each.texts[1])} (${percent(each.share)})`), meter(each.share))),
    section("Taints", node.taints.length ? h("div", { class: "chips" }, node.taints.map((each) => h("span", { class: "chip mono" }, text(`${each.key}${each.value ? `=${each.value}` : ""}:${each.effect}`)))) : h("p", { class: "muted small" }, "none")),
    section("Rejections", node.rejections.length ? node.rejections.map((each) => h("p", { class: "small" }, podLink(each.pod), each.pods > 1 ? ` and ${number(each.pods - 1)} like it` : "", ": ",
      h("b", {}, text(each.plugin)), " ", text(each.reasons.join(", ")))) : h("p", { class: "muted small" }, "No pending pod is rejected here.")),
    section(`Pods (${number(node.podCount)})`, table([
      { title: "Pod", cell: (each) => podLink(each.pod) },
      { title: "Priority", right: true, cell: (each) => number(each.priority) },
      { title: "Requests", cell: (each) => text(Object.entries(each.requests).map(([key, value]) => `${key} ${value}`).join(", ") || "none") },
    ], node.pods, "No pods on this node.")),
    h("details", {}, h("summary", {}, "Labels"), h("div", { class: "chips" }, Object.entries(node.labels).map(([key, value]) => h("span", { class: "chip mono" }, text(`${key}=${value}`))))));
}

const section = (title, ...content) => h("section", {}, h("h3", { class: "section" }, title), content);
const tile = (name, value) => h("div", { class: "tile" }, h("div", { class: "number" }, value), h("div", { class: "name" }, name));
const use = (value) => (value < 0 ? "not offered" : percent(value / 1000));
const score = (value) => (value === undefined || value < 0 ? "rejected" : number(value));
const pick = ({ group, resource }) => ({ ...(group ? { group } : {}), resource });
