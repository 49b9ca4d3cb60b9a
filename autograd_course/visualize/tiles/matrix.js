// The score matrix in tiles, and everything around it in its place.

class Matrix {
  constructor(onTile) {
    this.onTile = onTile;
    this.element = make("div", { className: "ac-tiles-stage" });
    this.hatch = `ac-tiles-hatch-${Math.random().toString(36).slice(2)}`;
  }

  show(story) {
    this.story = story;
    this.measure(story);
    this.strips();
    this.grid();
    this.figures();
    this.compose();
  }

  measure({ rows, columns }) {
    const { strip, gap, head, number, factor, bar, sum } = TILES;
    this.n = rows.at(-1)[1];
    this.m = columns.at(-1)[1];
    const fitting = (wide) => Math.min(wide / this.m, Math.max(TILES.tall, wide) / this.n, TILES.most);
    const figured = this.figured = fitting(TILES.wide) >= TILES.figured;
    this.cell = figured ? fitting(TILES.wide) : fitting(TILES.wider);
    this.left = 2 * strip + gap + 9;
    this.top = 4 * (strip + gap) + head;
    this.right = this.left + this.m * this.cell + 4;
    this.bar = this.right + (figured ? 2 * number + factor : 8);
    this.ends = [number - 4, 2 * number - 4, 2 * number + factor - 11, this.bar - this.right + bar + sum - 6]
      .map((at) => this.right + at);
    this.after = this.bar + bar + (figured ? sum : 0) + 10;
    this.width = this.after + 2 * strip + gap + 2;
    this.height = this.top + this.n * this.cell + 3;
  }

  strips() {
    const { story: { rows, columns, given }, left, top, after, cell } = this;
    const step = TILES.strip + TILES.gap;
    const side = (name, label, x) => new Strip(name, label, rows, { x, y: top, cell });
    const above = (name, label, place) => new Strip(
      name, label, columns, { x: left, y: place * step, cell, across: true });
    this.perRow = [
      side("grad_q", "∂Q", 1), side("q", "Q", 1 + step),
      side("out", "O", after), side("grad_out", "∂O", after + step)];
    this.perColumn = [
      above("grad_v", "∂Vᵀ", 0), above("grad_k", "∂Kᵀ", 1), above("v", "Vᵀ", 2), above("k", "Kᵀ", 3)];
    for (const line of [...this.perRow, ...this.perColumn]) {
      line.given = given[line.name] && (line.across ? columns : rows).map(
        ([start, stop]) => given[line.name].slice(start, stop));
    }
  }

  grid() {
    const { story: { rows, columns, skipped, hidden }, left, top, cell } = this;
    const half = (from, [start, stop]) => from + (start + stop) * cell / 2;
    this.middles = rows.map((row) => columns.map((column) => `${half(left, column)} ${half(top, row)}`));
    this.tiles = rows.map(([start, stop], i) => columns.map(([first, last], j) => {
      const rect = draw("rect", {
        class: "ac-tiles-tile", x: left + first * cell + 1, y: top + start * cell + 1,
        width: (last - first) * cell - 2, height: (stop - start) * cell - 2, rx: 2 });
      rect.addEventListener("click", () => this.onTile(i, j));
      return rect;
    }));
    const off = new Set(skipped.map(([i, j]) => this.tiles[i][j]));
    off.forEach((tile) => {
      tile.classList.add("ac-tiles-skipped");
      tile.style.fill = `url(#${this.hatch})`;
    });
    const inTile = (blocks, at) => blocks.findIndex(([start, stop]) => start <= at && at < stop);
    const dot = (i, j) => `M${left + (j + 0.5) * cell - 1.5} ${top + (i + 0.5) * cell}h3`;
    const dots = hidden.flatMap((row, i) => [...row].map((one, j) => (
      one === "1" && !off.has(this.tiles[inTile(rows, i)][inTile(columns, j)]) ? dot(i, j) : "")));
    this.dots = draw("path", { class: "ac-tiles-dots", d: dots.join("") || "M0 0" });
    this.trail = draw("path", { class: "ac-tiles-trail", d: "M0 0" });
    this.cells = draw("g", { class: "ac-tiles-cells" });
  }

