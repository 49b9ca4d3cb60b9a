// Built from functionlab/widget.js by `make notebooks`: edit the sources named below.

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

// kit/plot.js
const $kit_plot = (() => {
// A plot with axes, curves, straight lines and points. The reader can drag its x.

const { clamp, draw } = $kit_kit;

const FRAME = { width: 560, height: 300, left: 46, right: 14, top: 12, bottom: 30 };

/** Return round values in a range, about `count` of them and at least three. */
function ticks([low, high], count = 5) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const multiples = (step) => {
    const found = [];
    for (let i = Math.ceil(low / step); i * step <= high + step * 1e-6; i++) found.push(i * step);
    return found;
  };
  const steps = [10, 5, 2, 1, 0.5].map((digit) => digit * power), fine = steps.findLastIndex((step) => step >= rough);
  const found = steps.slice(fine).map(multiples).find(({ length }) => length > 2);
  return found.map((value) => Number(value.toPrecision(6)));
}

/** Everything in a plot has a name. Drawing something with the same name replaces it. `frame` can override
    values of FRAME. */
class Plot {
  constructor({ label, x, y, onMove, frame }) {
    this.x = x;
    this.y = y;
    this.frame = { ...FRAME, ...frame };
    this.drawn = new Map();
    this.axes = draw("g", { "aria-hidden": "true" });
    this.layer = draw("g");
    this.element = draw("svg", {
      class: "ac-plot", role: "img", "aria-label": label, viewBox: `0 0 ${this.frame.width} ${this.frame.height}`,
    }, this.axes, this.layer);
    this.ruled();
    if (onMove) this.draggable(onMove);
  }

  /** Let the reader drag. `onMove(x)` gets the x under the pointer. */
  draggable(onMove) {
    const at = ({ clientX }) => {
      const box = this.element.getBoundingClientRect();
      onMove(this.across(((clientX - box.left) / box.width) * this.frame.width));
    };
    this.element.style.cursor = "ew-resize";
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      at(event);
    });
    this.element.addEventListener("pointermove", (event) => event.buttons && at(event));
  }

  /** Set the ranges for everything that is drawn from now on. */
  range(x, y) {
    Object.assign(this, { x, y });
    this.ruled();
  }

  ruled() {
    const { left, right, top, bottom, width, height } = this.frame;
    const across = ticks(this.x, clamp(width / 63, 3, 8)).flatMap((value) => [
      draw("line", { class: "ac-grid", x1: this.px(value), x2: this.px(value), y1: top, y2: height - bottom }),
      draw("text", { x: this.px(value), y: height - bottom + 17, "text-anchor": "middle", text: value })]);
    const up = ticks(this.y, clamp(height / 60, 2, 5)).flatMap((value) => [
      draw("line", { class: "ac-grid", x1: left, x2: width - right, y1: this.py(value), y2: this.py(value) }),
      draw("text", { x: left - 7, y: this.py(value) + 4, "text-anchor": "end", text: value })]);
    const zero = (value, [low, high]) => clamp(value, low, high);
    const axes = [
      draw("line", { class: "ac-axis", x1: left, x2: width - right, y1: this.py(zero(0, this.y)), y2: this.py(zero(0, this.y)) }),
      draw("line", { class: "ac-axis", x1: this.px(zero(0, this.x)), x2: this.px(zero(0, this.x)), y1: top, y2: height - bottom })];
    this.axes.replaceChildren(...across, ...up, ...axes);
  }

  px(x) {
    const { left, right, width } = this.frame, [low, high] = this.x;
    return left + ((x - low) / (high - low)) * (width - left - right);
  }

  py(y) {
    const { top, bottom, height } = this.frame, [low, high] = this.y;
    return height - bottom - ((y - low) / (high - low)) * (height - top - bottom);
  }

  /** Return the x at a horizontal position in the drawing. */
  across(px) {
    const { left, right, width } = this.frame, [low, high] = this.x;
    return clamp(low + ((px - left) / (width - left - right)) * (high - low), low, high);
  }

  /** Draw a curve through [x, y] pairs. It has gaps where y is null, not finite, or far off the plot. */
  curve(name, points, className = "ac-curve") {
    const [low, high] = this.y, reach = high - low;
    let pen = "M", path = "";
    for (const [x, y] of points) {
      const off = y === null || !Number.isFinite(y) || y > high + reach || y < low - reach;
      if (!off) path += `${pen}${this.px(x).toFixed(1)} ${this.py(y).toFixed(1)}`;
      pen = off ? "M" : "L";
    }
    this.put(name, draw("path", { class: className, d: path || "M0 0", "clip-path": this.clip() }));
  }

  /** Draw the straight line through (x, y) with a slope, or nothing if one of the numbers is not finite. */
  line(name, { x, y, slope }, className = "ac-line") {
    if (![x, y, slope].every(Number.isFinite)) return this.put(name, null);
    const [low, high] = this.x, at = (place) => y + slope * (place - x);
    this.put(name, draw("line", {
      class: className, "clip-path": this.clip(),
      x1: this.px(low), x2: this.px(high), y1: this.py(at(low)), y2: this.py(at(high)),
    }));
  }

  /** Draw a straight line from one [x, y] to another. */
  segment(name, [x1, y1], [x2, y2], className = "ac-line") {
    this.put(name, draw("line", {
      class: className, "clip-path": this.clip(),
      x1: this.px(x1), y1: this.py(y1), x2: this.px(x2), y2: this.py(y2),
    }));
  }

  /** Draw a vertical line at x over the full height of the plot. */
  upright(name, x, className = "ac-upright") {
    const { top, bottom, height } = this.frame, at = this.px(x);
    this.put(name, draw("line", { class: className, x1: at, x2: at, y1: top, y2: height - bottom }));
  }

  /** Shade intervals of x, [[low, high], …], with a sign in the margin above each interval. */
  bands(name, stretches, className = "ac-band", sign = "") {
    const { top, bottom, height } = this.frame;
    const marks = stretches.flatMap(([low, high]) => [
      draw("rect", { x: this.px(low), width: this.px(high) - this.px(low), y: top, height: height - top - bottom }),
      draw("text", { x: this.px((low + high) / 2), y: top - 4, "text-anchor": "middle", text: sign })]);
    const band = draw("g", { class: className }, ...marks);
    this.drawn.get(name)?.remove();
    this.layer.prepend(band); // behind the curves
    this.drawn.set(name, band);
  }

  point(name, x, y, className = "ac-point") {
    const seen = Number.isFinite(y) && y >= this.y[0] && y <= this.y[1];
    this.put(name, seen ? draw("circle", { class: className, r: 6, cx: this.px(x), cy: this.py(y) }) : null);
  }

  put(name, element) {
    const before = this.drawn.get(name);
    if (element && before) before.replaceWith(element);
    else if (element) this.layer.append(element);
    else before?.remove();
    if (element) this.drawn.set(name, element);
    else this.drawn.delete(name);
  }

  /** Return a reference to the plot's frame as a clip path. */
  clip() {
    if (!this.clipped) {
      this.clipped = `ac-clip-${Math.random().toString(36).slice(2)}`;
      const { left, right, top, bottom, width, height } = this.frame;
      const frame = draw("rect", { x: left, y: top, width: width - left - right, height: height - top - bottom });
      this.element.prepend(draw("clipPath", { id: this.clipped }, frame));
    }
    return `url(#${this.clipped})`;
  }
}

