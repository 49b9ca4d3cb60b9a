// Built from stelab/widget.js by `make notebooks`: edit the sources named below.

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

// stelab/widget.js
// The STE lab. Numbers and sentences come from Python. This code selects those to show.

const { clamp, draw, focus, keepKeys, leadTo, listen, make, Questions, shownValue, write } = $kit_kit;
const { FRAME, Plot } = $kit_plot;
const { initialize } = $kit_saving;

// The training in the STE lab: the losses of all nets, and a map of each net's decisions.

const MOST_LOSS = 0.85; // ln 2 = 0.69 is the loss of a net that has learned nothing
const LOOKS = 5; // number of line styles for the estimators (widget.css)
const lookOf = (i) => `ac-ste-look${i % LOOKS}`;

/** One net: its name, the map of its decisions with the points on it, and its result. */
class NetCard {
  constructor(i, { name, label }, { reach, cells, points }, onChoose) {
    Object.assign(this, { cells, name, shades: "" });
    this.canvas = make("canvas", { width: cells, height: cells, "aria-hidden": "true" });
    this.ground = this.canvas.getContext("2d");
    const key = draw("svg", { class: "ac-ste-key", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
      draw("line", { class: lookOf(i), x1: 0, x2: 100, y1: 3, y2: 3 }));
    const marks = points.map(([x, y, label]) => draw("path", { class: "ac-ste-mark", d: label
      ? `M${x} ${-y - 0.07}l.06 .11h-.12z` : `M${x - 0.05} ${-y}a.05 .05 0 1 0 .1 0a.05 .05 0 1 0 -.1 0` }));
    const dots = draw("svg", { viewBox: `${-reach} ${-reach} ${2 * reach} ${2 * reach}`, "aria-hidden": "true" }, ...marks);
    this.result = make("span", { className: "ac-ste-result" });
    this.element = make("button", { type: "button", className: "ac-ste-card" },
      make("span", { className: "ac-ste-name", text: label }), key,
      make("span", { className: "ac-ste-map" }, this.canvas, dots), this.result);
    this.element.addEventListener("click", () => onChoose(name));
    this.label = label;
  }

  show(run, colors) {
    this.result.textContent = run?.result.replace(", ", "\n") ?? "";
    this.element.setAttribute("aria-label", `${this.label}: ${run?.result || "not trained yet"}`);
    const shades = run?.shades ?? "", look = colors.flat().join();
    if (this.shades === shades && this.colors === look) return;
    Object.assign(this, { shades, colors: look });
    this.paint(shades, colors);
  }

  paint(shades, [zero, one]) {
    const image = this.ground.createImageData(this.cells, this.cells);
    [...shades].forEach((digit, i) => {
      const part = parseInt(digit, 16) / 15;
      const color = zero.map((channel, c) => channel + (one[c] - channel) * part);
      image.data.set([...color, 255], 4 * i);
    });
    this.ground.putImageData(image, 0, 0);
  }
}

/** All nets, with the controls that start and stop their training. `act` contains the reader's actions. */
class RaceView {
  constructor(board, act) {
    Object.assign(this, { board, act, cards: [] });
    this.plot = new Plot({ label: "Loss of each net during training", x: [0, 150], y: [0, MOST_LOSS] });
    this.plot.element.classList.add("ac-ste-still");
    this.deck = make("div", { className: "ac-ste-cards", role: "group", "aria-label": "Nets" });
    this.told = make("span", { className: "ac-ste-told", role: "status" });
    this.rest = make("p", { className: "ac-ste-rest" });
    this.notice = make("p", { className: "ac-notice", role: "status" });
    const losses = make("figure", { className: "ac-ste-figure" }, make("figcaption", { text: "Loss during training" }), this.plot.element);
    this.element = make("section", { className: "ac-ste-race", "aria-label": "Training" },
      this.controls(), this.rest, this.notice, make("div", { className: "ac-ste-columns" }, losses, this.deck));
  }

