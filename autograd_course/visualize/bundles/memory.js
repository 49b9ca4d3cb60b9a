// Built from memory/widget.js by `make notebooks`: edit the sources named below.

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

// memory/widget.js
// The memory timeline: the variants, the chart, a player, and the tensors saved at the current event.

const { clamp, draw, fadeEdges, keepKeys, leadTo, listen, make, shownValue, write } = $kit_kit;
const { Player } = $kit_player;
const { initialize } = $kit_saving;

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

//# sourceURL=autograd_course/visualize/bundles/memory.js
