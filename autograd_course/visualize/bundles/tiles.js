// Built from tiles/widget.js by `make notebooks`: edit the sources named below.

// kit/kit.js
const $kit_kit = (() => {
// Helpers that all widgets of the course share.

const SVG = "http://www.w3.org/2000/svg";
const PATIENCE = 5000; // milliseconds to wait for the kernel's answer
const SILENCE = "The kernel has not answered, so the inputs have their old values again. " +
  "If it is busy, move the slider again later. If it was restarted, run the cell again.";

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const same = (one, other) => Object.keys(one).every((name) => one[name] === other[name]);

/** Return the focused element in the page or shadow tree that contains `element`, or null. */
const focus = (element) => element.getRootNode().activeElement ?? null;

/** Create an HTML element from the options {className, text, …attributes} and children. */
function make(tag, options = {}, ...children) {
  return filled(document.createElement(tag), options, children);
}

/** Set an element's text only if it differs. Otherwise, a screen reader would read a live region again, and
    the browser would lay out an SVG again. */
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Create an SVG element in the same way. */
function draw(tag, options = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), options, children);
}

function filled(element, { className, text, ...attributes }, children) {
  if (className) element.setAttribute("class", className);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** When the reader clicks a drawing, focus a control, so that further keys do not go to the notebook. */
function leadTo(control, drawing) {
  drawing.addEventListener("mousedown", (event) => {
    if (!event.target.closest("svg")) return;
    event.preventDefault();
    control.focus({ preventScroll: true });
  });
}

function button(label, face, onClick) {
  const element = make("button", { type: "button", "aria-label": label, title: label }, face);
  element.addEventListener("click", () => element.ariaDisabled === "true" || onClick());
  return element;
}

/** Disable or enable a button with `aria-disabled`, which lets the button keep the focus. With
    `disabled`, it would lose the focus, and further keys would go to the notebook. */
function resting(element, now) {
  element.setAttribute("aria-disabled", now);
}

/** Create the visible value next to a slider. It has no role, because the slider itself announces its value
    to screen readers. */
function shownValue() {
  return make("output", { role: "none" });
}

/** Fade each side of a box where more content is hidden. Return the box. */
function fadeEdges(box) {
  const mark = () => {
    const hidden = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.dataset.more = [box.scrollLeft > 1 && "left", hidden > 1 && "right"].filter(Boolean).join(" ");
  };
  const sizes = new ResizeObserver(mark);
  const watch = () => {
    sizes.disconnect();
    for (const part of [box, ...box.children]) sizes.observe(part);
  };
  new MutationObserver(watch).observe(box, { childList: true });
  box.addEventListener("scroll", mark, { passive: true });
  watch();
  return box;
}

/** Keep keys inside the widget, because "d d" would delete the cell in JupyterLab. The page still receives
    the shortcut for saving. */
function keepKeys(root, onKey = () => {}) {
  root.addEventListener("keydown", (event) => {
    const saves = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s";
    if (!saves) event.stopPropagation();
    if (!event.ctrlKey && !event.metaKey && !event.altKey) onKey(event);
  });
}

/** Listen to changes of the model's traits: {name: callback}. Return a function that stops listening. */
function listen(model, heard) {
  const events = Object.entries(heard).map(([name, call]) => [`change:${name}`, call]);
  for (const [event, call] of events) model.on(event, call);
  return () => events.forEach(([event, call]) => model.off(event, call));
}

/** Questions to the kernel. They are sent one at a time, and only the newest waiting question is kept. If
    the kernel does not answer within PATIENCE, `onSilence` is called. */
class Questions {
  constructor(send, onSilence) {
    this.send = send;
    this.onSilence = onSilence;
    this.timer = null;
    this.waiting = null;
  }

  ask(inputs) {
    if (this.timer) {
      this.waiting = inputs;
      return;
    }
    this.waiting = null;
    this.timer = setTimeout(() => {
      this.stop();
      this.onSilence();
    }, PATIENCE);
    this.send(inputs);
  }

  /** End the current question. Return the waiting question, or null. */
  answered() {
    const { waiting } = this;
    this.stop();
    return waiting;
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = this.waiting = null;
  }
}

return { SVG, SILENCE, still, clamp, same, focus, make, write, draw, leadTo, button, resting, shownValue, fadeEdges, keepKeys, listen, Questions };
})();

