// The memory timeline: the variants, the chart, a player, and the tensors saved at the current event.

import { clamp, draw, fadeEdges, keepKeys, leadTo, listen, make, shownValue, write } from "../kit/kit.js";
import { Player } from "../kit/player.js";
import { initialize } from "../kit/saving.js";

// The chart of a memory timeline: stacked bands, the outlines of the other variants, and the budget.

const STAGE = { height: 300, left: 66, right: 14, top: 24, bottom: 28, least: 320 };
const READABLE = 15; // the minimum size of a band that shows its letter, in pixels

class TimelineChart {
  /** `onMove(event, pressed)` gets the event under the pointer, and `onLeave()` runs when it leaves. */
  constructor({ onMove, onLeave }) {
    this.unique = `ac-memory-${Math.random().toString(36).slice(2)}`;
    this.ground = draw("g", { "aria-hidden": "true" });
    this.areas = draw("g");
    this.overlay = draw("g");
    this.cursor = draw("rect", { class: "ac-memory-cursor" });
    this.dot = draw("circle", { class: "ac-memory-dot", r: 5 });
    this.element = draw("svg", { class: "ac-memory-chart", role: "img", height: STAGE.height },
      this.patterns(), this.ground, this.areas, this.overlay, this.cursor, this.dot);
    const at = (event) => onMove(this.eventAt(event.clientX), event.buttons > 0);
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      onMove(this.eventAt(event.clientX), true);
    });
    this.element.addEventListener("pointermove", at);
    this.element.addEventListener("pointerleave", onLeave);
  }

  patterns() {
    const tile = (name, size, ...marks) => draw("pattern", {
      id: `${this.unique}-${name}`, width: size, height: size, patternUnits: "userSpaceOnUse" }, ...marks);
    return draw("defs", {},
      tile("hidden", 8, draw("path", { d: "M-2 2l4-4M0 8l8-8M6 10l4-4", class: "ac-memory-hatch" })),
      tile("again", 8, draw("circle", { cx: 4, cy: 4, r: 1.5, class: "ac-memory-speck" })));
  }

  /** Draw a variant of the story in front of the others. `line` is "", "alive" or "allocated". */
  show(story, variant, { budget, line }) {
    Object.assign(this, { story, variant, line });
    this.width = Math.max(STAGE.least, Math.floor(this.element.parentNode?.clientWidth || 0));
    this.element.setAttribute("viewBox", `0 0 ${this.width} ${STAGE.height}`);
    this.element.setAttribute("width", this.width);
    this.marks = line ? story.scales.alive : story.scales.kept;
    this.top = this.marks.at(-1)[0] * 1.03;
    this.rule();
    this.stack();
    this.limit(budget);
  }

  px(place) {
    return STAGE.left + (place / this.story.end) * (this.width - STAGE.left - STAGE.right);
  }

  py(bytes) {
    return STAGE.height - STAGE.bottom - (bytes / this.top) * (STAGE.height - STAGE.top - STAGE.bottom);
  }

  /** Return the event at a horizontal position in the window. */
  eventAt(clientX) {
    const box = this.element.getBoundingClientRect(), { places } = this.variant;
    const x = ((clientX - box.left) / box.width) * this.width;
    const after = places.findIndex((place) => this.px(place) > x);
    return clamp(after < 0 ? places.length : after - 1, 0, places.length - 2);
  }

  rule() {
    const low = this.py(0), right = this.width - STAGE.right;
    const lines = this.marks.flatMap(([value, label]) => [
      draw("line", { class: "ac-memory-grid", x1: STAGE.left, x2: right, y1: this.py(value), y2: this.py(value) }),
      draw("text", { x: STAGE.left - 8, y: this.py(value) + 4, "text-anchor": "end", text: label })]);
    const phases = [["forward →", 0, 1], ["backward ∂ →", 1, 2], ["after", 2, this.story.end]];
    const names = phases.map(([name, from, to]) => draw("text", {
      x: this.px((from + to) / 2), y: low + 19, "text-anchor": "middle", text: name }));
    this.ground.replaceChildren(...lines, ...names);
  }

  stack() {
    const { variant, story } = this, floor = variant.kept.map(() => 0), shapes = [], letters = [];
    for (const group of variant.stacked) {
      const low = [...floor], row = variant.bands[group];
      row.forEach((bytes, i) => { floor[i] += bytes; });
      const { label, letter, hidden, again } = story.groups[group], d = this.area(low, floor);
      shapes.push(draw("path", { class: `ac-memory-band ac-memory-${group}`, d }, draw("title", { text: label })));
      const mark = hidden ? "hidden" : again ? "again" : null;
      if (mark) shapes.push(draw("path", { d, fill: `url(#${this.unique}-${mark})`, "pointer-events": "none" }));
      letters.push(...this.letter(letter, low, row));
    }
    this.areas.replaceChildren(...shapes, ...this.dividers(), ...this.ghosts(),
      draw("path", { class: "ac-memory-outline", d: this.steps(variant, variant.kept) }), ...letters, ...this.peak());
  }

  dividers() {
    return [1, 2].map((place) => draw("line", {
      class: "ac-memory-divider", x1: this.px(place), x2: this.px(place), y1: STAGE.top - 8, y2: this.py(0) }));
  }

  /** Return the outlines of the other variants, or the total memory of the selected variant. */
  ghosts() {
    const { line, variant } = this;
    if (line && variant[line]) return this.more(variant[line], variant.moreText[line]);
    return this.story.variants.flatMap((other, i) => {
      if (other === variant) return [];
      const d = this.steps(other, other.kept);
      return [draw("path", { class: "ac-memory-halo", d }),
        draw("path", { class: `ac-memory-ghost ac-memory-dash-${i}`, d }, draw("title", { text: other.name }))];
    });
  }

  more(values, text) {
    const most = Math.max(...values), at = values.indexOf(most), x = this.px(this.variant.places[at]);
    const late = x > this.width / 2;
    return [
      draw("path", { class: "ac-memory-more", d: this.steps(this.variant, values) }),
      draw("text", { class: "ac-memory-more-text", x: x + (late ? -6 : 6), y: this.py(most) - 6,
        "text-anchor": late ? "end" : "start", text })];
  }

  /** Return a band's letter, in the middle of the widest part that has room for it. */
  letter(letter, low, row) {
    const { places } = this.variant;
    let best = null;
    for (let i = 0, j; i < row.length; i = j) {
      for (j = i + 1; j < row.length && row[j] === row[i] && low[j] === low[i];) j++;
      const width = this.px(places[j]) - this.px(places[i]), height = this.py(0) - this.py(row[i]);
      if (height >= READABLE && width >= READABLE && width > (best?.width ?? 0)) {
        best = { width, x: this.px((places[i] + places[j]) / 2), y: this.py(low[i] + row[i] / 2) + 4.5 };
      }
    }
    if (!best) return [];
    return [draw("text", { class: "ac-memory-letter", x: best.x, y: best.y, "text-anchor": "middle", text: letter })];
  }

  peak() {
    const { variant } = this;
    if (!variant.peak) return [];
    const x = this.px(variant.places[variant.peakAt]), y = this.py(variant.peak), late = x > this.width * 0.72;
    return [
      draw("path", { class: "ac-memory-peak", d: `M${x} ${y - 3}l-5 -8h10z` }),
      draw("text", { class: "ac-memory-peak-text", x: x + (late ? -9 : 9), y: y - 5,
        "text-anchor": late ? "end" : "start", text: variant.peakText })];
  }

  /** Draw the budget as a horizontal line, or remove the line if the budget is `null`. */
  limit(budget) {
    if (!budget) return this.overlay.replaceChildren();
    const y = this.py(Math.min(budget.value, this.top));
    this.overlay.replaceChildren(
      draw("line", { class: "ac-memory-halo", x1: STAGE.left, x2: this.width - STAGE.right, y1: y, y2: y }),
      draw("line", { class: "ac-memory-budget", x1: STAGE.left, x2: this.width - STAGE.right, y1: y, y2: y }),
      draw("text", { class: "ac-memory-budget-text", x: this.width - STAGE.right, y: y - 6,
        "text-anchor": "end", text: `budget ${budget.label}` }));
  }

  /** Move the cursor to an event. */
  point(step) {
    const { places, kept } = this.variant, x = this.px(places[step]);
    const width = Math.max(3, this.px(places[step + 1]) - x);
    for (const [name, value] of Object.entries({
      x, width, y: STAGE.top - 8, height: this.py(0) - STAGE.top + 8 })) this.cursor.setAttribute(name, value);
    this.dot.setAttribute("cx", x + width / 2);
    this.dot.setAttribute("cy", this.py(kept[step]));
  }

  steps({ places }, values) {
    let path = `M${this.px(0)} ${this.py(values[0]).toFixed(1)}`;
    values.forEach((value, i) => {
      path += `V${this.py(value).toFixed(1)}H${this.px(places[i + 1]).toFixed(1)}`;
    });
    return path;
  }

  area(low, high) {
    const { places } = this.variant, back = [];
    for (let i = low.length - 1; i >= 0; i--) {
      back.push(`L${this.px(places[i + 1]).toFixed(1)} ${this.py(low[i]).toFixed(1)}L${this.px(places[i]).toFixed(1)} ${this.py(low[i]).toFixed(1)}`);
    }
    return `${this.steps(this.variant, high)}${back.join("")}Z`;
  }
}