return { FRAME, Plot };
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

// functionlab/widget.js
// The Function lab. Python writes all words and numbers, and the page shows the frame for the current x.
// Moving x does not need the kernel, but choosing another function or parameter does.

const { draw, focus, keepKeys, leadTo, listen, make, Questions, same, shownValue, SILENCE, write } = $kit_kit;
const { Player } = $kit_player;
const { Plot } = $kit_plot;
const { initialize } = $kit_saving;

// The source of forward and backward, with the lines that have run and the values that each line created.

/** The source with marks and notes. A step is [row, phase, note]. Clicking a line goes to its last step. */
class Source {
  constructor(onRow) {
    this.onRow = onRow;
    this.notice = make("p", { className: "ac-notice" });
    this.kept = make("div", { className: "ac-lab-kept" });
    this.sent = make("div", { className: "ac-lab-sent" });
    this.parts = make("div", { className: "ac-lab-parts", tabindex: 0, role: "region", "aria-label": "Source of forward and backward" });
    this.element = make("div", { className: "ac-lab-source" }, this.parts, this.notice);
  }

  show(source) {
    this.rows = [];
    this.own = source.own;
    const of = (phase) => source.parts.filter((part) => part.phase === phase).map((part) => this.part(part));
    this.parts.replaceChildren(...of("forward"), this.kept, ...of("backward"), this.sent);
    this.notice.textContent = source.notice;
  }

