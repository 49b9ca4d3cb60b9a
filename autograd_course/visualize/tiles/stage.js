// The stage of tiled attention: the score matrix in tiles, the operands at its sides, a row's sums.

const TILES = {
  strip: 26, gap: 4, head: 18, number: 40, factor: 52, bar: 68, sum: 42, wide: 256, tall: 300, // viewBox units
  wider: 330, // the matrix where rows are too low for figures
  least: 5, most: 32, // sides of a cell
  texted: 24, figured: 12, // from this side on a cell has a number, and a row its figures
  parts: 1000, // of a full bar
};

// The numbers in a row's columns, by their names; the third column is the factor's.
const COLUMNS = [["m"], ["ℓ", "D"], [], ["L"]];

/** Change only what is new: each change of an SVG's style is laid out anew. */
const assign = (element, name, value) => {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
};

/** Paths for rows of digits 0 … 8, a path a digit; `across` puts rows of digits into columns. */
function heated(rows, x, y, width, height, across = false) {
  const paths = {}, fine = (number) => Math.round(100 * number) / 100;
  const cell = `h${fine(width)}v${fine(height)}h${-fine(width)}z`;
  rows.forEach((digits, i) => [...digits].forEach((digit, j) => {
    const [left, top] = across ? [i, j] : [j, i];
    paths[digit] = `${paths[digit] ?? ""}M${fine(x + left * width)} ${fine(y + top * height)}${cell}`;
  }));
  delete paths[0]; // nothing to see
  return Object.entries(paths).map(([digit, d]) => draw("path", { class: `ac-tiles-heat ac-tiles-${digit}`, d }));
}

/** One tensor in blocks beside the matrix: at the left or right a row a token, on top a column. */
class Strip {
  constructor(name, label, blocks, { x, y, cell, across = false }) {
    Object.assign(this, { name, label, cell, across, x, y });
    this.gradient = name.startsWith("grad");
    this.blocks = blocks.map(([start, stop]) => this.block(start, stop));
    this.element = draw("g", { class: `ac-tiles-strip${this.gradient ? " ac-tiles-gradient" : ""}` },
      this.title(), ...this.blocks.map(({ element }) => element));
  }

  title() {
    const { x, y, across, label } = this, { strip } = TILES;
    return across
      ? draw("text", { x: x - 6, y: y + strip / 2 + 4, "text-anchor": "end", text: label })
      : draw("text", { x: x + strip / 2, y: y - 6, "text-anchor": "middle", text: label });
  }

  block(start, stop) {
    const { x, y, cell, across } = this, { strip } = TILES, long = (stop - start) * cell - 2;
    const box = across
      ? { x: x + start * cell + 1, y, width: long, height: strip }
      : { x, y: y + start * cell + 1, width: strip, height: long };
    const values = draw("g"), rim = draw("rect", { class: "ac-tiles-block", ...box });
    return { box, values, rows: stop - start, shown: null, element: draw("g", {}, values, rim) };
  }

  /** Show a block's values, or nothing while there are none. */
  fill(index, rows) {
    const block = this.blocks[index];
    if (block.shown === rows) return;
    block.shown = rows;
    if (!rows) return block.values.replaceChildren();
    const { box: { x, y, width, height } } = block, wide = rows[0].length;
    const sizes = this.across ? [width / rows.length, height / wide] : [width / wide, height / rows.length];
    block.values.replaceChildren(...heated(rows, x, y, ...sizes, this.across));
  }

  hold(index) {
    this.blocks.forEach(({ element }, i) => element.classList.toggle("ac-tiles-held", i === index));
  }
}

/** What one query keeps between tiles: numbers, the last factor, and a bar made of its parts; `ends`
    are the right ends of the columns. `begin` is shown before its first tile. */
class Row {
  constructor(ends, y, height, bar, begin) {
    Object.assign(this, { y, height, from: bar, bars: [], begin });
    const text = (x, className = "") => draw("text", {
      x, y: y + height / 2 + 4, "text-anchor": "end", class: className });
    this.numbers = ends.map((x) => text(x));
    this.factor = text(ends[2], "ac-tiles-factor");
    this.ghost = draw("rect", { class: "ac-tiles-ghost", ...this.span(bar, 0.9) });
    this.bar = draw("g");
    this.element = draw("g", {}, this.bar, this.ghost, ...(height >= TILES.figured
      ? [...this.numbers, this.factor] : []));
  }

  span(x, part) {
    const height = Math.min(15, this.height * 0.72) * part;
    return { x, y: this.y + (this.height - height) / 2, height, width: 0 };
  }

  show(figures, now) {
    const { texts, factor, parts, ghost } = figures ?? this.begin;
    this.numbers.forEach((number, i) => write(number, COLUMNS[i].map((name) => texts[name]).find(Boolean) ?? ""));
    this.element.classList.toggle("ac-tiles-unbegun", !figures);
    write(this.factor, now ? factor : "");
    assign(this.ghost, "width", now ? ghost * TILES.bar / TILES.parts : 0);
    this.ghost.toggleAttribute("hidden", !now || !ghost);
    this.element.classList.toggle("ac-tiles-now", now);
    this.drawBar(parts, now);
  }

  drawBar(parts, now) {
    while (this.bars.length > parts.length) this.bars.pop().remove();
    let begin = this.from;
    parts.forEach((part, i) => {
      const width = part * TILES.bar / TILES.parts;
      this.bars[i] ??= this.newBar(begin);
      const newest = now && i === parts.length - 1 ? " ac-tiles-newest" : "";
      assign(this.bars[i], "class", `ac-tiles-part${newest}`);
      assign(this.bars[i], "style", `x: ${begin.toFixed(2)}px; width: ${width.toFixed(2)}px;`);
      begin += width;
    });
  }

  newBar(x) {
    const bar = draw("rect", { class: "ac-tiles-part", ...this.span(x, 1) });
    this.bar.append(bar);
    return bar;
  }
}