const PHASES = { start: "Start", forward: "Forward", backward: "Backward ∂", after: "After" };
const LINES = { alive: "all tensors that the call creates", allocated: "the memory of the CUDA allocator" };

/** The table that compares the variants. Its radio buttons select a variant. */
class Variants {
  constructor(onChoose) {
    this.onChoose = onChoose;
    this.element = fadeEdges(make("div", {
      className: "ac-memory-compare", role: "radiogroup", "aria-label": "Variant" }));
    this.group = `variant-${Math.random().toString(36).slice(2)}`;
  }

  show(story, budgeted) {
    const [peak, ...columns] = story.columns;
    const heads = ["variant", peak, ...(budgeted ? ["budget"] : []), ...columns];
    this.rows = story.variants.map((variant, i) => this.row(variant, i, budgeted));
    for (const { row } of this.rows) [...row.cells].forEach((cell, i) => { cell.dataset.label = heads[i]; });
    this.element.replaceChildren(make("table", {},
      make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col", text })))),
      make("tbody", {}, ...this.rows.map(({ row }) => row))));
  }

  row({ name, cells }, i, budgeted) {
    const radio = make("input", { type: "radio", name: this.group, value: name });
    radio.addEventListener("change", () => this.onChoose(name));
    const dash = draw("svg", { width: 30, height: 10, "aria-hidden": "true" },
      draw("path", { d: "M1 5H29", class: `ac-memory-ghost ac-memory-dash-${i}` }));
    const verdict = make("td", { className: "ac-memory-verdict" });
    const row = make("tr", {},
      make("th", { scope: "row" }, make("label", {}, radio, dash, make("span", { text: name }))),
      ...cells.map((text) => make("td", { text })));
    if (budgeted) row.children[1].after(verdict);
    row.addEventListener("click", () => radio.checked || this.onChoose(name));
    return { row, radio, verdict };
  }