  /** Paint the maps when the page shows them, because their colors are unknown before. Paint them again
      when the notebook's theme changes. */
  followTheme(repaint) {
    this.shown = new ResizeObserver(repaint);
    this.shown.observe(this.element);
    this.theme = new MutationObserver(repaint);
    for (const bearer of [document.documentElement, document.body]) {
      this.theme.observe(bearer, { attributes: true, attributeFilter: ["data-jp-theme-light", "class", "theme", "data-theme"] });
    }
  }

  dispose() {
    this.shown.disconnect();
    this.theme.disconnect();
  }

  controls() {
    this.train = make("button", { type: "button", className: "ac-ste-train" });
    this.train.addEventListener("click", () => this.act.train());
    this.place = chooser("Quantized", [["activations", "hidden activations"], ["weights", "weights"]],
      (value) => this.act.place(value));
    const starts = [0, 1, 2, 3, 4].map((seed) => [String(seed), String(seed + 1)]);
    this.seed = chooser("Random start", starts, (value) => this.act.seed(Number(value)));
    return make("div", { className: "ac-controls" }, this.train, this.place.row, this.seed.row, this.told);
  }

  /** Create a card for each estimator. The maps remain empty until the nets are trained. */
  deal(estimates) {
    this.plot.layer.replaceChildren();
    this.plot.drawn.clear();
    this.cards = estimates.map((estimate, i) => new NetCard(i, estimate, this.board, this.act.choose));
    this.deck.replaceChildren(...this.cards.map(({ element }) => element));
  }

  show(progress, training) {
    const { runs, notice, told, rest, step, steps } = progress;
    const colors = classColors(this.element);
    this.cards.forEach((card, i) => {
      card.show(runs[i], colors);
      this.plot.curve(card.name, runs[i]?.losses ?? [], `ac-curve ${lookOf(i)}`);
    });
    const idle = step ? `Train again` : "Train";
    this.train.textContent = training ? "Stop" : idle;
    // A screen reader would read the running count fifty times, so announce only the start and the end.
    this.told.setAttribute("aria-live", training && step < steps ? "off" : "polite");
    write(this.told, told);
    this.rest.textContent = step ? rest : "Which of these will learn? They have the same start and the same points. Only backward differs.";
    write(this.notice, notice);
    this.place.choice.value = progress.place;
    this.seed.choice.value = String(progress.seed);
  }

  chosen(name) {
    this.cards.forEach((card) => {
      card.element.setAttribute("aria-pressed", card.name === name);
      this.plot.drawn.get(card.name)?.classList.toggle("ac-ste-chosen", card.name === name);
    });
  }
}

/** Create a labeled <select>. */
function chooser(label, options, onChoose) {
  const choice = make("select", { "aria-label": label }, ...options.map(([value, text]) => make("option", { value, text })));
  choice.addEventListener("change", () => onChoose(choice.value));
  return { row: make("label", { className: "ac-ste-chooser" }, `${label} `, choice), choice };
}

/** Return the theme's colors for the two classes: [[r, g, b], [r, g, b]]. */
function classColors(element) {
  const style = getComputedStyle(element);
  return ["--ac-ste-zero", "--ac-ste-one"].map((name) => {
    const value = style.getPropertyValue(name).trim() || "#808080";
    return [1, 3, 5].map((i) => parseInt(value.slice(i, i + 2), 16));
  });
}

const BUSY = "The kernel has not answered. If it is busy, try again later. " +
  "If it was restarted, run the cell again.";
const CAP = 0.6; // outside the plot, a curve continues for at most this fraction of the height

/** The two plots: forward with the surrogate, and the gradient. */
class Curves {
  constructor(onMove) {
    const plot = (label) => new Plot({ label, x: [-3, 3], y: [-1, 1], onMove });
    this.forward = plot("Forward over x: the staircase and the surrogate");
    this.backward = plot("Backward over x: the gradient of the surrogate, and the slope of the staircase (dashed)");
    this.climbs = make("span", { className: "ac-ste-sum" });
    this.gap = make("span", { className: "ac-ste-sum" });
    this.element = make("div", { className: "ac-ste-columns" },
      this.figure("Forward: y over x", this.climbs, this.forward, [["ac-ste-stairs", "staircase"], ["ac-ste-shown", "surrogate"], ["ac-ste-own", "chord over x ± width"]]),
      this.figure("Backward: ∂ over x, for grad_output = 1", this.gap, this.backward,
        [["ac-ste-shown", "∂ of the surrogate"], ["ac-ste-own", "slope of the staircase"]]));
  }