  part({ heading, phase, rows }) {
    const lines = rows.map((spans) => this.row(spans));
    return make("div", { className: `ac-lab-part ac-lab-${phase}` },
      make("p", { className: "ac-lab-heading", text: `${phase === "backward" ? "∂ " : ""}${heading}` }),
      make("ol", {}, ...lines));
  }

  /** Create a line of source. A long line wraps, and its continuation has a slightly larger indentation. */
  row(spans) {
    const text = spans.map(([, part]) => part).join(""), indent = text.length - text.trimStart().length;
    const code = make("code", { style: `padding-left: ${indent + 2}ch; text-indent: -2ch` },
      ...spans.map(([kind, part], i) => make("span",
        { ...(kind && { className: `ac-lab-${kind}` }), text: i ? part : part.trimStart() })));
    const mark = make("span", { className: "ac-lab-mark", "aria-hidden": "true" });
    const note = make("span", { className: "ac-lab-note" });
    const element = make("li", {}, mark, code, note);
    const row = this.rows.length;
    element.addEventListener("click", () => this.onRow(row));
    this.rows.push({ element, mark, note, text: text.trim() });
    return element;
  }

  /** Show what has happened up to a step, and return the sentence about this step. */
  paint(frame, step) {
    const done = frame.steps.slice(0, step + 1), now = done.at(-1);
    const notes = new Map();
    for (const [row, , note] of done) if (note || !notes.has(row)) notes.set(row, note);
    this.rows.forEach(({ element, mark, note }, row) => {
      const current = now?.[0] === row;
      element.toggleAttribute("data-ran", notes.has(row));
      element.toggleAttribute("data-now", current);
      if (current) element.setAttribute("aria-current", "step");
      else element.removeAttribute("aria-current");
      mark.textContent = current ? "▶" : notes.has(row) ? "•" : "";
      note.textContent = notes.get(row) ?? "";
    });
    this.beside(frame, step, now);
    return now ? this.sentence(now) : "";
  }

  /** Show the contents of ctx when forward has ended, and the result of backward after the last step. */
  beside(frame, step, now) {
    const forwardOver = !now || now[1] === "backward" || step === frame.steps.length - 1;
    const things = (frame.kept ?? []).map(([name, text, what]) => make("div", {},
      make("b", { text: name }), ` = ${text} `, make("span", { className: "ac-lab-what", text: what })));
    const none = forwardOver && frame.kept ? "nothing" : "…";
    const title = make("p", { className: "ac-lab-heading", text: "ctx stores for backward" });
    this.kept.hidden = !this.own;
    this.kept.replaceChildren(title, ...(forwardOver && things.length ? things : [make("div", { text: none })]));
    this.sent.textContent = !now || step === frame.steps.length - 1 ? frame.sent : "";
  }

  sentence([row, phase, note]) {
    const { text } = this.rows[row];
    return [phase === "forward" ? "Forward" : "Backward", text, note || "no new value"].join(" · ");
  }

  /** Scroll the panel to the current line without scrolling the page. */
  follow(row) {
    const { parts } = this, element = this.rows[row]?.element;
    if (!element) return;
    const box = parts.getBoundingClientRect(), line = element.getBoundingClientRect();
    if (line.top < box.top) parts.scrollTop -= box.top - line.top + 8;
    if (line.bottom > box.bottom) parts.scrollTop += line.bottom - box.bottom + 8;
  }
}

// The curve with its tangents, the slider for x below it, and the plot of the slopes over x.