  choose(index) {
    this.rows.forEach(({ row, radio }, i) => {
      radio.checked = i === index;
      row.classList.toggle("ac-memory-chosen", i === index);
    });
  }

  judge(verdicts) {
    this.rows.forEach(({ verdict }, i) => {
      verdict.textContent = verdicts[i];
      verdict.dataset.fits = verdicts[i].startsWith("✓");
    });
  }
}

/** The tensors that are saved after an event, the largest first, and the tensors that the event frees. */
class KeptList {
  constructor() {
    this.head = make("h4");
    this.body = make("tbody");
    this.more = make("p", { className: "ac-memory-rest" });
    const heads = ["", "owner", "bytes", "tensor", "shape", "dtype"];
    this.table = make("table", {},
      make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col", text })))), this.body);
    this.element = make("div", { className: "ac-memory-list", role: "region", "aria-label": "Saved at this moment", tabindex: 0 },
      this.head, this.table, this.more);
  }

  show(story, { items, keptTexts, more }, step) {
    const there = items.filter(({ born, freed }) => born <= step && (freed === null || step <= freed));
    const rows = there.slice(0, story.rows).map((item) => this.row(story, item, step));
    this.head.textContent = `Saved at this moment: ${keptTexts[step]}`;
    this.table.hidden = !rows.length;
    this.body.replaceChildren(...rows);
    this.more.textContent = more[step] ? `and ${more[step]} more` : rows.length ? "" : "Nothing.";
  }

  row(story, item, step) {
    const gone = item.freed === step, fresh = item.born === step;
    const sign = gone ? "− freed" : fresh ? "+ new" : "";
    return make("tr", { className: gone ? "ac-memory-gone" : fresh ? "ac-memory-fresh" : "" },
      make("td", {}, this.swatch(story, item.group)),
      make("th", { scope: "row" }, make("span", { text: item.owner }), ...this.small(item.module)),
      make("td", { text: item.size }),
      make("td", {}, make("span", { text: item.what }), make("b", { text: sign && ` ${sign}` }),
        ...this.small(item.note), ...(item.line ? [make("code", { text: item.line })] : [])),
      make("td", { text: item.shape }), make("td", { text: item.dtype }));
  }

  small(text) {
    return text ? [make("small", { text })] : [];
  }

  swatch(story, group) {
    if (group === null) return make("span", { className: "ac-memory-swatch ac-memory-none", text: "–" });
    return make("span", { className: `ac-memory-swatch ac-memory-${group}`, text: story.groups[group].letter });
  }
}

class MemoryTimeline {
  constructor(model, element) {
    this.model = model;
    this.chart = new TimelineChart({
      onMove: (step, pressed) => (pressed ? this.player.go(step) : this.preview(step)),
      onLeave: () => this.preview(null),
    });
    this.variants = new Variants((name) => this.choose(name));
    this.list = new KeptList();
    this.player = new Player((step) => this.go(step), (last) => (last > 60 ? 150 : 800));
    this.line = "";
    this.hovered = null;
    this.build(element);
    this.deaf = listen(model, {
      story: () => this.tell(), budgets: () => this.tell(), variant: () => this.redraw(),
      step: () => this.paint(), budget: () => this.judge(),
    });
    this.tell();
    this.observer = new ResizeObserver(() => this.stage.clientWidth !== this.drawnAt && this.redraw());
    this.observer.observe(this.stage);
  }

