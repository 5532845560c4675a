// A canvas with one cell per node, in groups. Only cells whose colour changed are painted again.

const GAP = 2;
const TITLE = 22;
const PAD = 12;

export const SCALES = {
  // Usage: calm until a node is nearly full.
  light: { use: ["#e4eef2", "#bfdde6", "#8cc3d3", "#4c9fb6", "#1d7c97", "#e0a33b", "#cf4a3c"], score: ["#efeaf6", "#d5c8e8", "#b59fd6", "#9276c1", "#6f50a8", "#4d3187"], none: "#eef1f4", rejected: "#d5dbe1", line: "#17212b", mark: "#17212b" },
  dark: { use: ["#1d2b34", "#20414d", "#25596a", "#2f7b91", "#4ba3bb", "#d9a13f", "#e0655a"], score: ["#26223a", "#3b3260", "#544587", "#705cae", "#9280d2", "#bcafee"], none: "#1a232b", rejected: "#303b45", line: "#e4ebf1", mark: "#e4ebf1" },
};

export const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

export const scale = () => SCALES[isDark() ? "dark" : "light"];

export class Heatmap {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.cells = null;
    this.colours = [];
    this.selected = -1;
  }

  // `codes` has the group of each node; `order` of a group is that of the nodes.
  layout(codes, groups) {
    this.codes = codes;
    this.groups = groups;
    this.members = groups.map(() => []);
    codes.forEach((code, row) => this.members[code]?.push(row));
    this.place();
  }

  place() {
    const width = Math.max(200, this.canvas.parentElement.clientWidth);
    const count = this.codes.length;
    const room = width * Math.min(620, Math.max(260, innerHeight - 330));
    let size = Math.max(5, Math.min(26, Math.floor(Math.sqrt(room / Math.max(1, count)) * 0.86)));
    if (this.groups.length > 40) size = Math.min(size, 12);
    const step = size + GAP;
    // Groups flow in rows of blocks of the same width.
    const most = Math.max(1, ...this.members.map((each) => each.length));
    const least = this.groups.length > 12 ? 110 : Math.max(180, Math.ceil(Math.sqrt(most)) * step);
    const blocks = this.blocks(width, Math.min(least, width), step);
    const each = Math.floor((width - PAD * (blocks - 1)) / blocks);
    const fit = Math.max(1, Math.floor((each + GAP) / step));
    this.cells = new Float32Array(count * 2);
    this.titles = [];
    let top = 0;
    for (let first = 0; first < this.groups.length; first += blocks) {
      let tallest = 0;
      for (let column = 0; column < blocks && first + column < this.groups.length; column++) {
        const group = first + column;
        const left = column * (each + PAD);
        this.titles.push({ text: this.groups[group], left, top, count: this.members[group].length, width: each });
        this.members[group].forEach((row, place) => {
          this.cells[row * 2] = left + (place % fit) * step;
          this.cells[row * 2 + 1] = top + TITLE + Math.floor(place / fit) * step;
        });
        tallest = Math.max(tallest, Math.ceil(this.members[group].length / fit) * step);
      }
      top += TITLE + tallest + PAD;
    }
    this.size = size;
    this.fit = fit;
    const ratio = devicePixelRatio || 1;
    this.width = width;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(Math.max(40, top) * ratio);
    this.canvas.style.height = `${Math.max(40, top)}px`;
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.index();
  }

  // The number of blocks in a row with which the map is lowest; a block is at least `least` wide.
  blocks(width, least, step) {
    let best = 1;
    let lowest = Infinity;
    for (let blocks = 1; blocks <= this.groups.length && (width - PAD * (blocks - 1)) / blocks >= least; blocks++) {
      const fit = Math.max(1, Math.floor((Math.floor((width - PAD * (blocks - 1)) / blocks) + GAP) / step));
      let height = 0;
      for (let first = 0; first < this.groups.length; first += blocks) {
        height += TITLE + PAD + step * Math.max(...this.members.slice(first, first + blocks).map((each) => Math.ceil(each.length / fit)));
      }
      if (height < lowest) [best, lowest] = [blocks, height];
    }
    return best;
  }

  // Finds the node at a point without looking at all of them.
  index() {
    this.grid = new Map();
    const step = this.size + GAP;
    for (let row = 0; row < this.codes.length; row++) {
      this.grid.set(Math.round(this.cells[row * 2]) + ":" + Math.round(this.cells[row * 2 + 1]), row);
    }
    this.columns = [...new Set(Array.from({ length: this.codes.length }, (_, row) => Math.round(this.cells[row * 2])))].sort((a, b) => a - b);
    this.lines = [...new Set(Array.from({ length: this.codes.length }, (_, row) => Math.round(this.cells[row * 2 + 1])))].sort((a, b) => a - b);
    this.step = step;
  }

  at(x, y) {
    const near = (values, value) => {
      let low = 0;
      let high = values.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (values[middle] <= value) low = middle; else high = middle - 1;
      }
      return values[low];
    };
    if (!this.columns?.length) return -1;
    const column = near(this.columns, x);
    const line = near(this.lines, y);
    if (x - column > this.size || y - line > this.size || x < column || y < line) return -1;
    return this.grid.get(`${column}:${line}`) ?? -1;
  }

  draw(colour, marked) {
    const pen = this.pen;
    const tones = scale();
    pen.clearRect(0, 0, this.width, this.canvas.height);
    pen.textBaseline = "alphabetic";
    const style = getComputedStyle(document.body);
    for (const title of this.titles) {
      pen.fillStyle = style.getPropertyValue("--ink");
      pen.font = "600 12px system-ui, sans-serif";
      const name = shortened(pen, title.text || "all nodes", title.width - 46);
      pen.fillText(name, title.left, title.top + 14);
      const used = pen.measureText(name).width;
      pen.fillStyle = style.getPropertyValue("--muted");
      pen.font = "12px system-ui, sans-serif";
      pen.fillText(title.count.toLocaleString("en"), title.left + used + 7, title.top + 14);
    }
    this.colours = new Array(this.codes.length);
    for (let row = 0; row < this.codes.length; row++) this.paint(row, colour(row), marked(row), tones);
    if (this.selected >= 0) this.outline(this.selected, tones);
  }

  // Paints changed cells.
  refresh(rows, colour, marked) {
    const tones = scale();
    for (const row of rows) if (row < this.codes.length) this.paint(row, colour(row), marked(row), tones);
    if (this.selected >= 0) this.outline(this.selected, tones);
  }

  paint(row, colour, mark, tones) {
    const key = colour + mark;
    if (this.colours[row] === key) return;
    this.colours[row] = key;
    const pen = this.pen;
    const [x, y, size] = [this.cells[row * 2], this.cells[row * 2 + 1], this.size];
    pen.clearRect(x - 1, y - 1, size + 2, size + 2);
    pen.fillStyle = colour;
    pen.fillRect(x, y, size, size);
    if (mark && size >= 6) {
      pen.strokeStyle = tones.mark;
      pen.globalAlpha = 0.55;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x + 1, y + size - 1);
      pen.lineTo(x + size - 1, y + 1);
      pen.stroke();
      pen.globalAlpha = 1;
    }
  }

  outline(row, tones) {
    const pen = this.pen;
    pen.strokeStyle = tones.line;
    pen.lineWidth = 2;
    pen.strokeRect(this.cells[row * 2], this.cells[row * 2 + 1], this.size, this.size);
  }

  // The node next to the selected one, for the arrow keys.
  next(key) {
    if (this.selected < 0) return this.members.find((each) => each.length)?.[0] ?? -1;
    const group = this.members[this.codes[this.selected]];
    const place = group.indexOf(this.selected);
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.fit, ArrowUp: -this.fit };
    const wanted = place + steps[key];
    if (wanted >= 0 && wanted < group.length) return group[wanted];
    const other = this.codes[this.selected] + Math.sign(steps[key]);
    const beside = this.members[other];
    return beside?.length ? (steps[key] > 0 ? beside[0] : beside[beside.length - 1]) : this.selected;
  }
}

function shortened(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && pen.measureText(text.slice(0, end) + "…").width > width) end = Math.floor(end * 0.8);
  return text.slice(0, end) + "…";
}