const TANGENT = 85; // half the length of a tangent, in units of the drawing
const UPPER = { width: 440, height: 250, left: 40, right: 12, bottom: 24 };
const LOWER = { ...UPPER, height: 150, top: 20 };

/** `onMove(index)` is called while the reader drags, and `onRest()` when the reader lets go. */
class Curves {
  constructor(onMove, onRest) {
    this.onMove = onMove;
    const drag = { x: [0, 1], y: [0, 1], onMove: (x) => onMove(this.nearest(x)) };
    this.upper = new Plot({ ...drag, label: "", frame: UPPER });
    this.lower = new Plot({ ...drag, label: "", frame: LOWER });
    this.range = make("input", { type: "range", min: 0, step: 1 });
    this.range.addEventListener("input", () => onMove(Number(this.range.value)));
    this.range.addEventListener("change", onRest);
    for (const { element } of [this.upper, this.lower]) {
      element.addEventListener("pointerup", onRest);
      leadTo(this.range, element);
    }
    this.build();
  }

  build() {
    const number = () => make("b");
    [this.here, this.value, this.claimed, this.found] = [number(), number(), number(), number()];
    this.legend = make("div", { className: "ac-lab-legend" },
      make("span", { className: "ac-lab-key" }, this.here),
      this.key("forward-line", "forward", this.value),
      this.key("claimed", "∂ backward", this.claimed),
      this.key("found", "finite differences", this.found));
    this.overview = make("p", { className: "ac-lab-overview" });
    this.caption = make("div", { className: "ac-lab-caption" });
    this.element = make("div", { className: "ac-lab-curves" },
      this.legend, this.upper.element, make("div", { className: "ac-lab-x" }, this.range),
      this.caption, this.lower.element, this.overview);
  }

  key(kind, text, number) {
    const line = draw("line", { class: `ac-lab-${kind}`, x1: 1, x2: 29, y1: 6, y2: 6 });
    const sample = draw("svg", { viewBox: "0 0 30 12", "aria-hidden": "true" }, line);
    return make("span", { className: "ac-lab-key" }, sample, text, number);
  }

  /** Show the parts of a sweep that do not depend on the current x. */
  show(scene) {
    const { ranges, slopes, bands } = scene;
    this.scene = scene;
    this.upper.range(ranges.x, ranges.y);
    this.lower.range(ranges.x, ranges.slope);
    this.upper.bands("open", bands.open, "ac-lab-open");
    this.upper.bands("differ", bands.differ, "ac-lab-differ");
    this.upper.curve("curve", scene.curve);
    this.lower.bands("open", bands.open, "ac-lab-open", "?");
    this.lower.bands("differ", bands.differ, "ac-lab-differ", "✗");
    this.lower.curve("backward", slopes.backward, "ac-lab-claimed");
    this.lower.curve("differences", slopes.differences, "ac-lab-found");
    this.chosen(slopes.chosen);
    this.range.max = scene.positions.length - 1;
    this.range.setAttribute("aria-label", scene.variable);
    this.upper.element.setAttribute("aria-label", `Forward over ${scene.variable}, with both tangents`);
    this.lower.element.setAttribute("aria-label", `Slope over ${scene.variable}. ${scene.overview}`);
    this.caption.textContent = `slope over ${scene.variable}`;
    this.overview.textContent = scene.overview;
  }

  /** Draw the gradients that backward returns at points where forward has no slope. */
  chosen(points) {
    const dots = points.map(([x, y]) => y !== null &&
      draw("circle", { r: 4, cx: this.lower.px(x), cy: this.lower.py(y) }));
    this.lower.put("chosen", draw("g", { class: "ac-lab-chosen", "clip-path": this.lower.clip() }, ...dots.filter(Boolean)));
  }

  nearest(x) {
    const { positions } = this.scene;
    let best = 0;
    positions.forEach((at, i) => { if (Math.abs(at - x) < Math.abs(positions[best] - x)) best = i; });
    return best;
  }