  build(element) {
    this.phase = make("span", { className: "ac-memory-phase" });
    this.sentence = make("span", { className: "ac-memory-told" });
    this.amount = make("strong", { className: "ac-memory-amount" });
    this.status = make("div", { className: "ac-status ac-memory-status", role: "status" },
      this.phase, this.sentence, this.amount);
    this.stage = fadeEdges(make("div", { className: "ac-memory-stage" }, this.chart.element));
    this.legend = make("ul", { className: "ac-memory-legend", "aria-label": "Bands" });
    this.options = make("div", { className: "ac-memory-options" });
    this.root = make("div", { className: "ac ac-memory", role: "group" },
      this.variants.element, this.stage, this.legend, this.player.element, this.status, this.options, this.list.element);
    leadTo(this.player.scrubber, this.stage);
    keepKeys(this.root, (event) => this.pressed(event));
    element.append(this.root);
  }

  get index() { return Math.max(0, this.story.variants.findIndex(({ name }) => name === this.model.get("variant"))); }
  get variant() { return this.story.variants[this.index]; }
  get last() { return this.variant.kept.length - 1; }
  get step() { return clamp(this.model.get("step"), 0, this.last); }

  /** Show what the kernel has sent. */
  tell() {
    this.story = this.model.get("story");
    this.budgets = this.model.get("budgets");
    this.root.setAttribute("aria-label", this.story.title);
    this.variants.show(this.story, Boolean(this.budgets));
    this.offer();
    this.redraw();
  }