  figure(title, sum, plot, keys) {
    const legend = keys.map(([look, text]) => make("span", {},
      draw("svg", { class: "ac-ste-sample", viewBox: "0 0 30 8", "aria-hidden": "true" },
        draw("line", { class: look, x1: 1, x2: 29, y1: 4, y2: 4 })), make("span", { text })));
    return make("figure", { className: "ac-ste-figure" },
      make("figcaption", {}, make("b", { text: title }), make("span", { className: "ac-ste-legend" }, ...legend)),
      plot.element, sum);
  }

  /** Draw everything that does not depend on x. */
  show({ view, heights, steepest, staircases, estimates }, shown, width) {
    const estimate = estimates[shown], stairs = staircases[estimate.staircase], look = lookOf(shown);
    this.element.setAttribute("data-look", shown % LOOKS);
    this.forward.range(view, heights);
    this.backward.range(view, steepest);
    this.forward.curve("surrogate", estimate.line, `ac-curve ac-ste-line ${look}`);
    this.forward.curve("stairs", stairs.curve, "ac-curve ac-ste-stairs");
    this.backward.curve("gradient", estimate.curve, `ac-curve ac-ste-thick ${look}`);
    this.backward.curve("slope", this.capped(stairs.slopeCurves[width], steepest), "ac-curve ac-ste-own");
    this.backward.put("jumps", width === 0 ? this.arrows(stairs.jumps, steepest[1]) : null);
    this.climbs.textContent = estimate.climbs;
    this.gap.textContent = `${estimate.gaps[width]}.`;
  }

  capped(points, [low, high]) {
    const room = CAP * (high - low);
    return points.map(([x, y]) => [x, y === null ? null : clamp(y, low - room, high + room)]);
  }

  /** Return an arrow that leaves the plot for each jump, where the derivative does not exist. */
  arrows(jumps, top) {
    const plot = this.backward;
    return draw("g", { class: "ac-ste-jump" }, ...jumps.map((x) => draw("path", {
      d: `M${plot.px(x)} ${plot.py(0)}V${plot.py(top) + 9}m-5 3l5 -11l5 11z` })));
  }

  /** Move the marks to the current x. */
  place(x, value, gradient, width) {
    for (const [plot, y, text] of [[this.forward, value, value], [this.backward, gradient, `∂ ${gradient}`]]) {
      plot.put("window", width ? this.band(plot, x, width) : null);
      plot.put("here", draw("line", { class: "ac-ste-here", x1: plot.px(x), x2: plot.px(x), y1: plot.py(plot.y[0]), y2: plot.py(plot.y[1]) }));
      plot.point("point", x, Number(y), "ac-point ac-ste-point");
      const side = plot.px(x) > 0.8 * FRAME.width ? "end" : "start";
      plot.put("number", draw("text", { class: "ac-ste-number", x: plot.px(x) + (side === "end" ? -10 : 10), y: plot.py(Number(y)) - 10, "text-anchor": side, text }));
    }
  }

  /** Draw the chord of the staircase over x ± width. `foot` is its y at x - width. */
  chord(x, foot, slope, width) {
    const far = foot + 2 * width * Number(slope), ends = [[x - width, foot], [x + width, far]];
    this.forward.curve("chord", width ? ends : [], "ac-curve ac-ste-own");
  }