// kit/player.js
const $kit_player = (() => {
// Playback of a story in steps, with buttons, a scrubber and a count.

const { button, clamp, draw, make, resting } = $kit_kit;

const ICONS = {
  start: "M2 2h2v12H2zM14 2v12L5 8z",
  back: "M12 2v12L3 8z",
  play: "M3 1.5v13L14 8z",
  pause: "M3 2h4v12H3zM9 2h4v12H9z",
  next: "M4 2v12l9-6z",
  end: "M12 2h2v12h-2zM2 2v12l9-6z",
};

function icon(name) {
  return draw("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, draw("path", { d: ICONS[name] }));
}

/** Controls for the steps 0 … last. `onStep(step)` goes to a step, and `place` shows the current step.
    If a story opens at its last step, the first step forward leads to the beginning. */
class Player {
  constructor(onStep, pace = () => 900) {
    this.onStep = onStep;
    this.pace = pace; // milliseconds per step while playing
    this.step = this.last = 0;
    this.untold = true;
    this.build();
  }

  build() {
    this.toStart = button("First step (Home)", icon("start"), () => this.go(0));
    this.previous = button("Step back (left arrow)", icon("back"), () => this.go(this.step - 1));
    this.player = button("Play (space)", icon("play"), () => this.toggle());
    this.next = button("Step forward (right arrow)", icon("next"), () => this.forward());
    this.toEnd = button("Last step (End)", icon("end"), () => this.go(this.last));
    this.scrubber = make("input", { type: "range", min: 0, step: 1, "aria-label": "step" });
    this.scrubber.addEventListener("input", () => this.go(Number(this.scrubber.value)));
    this.scrubber.addEventListener("keydown", (event) => {
      const begins = this.untold && this.step === this.last && ["ArrowRight", "ArrowUp"].includes(event.key);
      if (event.key !== " " && !begins) return;
      event.preventDefault();
      event.stopPropagation();
      if (begins) this.forward();
      else this.toggle();
    });
    this.parts = make("span", { className: "ac-phases", "aria-hidden": "true" });
    this.count = make("span", { className: "ac-count" });
    this.element = make("div", { className: "ac-controls", role: "group", "aria-label": "Playback" },
      this.toStart, this.previous, this.player, this.next, this.toEnd,
      make("span", { className: "ac-scrub" }, this.scrubber, this.parts), this.count);
  }

  /** Show below the scrubber which part of the steps is forward, and which part is backward. */
  phases(forward, backward) {
    this.parts.replaceChildren(...Object.entries({ forward, backward }).map(([text, steps]) =>
      make("span", { "data-phase": text, style: `flex-grow: ${steps}`, text })));
  }

  place(step, last) {
    Object.assign(this, { step, last });
    this.scrubber.max = last;
    this.scrubber.value = step;
    this.scrubber.setAttribute("aria-valuetext", `step ${step} of ${last}`);
    this.count.textContent = `${step} / ${last}`;
    for (const back of [this.toStart, this.previous]) resting(back, step === 0);
    resting(this.toEnd, step === last);
    resting(this.next, step === last && !this.untold);
  }

  /** Go to the step that the reader has chosen, and stop playing. */
  go(step) {
    this.pause();
    this.untold = false;
    this.onStep(clamp(step, 0, this.last));
    this.place(this.step, this.last);
  }

  forward() {
    this.go(this.untold && this.step === this.last ? 0 : this.step + 1);
  }

  toggle() {
    if (this.timer) return this.pause();
    this.untold = false;
    this.face("pause", "Pause (space)");
    if (this.step === this.last) this.onStep(0);
    const tick = () => (this.step === this.last ? this.pause() : this.onStep(this.step + 1));
    this.timer = setInterval(tick, this.pace(this.last));
    tick();
  }

  pause() {
    if (!this.timer) return;
    clearInterval(this.timer);
    this.timer = null;
    this.face("play", "Play (space)");
  }

  face(name, label) {
    this.player.replaceChildren(icon(name));
    this.player.setAttribute("aria-label", label);
    this.player.title = label;
  }

  /** Return the keys that work everywhere in the widget, without those that the target itself needs. */
  keys(target) {
    if (target.matches("input, select")) return {};
    const steps = {
      ArrowRight: () => this.forward(), ArrowLeft: () => this.go(this.step - 1),
      Home: () => this.go(0), End: () => this.go(this.last),
    };
    return target.matches("button, summary") ? steps : { ...steps, " ": () => this.toggle() };
  }
}

return { Player };
})();

// kit/saving.js
const $kit_saving = (() => {
// A saved notebook contains only a widget's picture. The class Saved in live.py explains why.

const VIEW = "application/vnd.jupyter.widget-view+json";
const WATCHED = Symbol.for("autograd_course.watched"); // shared by all widgets, so that only one patches the notebook

/** Make JupyterLab save the widget's notebook without live views, and restore the views whose widgets the
    kernel still has. The widget does not wait for this. In other front ends, this does nothing. */
function initialize({ model }) {
  const manager = model.widget_manager, context = manager?.context;
  if (!context?.model?.toJSON) return;
  context.ready.then(() => {
    withoutViews(context.model);
    revive(context.model, manager);
  });
}

/** Make a notebook leave out its live views when it is saved. They remain on the page. */
function withoutViews(notebook) {
  if (notebook[WATCHED]) return;
  notebook[WATCHED] = true;
  const whole = notebook.toJSON.bind(notebook);
  notebook.toJSON = () => {
    const saved = whole();
    return { ...saved, cells: saved.cells.map((cell) => (cell.outputs ? { ...cell, outputs: cell.outputs.map(pictured) } : cell)) };
  };
}

/** Remove the live view from an output of the course. The view's id remains in the metadata. */
function pictured(output) {
  if (!output.metadata?.[VIEW]?.model_id || !output.data?.[VIEW]) return output;
  const { [VIEW]: _, ...data } = output.data;
  return { ...output, data };
}

/** In a reopened notebook, show a live view again if the kernel still has its widget. */
function revive(notebook, manager) {
  const { dirty } = notebook;
  for (const { outputs } of notebook.cells) {
    for (let i = 0; i < (outputs?.length ?? 0); i++) {
      const output = outputs.get(i).toJSON(), view = output.metadata?.[VIEW];
      if (!view?.model_id || output.data[VIEW] || !manager.has_model?.(view.model_id)) continue;
      outputs.set(i, { ...output, data: { ...output.data, [VIEW]: view } });
    }
  }
  notebook.dirty = dirty; // the saved file would be the same
}

return { initialize };
})();

// tiles/widget.js
// The attention tiles widget. Python writes all words and numbers.

const { clamp, draw, fadeEdges, keepKeys, leadTo, listen, make, write } = $kit_kit;
const { Player } = $kit_player;
const { initialize } = $kit_saving;

// The picture of tiled attention: the score matrix in tiles, with the operands and the sums next to it.

const TILES = {
  strip: 26, gap: 4, head: 18, number: 40, factor: 52, bar: 68, sum: 42, wide: 256, tall: 300, // viewBox units
  wider: 330, // the width of a matrix whose rows are too low for numbers
  least: 5, most: 32, // minimum and maximum side of a cell
  texted: 24, figured: 12, // minimum cell sizes for numbers in the cells, and for numbers next to the rows
  parts: 1000, // number of parts in a full bar
};

// The names of the numbers in a row's columns. The third column contains the factor.
const COLUMNS = [["m"], ["ℓ", "D"], [], ["L"]];

/** Set an attribute only if it differs, because each change of an SVG's style causes a new layout. */
const assign = (element, name, value) => {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
};

/** Return a path for each digit in rows of digits from 0 to 8. With `across`, the rows become columns. */
function heated(rows, x, y, width, height, across = false) {
  const paths = {}, fine = (number) => Math.round(100 * number) / 100;
  const cell = `h${fine(width)}v${fine(height)}h${-fine(width)}z`;
  rows.forEach((digits, i) => [...digits].forEach((digit, j) => {
    const [left, top] = across ? [i, j] : [j, i];
    paths[digit] = `${paths[digit] ?? ""}M${fine(x + left * width)} ${fine(y + top * height)}${cell}`;
  }));
  delete paths[0]; // zero is invisible
  return Object.entries(paths).map(([digit, d]) => draw("path", { class: `ac-tiles-heat ac-tiles-${digit}`, d }));
}

/** One tensor in blocks next to the matrix. A token is a row at the sides, and a column on top. */
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

  /** Show a block's values, or nothing if it has no values yet. */
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

/** What one query keeps between tiles: numbers, the last factor, and a bar that consists of parts. `ends`
    are the right ends of the columns. `begin` is shown before the query's first tile. */
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

// The score matrix in tiles, with everything around it.

class Matrix {
  constructor(onTile) {
    this.onTile = onTile;
    this.element = fadeEdges(make("div", { className: "ac-tiles-stage" }));
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

  /** Show the state after a step. `now` is its frame, combined with the results of earlier frames. */
  paint(now) {
    const back = sideOf(now) === "backward";
    this.element.classList.toggle("ac-tiles-back", back);
    this.paintTiles(now);
    this.paintStrips(now, back);
    const [start, stop] = now.tile ? this.story.rows[now.tile[0]] : [0, 0];
    this.rows.forEach((row, i) => row.show(now.figures[i], i >= start && i < stop));
    const heads = back ? ["", "D", "", "L", "Σ P, max 1"] : ["m", "ℓ", "×r", "L", `ℓ, max ${this.story.longest}`];
    this.heads.forEach((head, i) => write(head, heads[i]));
    this.describe(now.figures);
  }

  /** Describe the numbers of the rows for screen readers. */
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

const PHASES = { start: "Start", forward: "Forward", backward: "Backward", end: "End" };
const HURRY = { few: 1500, many: 500, manySteps: 60 }; // milliseconds per step while playing

/** Combine the frames up to a step. Python does the same for the picture. */
function upTo({ frames }, step) {
  const state = { figures: {}, filled: {}, trail: [] };
  for (const frame of frames.slice(0, step + 1)) {
    if (frame.kind === "delta") state.trail = [];
    if (frame.tile) state.trail.push(frame.tile);
    Object.assign(state.figures, frame.figures);
    Object.assign(state.filled, frame.filled);
  }
  return { ...frames[step], ...state };
}

const sideOf = ({ phase }) => (phase === "backward" || phase === "end" ? "backward" : "forward");

/** The memory that a tile needs, compared with the full matrix as a single tile. */
class Memory {
  constructor() {
    this.turn = this.row("this tile");
    this.whole = this.row("full matrix");
    this.parts = make("p", { className: "ac-tiles-note" });
    this.note = make("p", { className: "ac-tiles-note" });
    this.element = make("div", { className: "ac-tiles-memory", role: "group", "aria-label": "Memory" },
      make("h4", { text: "In memory at once" }), this.turn.line, this.whole.line, this.parts, this.note);
  }

  row(label) {
    const square = make("i", { className: "ac-tiles-square" }), rest = make("i", { className: "ac-tiles-rest" });
    const size = make("strong"); // a screen reader would announce an output element at each step
    const track = make("span", { className: "ac-tiles-track", "aria-hidden": "true" }, square, rest);
    return { square, rest, size, line: make("div", {}, make("span", { text: label }), track, size) };
  }

  show(now, { whole, memory }) {
    const { held } = now;
    this.fill(this.turn, held ?? { text: "nothing", square: 0, all: 0 });
    this.fill(this.whole, whole[sideOf(now)]);
    this.parts.textContent = held ? `${held.parts}.` : "Between tiles: only the inputs and finished results.";
    this.note.textContent = memory;
  }

  fill({ square, rest, size }, held) {
    square.style.width = `${100 * held.square}%`;
    rest.style.width = `${100 * (held.all - held.square)}%`;
    size.textContent = held.text;
  }
}

/** The whole widget. It keeps the step and choices, plays the steps, and communicates with the model. */
class AttentionView {
  constructor(model, element) {
    this.model = model;
    this.matrix = new Matrix((row, column) => this.visit(row, column));
    this.memory = new Memory();
    const pace = (last) => (last > HURRY.manySteps ? HURRY.many : HURRY.few);
    this.player = new Player((step) => this.go(step), pace);
    this.build(element);
    this.deaf = listen(model, {
      stories: () => this.tell(), block: () => this.tell(), causal: () => this.tell(), step: () => this.paint() });
    this.tell();
  }

  build(element) {
    this.phase = make("span", { className: "ac-tiles-phase" });
    this.sentence = make("span");
    this.status = make("div", { className: "ac-status ac-tiles-status", role: "status" }, this.phase, " ", this.sentence);
    this.caption = make("p", { className: "ac-tiles-note" });
    const panes = make("div", { className: "ac-tiles-panes" },
      make("div", { className: "ac-tiles-pane" }, this.matrix.element, this.caption), this.memory.element);
    this.root = make("div", { className: "ac ac-tiles", role: "group" }, this.choices(), panes, this.player.element, this.status);
    leadTo(this.player.scrubber, this.matrix.element);
    keepKeys(this.root, (event) => this.pressed(event));
    element.append(this.root);
  }

  choices() {
    const blocks = [...new Set(Object.values(this.model.get("stories")).map(({ block }) => block))];
    this.block = make("select", { "aria-label": "tile size" },
      ...blocks.map((text) => make("option", { value: text, text })));
    this.block.addEventListener("change", () => this.choose({ block: this.block.value }));
    this.causal = make("input", { type: "checkbox" });
    this.causal.addEventListener("change", () => this.choose({ causal: this.causal.checked }));
    return make("div", { className: "ac-controls ac-tiles-choices" },
      make("label", {}, "tile ", this.block), make("label", {}, this.causal, " causal"));
  }

  get story() {
    const { model } = this, name = `${model.get("block")}${model.get("causal") ? " causal" : ""}`;
    return model.get("stories")[name].story;
  }

  get last() { return this.story.frames.length - 1; }
  get step() { return clamp(this.model.get("step"), 0, this.last); }

  /** Show the selected run. */
  tell() {
    if (this.told !== this.story) {
      this.told = this.story;
      this.matrix.show(this.told);
      const forward = this.told.frames.findLastIndex(({ phase }) => phase === "forward");
      this.player.phases(forward, this.last - forward);
      this.root.setAttribute("aria-label", this.told.title);
    }
    this.block.value = this.model.get("block");
    this.causal.checked = this.model.get("causal");
    this.paint();
  }

  paint() {
    const now = upTo(this.story, this.step);
    this.matrix.paint(now);
    this.memory.show(now, this.story);
    this.caption.textContent = this.story.captions[sideOf(now)];
    write(this.phase, PHASES[now.phase]);
    this.phase.dataset.phase = now.phase;
    write(this.sentence, now.text);
    this.player.place(this.step, this.last);
  }

  /** Select another run, and go to the corresponding step in it. */
  choose(changed) {
    this.player.pause();
    const { story, step } = this;
    for (const [name, value] of Object.entries(changed)) this.model.set(name, value);
    this.model.set("step", counterpart(story, step, this.story));
    this.model.save_changes();
  }

  go(step) {
    const after = clamp(step, 0, this.last);
    if (after === this.step) return;
    this.model.set("step", after);
    this.model.save_changes();
  }

  /** Go to the step at which the current phase processes a tile. */
  visit(row, column) {
    const phase = this.matrix.element.classList.contains("ac-tiles-back") ? "backward" : "forward";
    const step = this.story.frames.findIndex((frame) =>
      frame.phase === phase && frame.tile?.[0] === row && frame.tile[1] === column);
    if (step >= 0) this.player.go(step);
  }

  pressed(event) {
    const keys = this.player.keys(event.target);
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  }

  dispose() {
    this.player.pause();
    this.deaf();
    this.root.remove();
  }
}

/** Return the step of another run whose tile contains the same query and key in the same phase. If there is
    none, return the step at the same fraction of the run. */
function counterpart(from, step, to) {
  const { phase, kind, tile } = from.frames[step], pair = tile && [from.rows[tile[0]][0], from.columns[tile[1]][0]];
  const holds = (one) => one && [to.rows[one[0]], to.columns[one[1]]].every(
    ([start, stop], axis) => start <= pair[axis] && pair[axis] < stop);
  const found = to.frames.findIndex((frame) => frame.phase === phase
    && (tile ? holds(frame.tile) : kind !== "done" && frame.kind === kind));
  const part = step / (from.frames.length - 1);
  return found >= 0 ? found : Math.round(part * (to.frames.length - 1));
}

function render({ model, el }) {
  const view = new AttentionView(model, el);
  return () => view.dispose();
}

export default { initialize, render };

//# sourceURL=autograd_course/visualize/bundles/tiles.js