  offer() {
    const boxes = Object.entries(LINES).filter(([name]) => this.story.variants.every((v) => v[name])).map(([name, text]) => {
      const box = make("input", { type: "checkbox" });
      box.checked = this.line === name;
      box.addEventListener("change", () => {
        this.line = box.checked ? name : "";
        this.options.querySelectorAll("[type=checkbox]").forEach((other) => { other.checked = other === box && box.checked; });
        this.redraw();
      });
      return make("label", { className: "ac-memory-box" }, box, make("span", { text: `also show ${text}` }));
    });
    this.options.replaceChildren(...(this.budgets ? [this.slider()] : []), ...boxes);
  }

  slider() {
    const { values } = this.budgets;
    this.range = make("input", { type: "range", min: 0, max: values.length - 1, step: 1, "aria-label": "budget" });
    this.range.value = values.indexOf(this.model.get("budget"));
    this.range.addEventListener("input", () => this.judge(Number(this.range.value)));
    this.range.addEventListener("change", () => {
      this.model.set("budget", values[Number(this.range.value)]);
      this.model.save_changes();
    });
    this.told = shownValue();
    return make("label", { className: "ac-slider" }, make("span", { text: "budget" }), this.range, this.told);
  }

  /** Compare all variants with the budget at a slider position or, by default, with the model's budget. */
  judge(position) {
    if (!this.budgets) return this.chart.limit(null);
    const { values, labels, verdicts } = this.budgets;
    const at = position ?? values.indexOf(this.model.get("budget"));
    if (at < 0) return;
    this.range.value = at;
    this.range.setAttribute("aria-valuetext", labels[at]);
    this.told.textContent = labels[at];
    this.variants.judge(verdicts[at]);
    this.chart.limit({ value: values[at], label: labels[at] });
  }

  redraw() {
    this.drawnAt = this.stage.clientWidth;
    this.variants.choose(this.index);
    this.chart.show(this.story, this.variant, { budget: null, line: this.line });
    this.legend.replaceChildren(...this.variant.stacked.map((group) =>
      make("li", {}, this.list.swatch(this.story, group), make("span", { text: this.story.groups[group].label }))));
    this.judge(this.range && this.budgets ? Number(this.range.value) : undefined);
    this.paint();
  }

  preview(step) {
    if (step === this.hovered) return;
    this.hovered = step;
    this.paint();
  }

  paint() {
    const { variant } = this, step = this.hovered ?? this.step, phase = variant.phases[step];
    this.chart.point(step);
    write(this.phase, PHASES[phase]);
    this.phase.dataset.phase = phase;
    write(this.sentence, variant.texts[step]);
    const also = this.line === "alive" ? `, at most ${variant.aliveTexts[step]} in all tensors` : "";
    write(this.amount, `${variant.keptTexts[step]} saved${also}`);
    this.chart.element.setAttribute("aria-label",
      `${variant.name}: ${variant.peakText}. At event ${step} of ${this.last}, ${variant.keptTexts[step]} saved`);
    this.list.show(this.story, variant, step);
    this.player.place(this.step, this.last);
  }

  go(step) {
    this.hovered = null;
    this.model.set("step", clamp(step, 0, this.last));
    this.model.save_changes();
    this.paint();
  }

  /** Select another variant, and go to the same point of its pass. */
  choose(name) {
    this.player.pause();
    const place = this.variant.places[this.step], other = this.story.variants.find((v) => v.name === name);
    const step = Math.max(0, other.places.filter((at) => at <= place + 1e-6).length - 1);
    this.model.set("step", Math.min(step, other.kept.length - 1));
    this.model.set("variant", name);
    this.model.save_changes();
  }

  pressed(event) {
    const actions = this.player.keys(event.target);
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }

  dispose() {
    this.player.pause();
    this.observer.disconnect();
    this.deaf();
    this.root.remove();
  }
}

function render({ model, el }) {
  const timeline = new MemoryTimeline(model, el);
  return () => timeline.dispose();
}

export default { initialize, render };
