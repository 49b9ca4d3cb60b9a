// The chart of a memory timeline: stacked bands in steps, the other variants' outlines, the budget.

const STAGE = { height: 300, left: 66, right: 14, top: 24, bottom: 28, least: 320 };
const READABLE = 15; // pixels that a band needs for its letter

class TimelineChart {
  /** `onMove(event, pressed)` is told over which event the pointer is; `onLeave()` that it is gone. */
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

  /** Return the event under a horizontal place of the window. */
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

  /** The other variants' outlines; or, of the variant in front, what lives besides. */
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

  /** The letter of a band, in the middle of its widest piece. */
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

  /** The budget as a line across; `null` for none. */
  limit(budget) {
    if (!budget) return this.overlay.replaceChildren();
    const y = this.py(Math.min(budget.value, this.top));
    this.overlay.replaceChildren(
      draw("line", { class: "ac-memory-halo", x1: STAGE.left, x2: this.width - STAGE.right, y1: y, y2: y }),
      draw("line", { class: "ac-memory-budget", x1: STAGE.left, x2: this.width - STAGE.right, y1: y, y2: y }),
      draw("text", { class: "ac-memory-budget-text", x: this.width - STAGE.right, y: y - 6,
        "text-anchor": "end", text: `budget ${budget.label}` }));
  }

  /** Put the cursor on an event. */
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