  band(plot, x, width) {
    const low = plot.px(Math.max(x - width, plot.x[0])), high = plot.px(Math.min(x + width, plot.x[1]));
    return draw("rect", { class: "ac-ste-band", x: low, width: high - low, y: plot.py(plot.y[1]), height: plot.py(plot.y[0]) - plot.py(plot.y[1]) });
  }
}

/** A labeled slider over the elements of a list. `onMove(index)` runs for each new position, and
    `onRest()` when the slider is released. */
class Places {
  constructor(label, onMove, onRest) {
    this.range = make("input", { type: "range", min: 0, step: 1, "aria-label": label });
    this.output = shownValue();
    this.range.addEventListener("input", () => onMove(Number(this.range.value)));
    this.range.addEventListener("change", onRest);
    this.element = make("label", { className: "ac-slider" }, this.output, this.range);
  }

  place(index, last, text) {
    this.range.max = last;
    this.range.value = index;
    this.output.textContent = text;
    this.range.setAttribute("aria-valuetext", text);
  }
}

/** The whole lab. */
class SteLab {
  constructor(model, element) {
    this.model = model;
    this.curves = new Curves((x) => this.moveTo(this.nearest(x)));
    this.questions = new Questions((ask) => ask(), () => this.silent());
    this.race = new RaceView(model.get("board"), {
      train: () => this.train(), choose: (name) => this.choose(name),
      place: (place) => this.ask({ place }), seed: (seed) => this.ask({ seed }),
    });
    this.build(element);
    this.deaf = listen(model, {
      sweep: () => this.swept(), surrogate: () => this.paint(), width: () => this.paint(), x: () => this.heard(),
      progress: () => this.progressed(), training: () => this.showRace(), quantizer: () => this.paint(),
    });
    this.race.followTheme(() => this.showRace());
    this.swept();
  }

  build(element) {
    this.x = new Places("x", (i) => this.moveTo(i), () => this.rest());
    this.width = new Places("half the width of the chord", (i) => this.widen(i), () => this.rest());
    this.head = make("div", { className: "ac-controls" });
    this.about = make("span", { className: "ac-ste-about" });
    this.told = [make("div"), make("div")];
    this.status = make("div", { className: "ac-status", role: "status" }, ...this.told);
    this.notice = make("p", { className: "ac-notice", role: "status" });
    this.root = make("div", { className: "ac ac-ste", role: "group", "aria-label": "STE lab" },
      this.head, this.notice, this.curves.element,
      make("div", { className: "ac-ste-sliders" }, this.x.element, this.width.element),
      this.status, this.race.element);
    this.curves.element.addEventListener("pointerup", () => this.rest());
    leadTo(this.x.range, this.curves.element);
    keepKeys(this.root);
    element.append(this.root);
  }

  get sweep() { return this.model.get("sweep"); }
  get shown() { return Math.max(0, this.sweep.estimates.findIndex(({ name }) => name === this.surrogate)); }

  /** Rebuild the menus, cards and curves for another quantizer. */
  swept() {
    const { quantizers, name, estimates } = this.sweep;
    this.questions.answered();
    this.notice.textContent = "";
    this.surrogate = this.model.get("surrogate");
    const forward = quantizers.length
      ? chooser("Forward", quantizers, (quantizer) => this.ask({ quantizer })) : null;
    this.estimator = chooser("Backward", estimates.map((each) => [each.name, each.label]), (to) => this.choose(to));
    if (forward) forward.choice.value = name;
    const now = focus(this.head), focused = this.head.contains(now) && now.ariaLabel;
    this.head.replaceChildren(...(forward ? [forward.row] : []), this.estimator.row, this.about);
    if (focused) this.head.querySelector(`[aria-label="${focused}"]`)?.focus();
    this.race.deal(estimates);
    this.paint();
    this.progressed();
  }