  figures() {
    const { right, top, cell, bar, ends, figured, story: { rows, begin } } = this;
    this.rows = Array.from({ length: this.n }, (_, i) => new Row(ends, top + i * cell, cell, bar, begin));
    const at = (x, anchor = "end") => draw("text", { x, y: top - 6, "text-anchor": anchor });
    this.heads = [...ends.map((x) => at(x)), at(bar, "start")];
    this.heads.slice(0, -1).forEach((head) => head.toggleAttribute("hidden", !figured));
    const end = bar + TILES.bar;
    const lines = rows.map(([start]) => `M${right + 6} ${top + start * cell}H${figured ? ends[3] : end}`);
    this.rule = draw("g", { class: "ac-tiles-rule" },
      draw("path", { d: lines.join("") }), draw("path", { d: `M${end} ${top}V${top + this.n * cell}` }));
  }

  compose() {
    const lines = draw("pattern", {
      id: this.hatch, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)",
    }, draw("line", { class: "ac-tiles-hatch", x1: 0, x2: 0, y1: 0, y2: 6 }));
    this.element.replaceChildren(draw("svg", {
      viewBox: `0 0 ${this.width} ${this.height}`, role: "img", "aria-label": this.story.title,
    }, draw("defs", {}, lines), ...this.tiles.flat(), this.dots, this.trail, this.cells,
    ...[...this.perRow, ...this.perColumn].map(({ element }) => element),
    this.rule, ...this.heads, ...this.rows.map(({ element }) => element)));
  }

  /** Show the state after a step; `now` is its frame, with all that earlier ones have left. */
  paint(now) {
    const back = sideOf(now) === "backward";
    this.element.classList.toggle("ac-tiles-back", back);
    this.paintTiles(now);
    this.paintStrips(now, back);
    const [start, stop] = now.tile ? this.story.rows[now.tile[0]] : [0, 0];
    this.rows.forEach((row, i) => row.show(now.figures[i], i >= start && i < stop));
    const heads = back ? ["", "D", "", "L", "Σ P, to 1"] : ["m", "ℓ", "×r", "L", `ℓ, to ${this.story.longest}`];
    this.heads.forEach((head, i) => write(head, heads[i]));
    this.describe(now.figures);
  }

  /** Tell the rows' figures to those who hear the picture. */
  describe(figures) {
    const told = Object.entries(this.figured ? figures : {}).map(([row, { texts }]) =>
      `row ${row}: ${Object.entries(texts).map(([name, text]) => `${name} = ${text}`).join(", ")}`);
    const heard = told.length ? ` ${told.join("; ")}.` : "";
    assign(this.element.firstChild, "aria-label", this.story.title + heard);
  }

  paintTiles({ tile, trail, cells, phase }) {
    const done = tile ? trail.slice(0, -1) : trail, now = tile && this.tiles[tile[0]][tile[1]];
    const gone = new Set(done.map(([i, j]) => this.tiles[i][j]));
    for (const rect of this.tiles.flat()) {
      rect.classList.toggle("ac-tiles-done", gone.has(rect));
      rect.classList.toggle("ac-tiles-now", rect === now);
    }
    const axis = phase === "forward" ? 0 : 1; // forward goes along rows, backward down columns
    const path = done.map((place, at) =>
      `${at && done[at - 1][axis] === place[axis] ? "L" : "M"}${this.middles[place[0]][place[1]]}h0`);
    assign(this.trail, "d", path.join("") || "M0 0");
    this.paintCells(tile, cells);
  }

  paintCells(tile, cells) {
    if (!cells) return this.cells.replaceChildren();
    const { cell, left, top, story } = this;
    const x = left + story.columns[tile[1]][0] * cell, y = top + story.rows[tile[0]][0] * cell;
    const texts = cell >= TILES.texted && cells.texts ? cells.texts.flatMap((row, i) => row.map((text, j) =>
      draw("text", { x: x + (j + 0.5) * cell, y: y + (i + 0.5) * cell + 4, "text-anchor": "middle", text }))) : [];
    this.cells.replaceChildren(...heated(cells.heat, x, y, cell, cell), ...texts);
  }

  paintStrips({ tile, filled }, back) {
    for (const line of [...this.perRow, ...this.perColumn]) {
      const known = line.given && (back || !line.gradient);
      line.blocks.forEach((_, i) => line.fill(
        i, known ? line.given[i] : filled[`${line.name} ${i}`] ?? null));
      const place = tile?.[line.across ? 1 : 0];
      const used = line.name === "out" ? !back : !line.gradient || back;
      line.hold(used ? place : null);
    }
  }
}