  /** Show the tangents, points and numbers at a position. */
  place(index) {
    const x = this.scene.positions[index], frame = this.scene.frames[index], { y, slope, sides } = frame;
    const [left, right] = sides?.length === 2 ? sides : [sides?.[0] ?? null, sides?.[0] ?? null];
    this.tangent("claimed", x, y, slope, -1, 1);
    this.tangent("found left", x, y, left, -1, 0);
    this.tangent("found right", x, y, right, 0, 1);
    this.upper.point("here", x, y);
    this.upper.upright("guide", x);
    this.lower.upright("guide", x);
    this.lower.point("claimed here", x, slope, "ac-lab-claimed-here");
    this.lower.point("found here", x, left === right ? left : null, "ac-lab-found-here");
    this.here.textContent = `${this.scene.variable} = ${frame.label}`;
    this.value.textContent = frame.value;
    this.claimed.textContent = frame.byBackward;
    this.found.textContent = frame.byDifferences;
    this.range.value = index;
    this.range.setAttribute("aria-valuetext", `${this.scene.variable} = ${frame.label}. ${frame.sentence}`);
  }

  /** Draw a tangent that has the same length on the page for every slope. */
  tangent(name, x, y, slope, from, to) {
    const { upper } = this;
    if (y === null || slope === null) return upper.put(name, null);
    const run = upper.px(x + 1) - upper.px(x), rise = slope * (upper.py(y + 1) - upper.py(y));
    const reach = TANGENT / Math.hypot(run, rise);
    const end = (side) => [x + side * reach, y + side * reach * slope];
    upper.segment(name, end(from), end(to), name === "claimed" ? "ac-lab-claimed" : "ac-lab-found");
  }
}

/** The menu of functions, and a slider for each parameter. `onAsk(choice)` requests another sweep. */
class Choice {
  constructor(onAsk) {
    this.onAsk = onAsk;
    this.select = make("select", { "aria-label": "Function" });
    this.select.addEventListener("change", () => onAsk({ function: this.select.value, parameters: {} }));
    this.sliders = make("div", { className: "ac-lab-sliders" });
    this.element = make("div", { className: "ac-lab-choice" }, this.select, this.sliders);
    this.known = "";
  }

  /** Show the choice that the kernel has run, or the choice that the reader has made since. */
  show({ functions, sliders, answers }, wanted) {
    const shape = JSON.stringify([functions, sliders.map(({ name, values }) => [name, values])]);
    if (shape !== this.known) this.build(functions, sliders);
    this.known = shape;
    const { function: chosen, parameters } = wanted ?? answers;
    this.select.value = chosen;
    for (const [i, { name, values, index }] of sliders.entries()) {
      const place = values.indexOf(parameters[name]);
      this.set(i, place < 0 ? index : place);
    }
  }

  build(functions, sliders) {
    const focused = this.rows?.findIndex(({ range }) => range === focus(this.element)) ?? -1;
    this.select.replaceChildren(...functions.map((name) => make("option", { value: name, text: name })));
    this.select.hidden = functions.length < 2;
    this.rows = sliders.map((slider, i) => this.row(slider, i));
    this.sliders.replaceChildren(...this.rows.map(({ element }) => element));
    this.rows[focused]?.range.focus();
  }

  row(slider, i) {
    const label = slider.name === "grad_output" ? "∂ grad_output" : slider.name;
    const range = make("input", { type: "range", min: 0, max: slider.values.length - 1, step: 1, "aria-label": slider.name });
    const output = shownValue();
    range.addEventListener("input", () => {
      this.set(i, Number(range.value));
      this.onAsk(this.asked());
    });
    const element = make("label", { className: "ac-slider" }, make("span", { text: label }), range, output);
    return { slider, range, output, element };
  }

  set(i, index) {
    const { slider, range, output } = this.rows[i];
    range.value = index;
    range.setAttribute("aria-valuetext", slider.labels[index]);
    output.textContent = slider.labels[index];
  }

  asked() {
    const parameters = this.rows.map(({ slider, range }) => [slider.name, slider.values[Number(range.value)]]);
    return { function: this.select.value, parameters: Object.fromEntries(parameters) };
  }
}