  /** Read the state from the model, and draw everything. */
  paint() {
    const { sweep, model } = this;
    this.surrogate = model.get("surrogate");
    this.at = this.nearest(model.get("x"));
    this.wide = Math.max(0, sweep.widths.indexOf(model.get("width")));
    this.draw();
  }

  heard() {
    this.at = this.nearest(this.model.get("x"));
    this.move();
  }

  draw() {
    const { sweep, shown, wide } = this;
    this.estimator.choice.value = this.surrogate;
    this.about.textContent = sweep.estimates[shown].about;
    this.curves.show(sweep, shown, wide);
    this.width.place(wide, sweep.widths.length - 1, sweep.words.widths[wide]);
    this.race.chosen(this.surrogate);
    this.move();
  }

  /** Show the numbers and sentences for the current x. */
  move() {
    const { sweep, at, wide } = this, { words } = sweep, estimate = sweep.estimates[this.shown];
    const stairs = sweep.staircases[estimate.staircase];
    const told = { x: sweep.labels[at], y: stairs.values[at], gradient: estimate.gradients[at], became: words.turns[estimate.turns[at]] };
    this.x.place(at, sweep.xs.length - 1, `x = ${told.x}`);
    this.curves.place(sweep.xs[at], told.y, told.gradient, sweep.widths[wide]);
    this.curves.chord(sweep.xs[at], stairs.feet[wide][at], stairs.slopes[wide][at], sweep.widths[wide]);
    const fill = (text, by) => text.replace(/\{(\w+)\}/g, (_, name) => by[name]);
    const slope = stairs.slopes[wide][at];
    const judged = words.verdicts[compared(Number(told.gradient), Number(slope))];
    write(this.told[0], fill(words.at, told));
    write(this.told[1], slope === null ? words.jump : fill(words.chords[wide], { slope, judged }));
  }

  nearest(x) {
    const far = this.sweep.xs.map((place) => Math.abs(place - x));
    return far.indexOf(Math.min(...far));
  }

  moveTo(index) {
    if (index === this.at) return;
    this.at = index;
    this.move();
  }

  widen(index) {
    this.wide = index;
    this.draw();
  }

  choose(name) {
    this.surrogate = name;
    this.draw();
    this.rest();
  }

  /** Send the current state to the kernel, because the saved picture shows it. */
  rest() {
    const { xs, widths } = this.sweep;
    this.tell({ surrogate: this.surrogate, x: xs[this.at], width: widths[this.wide] });
  }

  tell(state) {
    const news = Object.entries(state).filter(([name, value]) => this.model.get(name) !== value);
    for (const [name, value] of news) this.model.set(name, value);
    if (news.length) this.model.save_changes();
  }

  /** Ask for something that only the kernel can compute: another quantizer, place or random start. */
  ask(state) {
    this.questions.ask(() => this.tell(state));
  }

  train() {
    const training = !this.model.get("training");
    if (training) this.ask({ training });
    else this.halt();
    this.race.show(this.model.get("progress"), training);
    this.race.chosen(this.surrogate);
  }

  halt() {
    this.questions.stop(); // a request to stop needs no answer
    this.tell({ training: false });
  }

  progressed() {
    this.questions.answered()?.();
    this.showRace();
  }

  showRace() {
    this.race.show(this.model.get("progress"), this.model.get("training"));
    this.race.chosen(this.surrogate);
  }

  silent() {
    this.halt();
    this.swept();
    this.notice.textContent = BUSY;
  }

  dispose() {
    this.questions.stop();
    this.race.dispose();
    this.deaf();
    this.root.remove();
  }
}

function compared(gradient, slope) {
  if (Math.abs(gradient - slope) < 1.5e-3) return "equal";
  return gradient > slope ? "above" : "below";
}

function render({ model, el }) {
  const lab = new SteLab(model, el);
  return () => lab.dispose();
}

export default { initialize, render };

//# sourceURL=autograd_course/visualize/bundles/stelab.js