/** The whole lab. It keeps the current x and step, and communicates with the model. */
class Lab {
  constructor(model, element) {
    this.model = model;
    this.choice = new Choice((choice) => this.ask(choice));
    this.curves = new Curves((index) => this.move(index), () => this.rest());
    this.source = new Source((row) => this.goTo(row));
    this.player = new Player((step) => this.go(step));
    this.questions = new Questions((choice) => this.send(choice), () => this.giveUp());
    this.build(element);
    this.deaf = listen(model, { scene: () => this.hear(), x: () => this.paint(), step: () => this.paint() });
    this.tell();
  }

  build(element) {
    this.verdict = make("div", { className: "ac-lab-verdict", role: "status" });
    this.notice = make("p", { className: "ac-notice", role: "status" });
    this.status = make("div", { className: "ac-status ac-lab-now", role: "status" });
    const story = make("div", { className: "ac-lab-story" }, this.player.element, this.status, this.source.element);
    this.root = make("div", { className: "ac ac-lab", role: "group", tabindex: -1 },
      this.choice.element, this.notice, this.verdict,
      make("div", { className: "ac-lab-columns" }, this.curves.element, story));
    keepKeys(this.root, (event) => this.pressed(event));
    element.append(this.root);
  }

  get index() { return this.curves.nearest(this.model.get("x")); }
  get frame() { return this.scene.frames[this.index]; }
  get last() { return Math.max(0, this.frame.steps.length - 1); }

  /** Return the current step. In the model, -1 means the last step, whose number depends on x. */
  get step() {
    const step = this.model.get("step");
    return step < 0 ? this.last : Math.min(step, this.last);
  }

  tell(wanted = null) {
    const scene = this.model.get("scene"), before = this.scene?.source;
    this.scene = scene;
    this.root.setAttribute("aria-label", scene.title);
    this.notice.textContent = scene.notice;
    this.choice.show(scene, wanted);
    this.curves.show(scene);
    if (JSON.stringify(before) !== JSON.stringify(scene.source)) this.source.show(scene.source);
    this.speak(true);
    this.paint();
  }

  hear() {
    const next = this.questions.answered();
    this.tell(next);
    if (next) this.ask(next);
  }

  paint() {
    const { index, frame, step, last } = this;
    this.curves.place(index);
    write(this.verdict, frame.sentence);
    this.verdict.dataset.verdict = frame.verdict;
    this.player.place(step, last);
    this.player.element.hidden = frame.steps.length === 0;
    write(this.status, this.source.paint(frame, step));
    this.status.dataset.phase = frame.steps[step]?.[1] ?? "";
  }

  /** Turn the announcements of the live regions on or off. While x moves, they are off, because the
      slider for x already announces the changes. */
  speak(aloud) {
    for (const part of [this.verdict, this.status]) part.ariaLive = aloud ? "polite" : "off";
  }

  move(index) {
    this.speak(false);
    this.model.set("x", this.scene.positions[index]);
  }

  rest() {
    this.model.save_changes();
  }

  go(step) {
    this.speak(true);
    this.model.set("step", step >= this.last ? -1 : step);
    this.model.save_changes();
    this.source.follow(this.frame.steps[this.step]?.[0]);
  }

  /** Go to the last step at which a line of the listing ran. */
  goTo(row) {
    const step = this.frame.steps.findLastIndex(([at]) => at === row);
    if (step >= 0) this.player.go(step);
  }

  ask(choice) {
    const { answers } = this.scene;
    const known = choice.function === answers.function && same(choice.parameters, answers.parameters);
    if (this.questions.timer || !known) this.questions.ask(choice);
  }

  send(choice) {
    // Otherwise, repeating an unanswered request would not count as a change.
    this.model.set("choice", this.scene.answers);
    this.model.set("choice", choice);
    this.model.save_changes();
  }

  giveUp() {
    this.choice.show(this.scene);
    this.notice.textContent = SILENCE;
  }

  pressed(event) {
    const action = this.player.keys(event.target)[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  dispose() {
    this.player.pause();
    this.questions.stop();
    this.deaf();
    this.root.remove();
  }
}

function render({ model, el }) {
  const lab = new Lab(model, el);
  return () => lab.dispose();
}

export default { initialize, render };

//# sourceURL=autograd_course/visualize/bundles/functionlab.js
