// Built from flow/widget.js by `make notebooks`: edit the sources named below.

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

// flow/widget.js
// The gradient flow widget: one flow, or several side by side with shared steps. It keeps the current
// step and communicates with the model.

const {
  button, clamp, draw, fadeEdges, focus, keepKeys, listen, make, Questions, same, shownValue, SILENCE, still, SVG, write,
} = $kit_kit;
const { Player } = $kit_player;
const { initialize } = $kit_saving;

// Marks and heat maps in the format of marks.py: "-63" is a negative gradient whose mark has 63 % of the
// full length, and "aB." is three cells of a heat map.

const LOOKS = { "+": "plus", "-": "minus", "±": "mixed", 0: "zero", "!": "broken" };
const EDGE = { thin: 1, thick: 4 }; // pixels
const DEPTH = 6; // number of shades in a heat map for each sign

const KEYS = "▸ marks a folded module. Click it or press Enter to unfold it; press Backspace to fold it. " +
  "The left and right arrows step, and the up and down arrows move between nodes. Enter opens a node, " +
  "Escape closes it, and Space plays. In a menu, choose with the arrows and press Enter.";

const lengthOf = (mark) => Number(mark.slice(1) || 0) / 100;

function look(element, mark) {
  for (const name of Object.values(LOOKS)) element.classList.remove(`agf-${name}`);
  element.classList.add(`agf-${LOOKS[mark[0]]}`);
}

/** Style an edge: its width shows the size of its gradient, and its color and dashes show the sign. */
function weigh(link, mark) {
  look(link, mark);
  link.style.strokeWidth = EDGE.thin + (EDGE.thick - EDGE.thin) * lengthOf(mark);
}

/** Draw a card's bar, whose length shows the size of the gradient. */
function measure(gauge, mark) {
  const [begin, y, end] = gauge.dataset.full.split(" ").map(Number);
  look(gauge, mark);
  gauge.setAttribute("d", `M${begin} ${y}H${begin + lengthOf(mark) * (end - begin)}`);
}

/** Add a ≠ to a card or factor if it differs from its counterpart in another flow, or else remove the ≠. */
function mark(element, differs) {
  const there = element.querySelector(".agf-unlike");
  element.classList.toggle("agf-differs", differs);
  if (differs === Boolean(there)) return;
  if (there) return there.remove();
  const box = element.querySelector("rect:not(.agf-behind)"), onCard = element.matches(".agf-card");
  const [left, top, width] = ["x", "y", "width"].map((name) => Number(box.getAttribute(name)));
  const [x, y] = onCard ? [left + 4, top + 4] : [left + width / 2, top - 7];
  element.append(draw("g", { className: "agf-unlike" }, draw("circle", { cx: x, cy: y, r: 8 }),
    draw("text", { x, y: y + 4.5, text: "≠" })));
}

/** Draw a heat map with one path for each shade. Negative cells have a dash. */
function heatMap(code, columns, side) {
  const paths = new Map(), dashes = [];
  [...code].forEach((letter, i) => {
    const x = (i % columns) * side, y = Math.floor(i / columns) * side;
    paths.set(letter, `${paths.get(letter) ?? ""}M${x} ${y}h${side}v${side}h${-side}z`);
    if (/[A-F]/.test(letter)) dashes.push(`M${x + side / 4} ${y + side / 2}h${side / 2}`);
  });
  const cells = [...paths].map(([letter, d]) => draw("path", { d, ...shade(letter) }));
  const rim = `M0 0h${columns * side}v${(code.length / columns) * side}h${-columns * side}z`;
  return [...cells, draw("path", { className: "agf-dash", d: dashes.join("") }),
    draw("path", { className: "agf-rim", d: rim })];
}

function shade(letter) {
  const up = "abcdef".indexOf(letter) + 1, down = "ABCDEF".indexOf(letter) + 1;
  const name = up ? "plus" : down ? "minus" : letter === "!" ? "broken" : "zero";
  const opacity = letter === "!" ? 1 : (up || down) / DEPTH;
  return { className: `agf-cell agf-${name}`, "fill-opacity": opacity.toFixed(2) };
}

/** Create the key that explains the signs. */
function signsKey(compared) {
  const samples = [
    ["+80", "positive ∂"], ["-80", "negative ∂ (dashed, blue)"], ["+20", "thinner and shorter: smaller |∂| (log scale)"],
    ["0", "∂ is zero"],
  ];
  const rows = samples.map(([mark, text]) => {
    const link = draw("g", { className: "agf-link" }, draw("path", { className: "agf-edge", d: "M0 6H34" }));
    weigh(link, mark);
    return make("span", { className: "agf-sample" },
      draw("svg", { className: "agf-swatch", width: 36, height: 12, "aria-hidden": "true" }, link), text);
  });
  const map = draw("g", {}, ...heatMap("fc.CF", 5, 12));
  rows.push(make("span", { className: "agf-sample" },
    draw("svg", { className: "agf-swatch", width: 62, height: 13, "aria-hidden": "true" }, map),
    "heat map, from the largest positive to the most negative value (dash)"));
  if (compared) rows.push(make("span", { className: "agf-sample", text: "≠ differs between the flows: an operation or a local factor" }));
  return make("div", { className: "agf-key", role: "group", "aria-label": "Key" }, ...rows, make("p", { text: KEYS }));
}

// The picture of a gradient flow. Python (describe.py) writes all words and numbers. This code only
// shows, hides and replaces them: in a template such as "∂ {4}", it replaces {4} with texts[4].

const PULSE = 600; // milliseconds that a pulse takes to travel along an edge
const CALM = 0.25; // scroll if the distance from the node to the center exceeds this fraction of the view
const LETTER = 12 * 0.61, ASIDE = 8; // pixels: the width of a factor's letter, and its text's padding (layout.py)
const SCALE = { least: 0.25, most: 2, legible: 11 / 12, factor: 1.25 }; // legible: 12 px text is shown at 11 px

/** The picture of one flow: its visible values and gradients, its pulses, its zoom and its roving focus. */
class Drawing {
  constructor(onOpen) {
    this.frame = fadeEdges(make("div", { className: "agf-view" }));
    this.onOpen = onOpen;
    this.scale = null; // null: derived from the width
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.frame);
    this.frame.addEventListener("click", (event) => this.clicked(event));
    this.frame.addEventListener("focusin", ({ target }) => {
      if (this.holds(target)) this.rove(this.cards.indexOf(target));
    });
  }

  show(view) {
    this.view = view;
    const parsed = new DOMParser().parseFromString(view.svg, "image/svg+xml");
    this.svg = document.importNode(parsed.documentElement, true);
    this.width = this.svg.viewBox.baseVal.width;
    this.frame.replaceChildren(this.svg);
    this.svg.querySelector("title").remove(); // its tooltip would cover the cards
    const all = (selector) => [...this.svg.querySelectorAll(selector)];
    this.reading = all("[data-node]"); // in reading order, rank by rank
    this.cards = [];
    for (const card of this.reading) this.cards[card.dataset.node] = card;
    this.links = all(".agf-link");
    this.factors = all(".agf-factor");
    this.slots = all("[data-text]");
    this.maps = all("[data-map]");
    this.gauges = this.cards.map((card) => card.querySelector(".agf-gauge"));
    this.rove(this.cards.indexOf(this.reading[0]));
    this.fit();
  }

  write(texts, fill) {
    for (const slot of this.slots) slot.textContent = fill(slot.dataset.text, texts);
    for (const factor of this.factors) {
      const text = factor.querySelector("text"), { length } = text.textContent;
      factor.setAttribute("visibility", length ? "visible" : "hidden");
      const width = length * LETTER + ASIDE, ground = factor.querySelector("rect");
      ground.setAttribute("x", text.getAttribute("x") - width / 2);
      ground.setAttribute("width", width);
    }
    const { marks, cards } = this.view;
    this.links.forEach((link, edge) => weigh(link, fill(marks[edge], texts)));
    this.gauges.forEach((gauge, node) => measure(gauge, fill(cards[node].mark, texts)));
    for (const map of this.maps) {
      const { columns, cell } = map.dataset;
      map.replaceChildren(...heatMap(fill(map.dataset.map, texts), Number(columns), Number(cell)));
    }
  }

  /** Mark the differences from another flow. In Python's format, "1 4/0" is nodes 1 and 4, and edge 0. */
  compare(code) {
    const [nodes, edges] = code.split("/").map((part) => new Set(part ? part.split(" ").map(Number) : []));
    this.unlike = nodes;
    this.cards.forEach((card, node) => mark(card, nodes.has(node)));
    this.factors.forEach((factor, edge) => mark(factor, edges.has(edge)));
  }

  /** Show the state after `step`, and remember which values and gradients are known by then. */
  paint(step, fill) {
    const { steps } = this.view;
    [this.active] = steps[step].nodes;
    const known = { value: new Set(), gradient: new Set(), went: new Set(), back: new Set() };
    for (const past of steps.slice(0, step + 1)) {
      const backward = past.phase === "backward";
      past.nodes.forEach((node) => known[backward ? "gradient" : "value"].add(node));
      past.edges.forEach((edge) => known[backward ? "back" : "went"].add(edge));
    }
    this.known = known;
    this.paintCards(steps[step], known, fill);
    this.links.forEach((link, edge) => {
      const now = steps[step].edges.includes(edge);
      link.classList.toggle("agf-went", known.went.has(edge));
      link.classList.toggle("agf-went-back", known.back.has(edge));
      link.classList.toggle("agf-now-forward", now && steps[step].phase === "forward");
      link.classList.toggle("agf-now-backward", now && steps[step].phase === "backward");
    });
    this.factors.forEach((factor, edge) =>
      factor.classList.toggle("agf-went-back", known.back.has(edge)));
  }

  paintCards(current, known, fill) {
    this.cards.forEach((card, node) => {
      const { label, value, gradient } = this.view.cards[node];
      const now = current.phase !== "start" && current.nodes.includes(node);
      card.classList.toggle("agf-has-value", known.value.has(node));
      card.classList.toggle("agf-has-gradient", known.gradient.has(node));
      card.classList.toggle("agf-now", now && current.phase === "forward");
      card.classList.toggle("agf-now-back", now && current.phase === "backward");
      const seen = known.value.has(node) ? fill(value) : "not yet known";
      const sent = known.gradient.has(node) ? fill(gradient) : "not yet known";
      const unlike = this.unlike?.has(node) ? "; ≠ differs between the flows" : "";
      card.setAttribute("aria-label", `${label}: value ${seen}, gradient ${sent}${unlike}`);
    });
  }

  /** Send a pulse along each edge of a step: with the arrow in forward, and against it in backward. */
  pulse({ edges, phase }) {
    this.svg.querySelectorAll(".agf-pulse").forEach((pulse) => pulse.remove());
    if (still()) return;
    for (const edge of edges) this.travel(this.links[edge].querySelector("path"), phase);
  }

  travel(path, phase) {
    const pulse = document.createElementNS(SVG, "circle");
    const length = path.getTotalLength(), begun = performance.now();
    pulse.setAttribute("class", phase === "backward" ? "agf-pulse agf-pulse-back" : "agf-pulse");
    pulse.setAttribute("r", 6.5);
    const move = (now) => {
      const t = clamp((now - begun) / PULSE, 0, 1), eased = t * t * (3 - 2 * t);
      const at = path.getPointAtLength(length * (phase === "backward" ? 1 - eased : eased));
      pulse.setAttribute("transform", `translate(${at.x} ${at.y})`);
      if (t < 1 && pulse.isConnected) requestAnimationFrame(move);
      else pulse.remove();
    };
    this.svg.append(pulse);
    move(begun);
  }

  /** Scroll the node to the center of the view, unless it is already near the center. */
  follow(node, behavior = still() ? "auto" : "smooth") {
    const box = this.cards[node].getBoundingClientRect(), frame = this.frame.getBoundingClientRect();
    const off = (begin, size) => {
      const distance = box[begin] + box[size] / 2 - frame[begin] - frame[size] / 2;
      return Math.abs(distance) > frame[size] * CALM ? distance : 0;
    };
    this.frame.scrollBy({ left: off("left", "width"), top: off("top", "height"), behavior });
  }

  fit() {
    if (!this.svg || !this.frame.clientWidth) return;
    this.resize(this.scale ?? clamp(this.frame.clientWidth / this.width, SCALE.legible, 1));
    if (this.seen || this.active === undefined) return;
    this.seen = true;
    this.follow(this.active, "auto");
  }

  resize(scale) {
    const { width, height } = this.svg.viewBox.baseVal;
    this.shown = scale;
    this.svg.setAttribute("width", width * scale);
    this.svg.setAttribute("height", height * scale);
  }

  zoom(factor) {
    this.scale = clamp(this.shown * factor, SCALE.least, SCALE.most);
    this.fit();
  }

  whole() {
    this.scale = Math.min(1, this.frame.clientWidth / this.width);
    this.fit();
  }

  rove(node) {
    this.roving = node;
    this.cards.forEach((card, i) => card.setAttribute("tabindex", i === node ? 0 : -1));
  }

  focus(node) {
    this.rove(node);
    this.cards[node].focus({ preventScroll: true });
  }

  /** Move the focus by this many nodes in reading order. */
  wander(by) {
    const at = this.reading.indexOf(this.cards[this.roving]) + by;
    this.focus(this.cards.indexOf(this.reading[clamp(at, 0, this.reading.length - 1)]));
    this.follow(this.roving);
  }

  holds(element) {
    return this.cards.includes(element);
  }

  clicked({ target }) {
    const node = this.cards.indexOf(target.closest("[data-node]"));
    this.focus(node < 0 ? this.roving : node);
    if (node >= 0) this.onOpen(node);
  }
}

// The details of one node.

const LARGE = 16; // pixels per heat map cell in the details

/** The numbers of one node, its heat maps, its source, and the modules around it. */
class Details {
  constructor(onClose, onFold) {
    this.onFold = onFold;
    this.heading = make("h4");
    this.list = make("dl");
    this.maps = make("div", { className: "agf-maps" });
    this.code = make("div", { className: "agf-code" });
    this.folds = make("div", { className: "agf-folds" });
    const close = button("Close details", "×", onClose);
    close.classList.add("agf-close");
    const options = { className: "agf-details", role: "region", "aria-label": "Details", hidden: "" };
    this.element = make("section", options, this.heading, close, this.list, this.maps, this.code, this.folds);
    this.node = null;
  }

  /** Show the details of a node, without those that are not yet known at this step. */
  show(node, view, known, fill) {
    const another = this.node !== node || this.view !== view;
    Object.assign(this, { node, view });
    this.element.hidden = node === null;
    if (node === null) return;
    const card = view.cards[node];
    this.heading.textContent = card.label;
    this.list.replaceChildren(...card.details.flatMap(([term, text, when]) => [
      make("dt", { text: term }),
      make("dd", { text: known[when].has(node) ? fill(text) : "not yet known" }),
    ]));
    this.maps.replaceChildren(...card.maps.filter(({ when }) => known[when].has(node))
      .map((map) => this.map(map, fill)));
    if (another) this.about(card, view); // an opened source stays open while numbers change
  }

  map({ code, columns, rows, when }, fill) {
    const width = columns * LARGE, height = rows * LARGE;
    const name = when === "gradient" ? "gradient ∂" : "value";
    const label = `heat map of the ${name}, ${rows} by ${columns}`;
    const picture = draw("svg", { className: "agf-swatch", role: "img", "aria-label": label, width, height },
      ...heatMap(fill(code), columns, LARGE));
    return make("figure", {}, make("figcaption", { text: name }), picture);
  }

  about({ source, opens, within }, view) {
    const parts = source === null ? [] : Object.entries(view.sources[source]).filter(([, text]) => text);
    this.code.replaceChildren(...parts.map(([name, text]) =>
      make("details", {}, make("summary", { text: `source of ${name}` }), make("pre", { text }))));
    const buttons = opens === null ? [] : [this.fold("Unfold", opens, view)];
    this.folds.replaceChildren(...buttons, ...within.map((group) => this.fold("Fold", group, view)));
  }

  fold(verb, group, view) {
    const text = `${verb} ${view.groups[group]}`;
    return button(text, text, () => this.onFold(group));
  }
}

// Sliders for scalar inputs. The page usually has the texts for each value of a slider, so the kernel
// receives the value only when the slider rests. Without these texts, the page asks the kernel at once.
// This happens if the graph changes at the value, or if no texts have arrived yet.

const REST = 250; // milliseconds, longer than the time between repeated key presses

/** `wanted` contains the inputs that the kernel has not answered yet. */
class Sliders {
  constructor(onTexts, onWanted) {
    this.element = make("div", { className: "agf-sliders" });
    this.onTexts = onTexts;
    this.onWanted = onWanted;
    this.wanted = {};
    this.rows = [];
    this.frames = []; // indexed by slider and position
    this.rest = null;
  }

  /** Keep the texts for each value of each slider, if they apply to the current view. */
  load(sweeps, { sliders, answers }, shape) {
    this.frames = sliders.map(({ name, values }) => sweeps.find((sweep) =>
      sweep.name === name && sweep.shape === shape && same(sweep.others, answers) &&
      String(sweep.values) === String(values))?.frames);
  }

  show({ sliders, answers }) {
    if (same(this.wanted, answers)) this.wanted = {};
    if (this.rows.length !== sliders.length) {
      this.rows = sliders.map((slider, i) => this.row(slider, i));
      this.element.replaceChildren(...this.rows.map(({ row }) => row));
    }
    this.sliders = sliders;
    this.answers = answers;
    sliders.forEach((slider, i) => {
      this.rows[i].range.max = slider.values.length - 1;
      const wanted = this.wanted[slider.name] ?? slider.values[slider.index];
      const index = slider.values.indexOf(wanted);
      this.place(i, index < 0 ? slider.index : index);
    });
  }

  index(i) {
    return Number(this.rows[i].range.value);
  }

  /** Return the texts for a slider's position, or null. They apply only while all other sliders are at the
      values that the kernel traced. */
  at(i) {
    const others = this.sliders.every(({ index }, j) => j === i || this.index(j) === index);
    return (others && this.frames[i]?.[this.index(i)]) || null;
  }

  /** If a slider has moved since the last trace, return the texts for its position, and otherwise null. */
  ahead() {
    const moved = this.sliders.findIndex(({ index }, i) => this.index(i) !== index);
    return moved < 0 ? null : this.at(moved);
  }

  row({ name }, i) {
    const range = make("input", { type: "range", min: 0, step: 1, "aria-label": `input ${name}` });
    const output = shownValue();
    range.addEventListener("input", () => this.moved(i));
    range.addEventListener("change", () => this.settle());
    const row = make("label", { className: "ac-slider" }, output, range);
    return { row, range, output };
  }

  place(i, index) {
    const { range, output } = this.rows[i], { name, labels } = this.sliders[i];
    range.value = index;
    output.textContent = `${name} = ${labels[index]}`;
    range.setAttribute("aria-valuetext", output.textContent);
  }

  moved(i) {
    clearTimeout(this.rest);
    const index = this.index(i), { name, values } = this.sliders[i];
    this.place(i, index);
    this.wanted[name] = values[index];
    const texts = this.at(i);
    if (texts) this.onTexts(texts);
    else this.released();
  }

  /** Send the values to the kernel when the slider has come to rest. */
  settle() {
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.released(), REST);
  }

  /** Move the sliders back to the values that the kernel traced last. */
  reset() {
    this.wanted = {};
    this.show(this);
  }

  released() {
    clearTimeout(this.rest);
    this.onWanted(Object.fromEntries(
      this.sliders.map(({ name, values }, i) => [name, values[this.index(i)]])));
  }

  dispose() {
    clearTimeout(this.rest);
  }
}

// One flow: its picture, the sentence about its current step, and the details of a node.

class Pane {
  /** `onFold(group)` unfolds a folded group, and folds an unfolded one. */
  constructor(onFold) {
    this.onFold = (group) => {
      this.turned = group;
      onFold(group);
    };
    this.drawing = new Drawing((node) => this.act(node));
    this.details = new Details(() => this.open(null), this.onFold);
    this.fill = (template, texts = this.texts) =>
      template.replace(/\{(\d+)\}/g, (_, slot) => texts[Number(slot)]);
    this.heading = make("h4", { className: "agf-name" });
    this.phase = make("span", { className: "agf-phase" });
    this.sentence = make("span", { className: "agf-sentence" });
    this.of = make("span", { className: "ac-heard" }); // for screen readers; the page shows this name above the picture
    this.status = make("div", { className: "agf-status", role: "status" }, this.of, this.phase, this.sentence);
    // This invisible text reserves room for the longest sentence, so that the content below does not move.
    this.longest = make("span", { className: "agf-sentence" });
    const room = make("div", { className: "agf-room", "aria-hidden": "true" },
      make("span", { className: "agf-phase", text: "Backward" }), this.longest);
    this.jump = chooser((node) => this.goTo(node));
    this.folder = chooser((group) => this.onFold(group));
    this.find = make("span", { className: "ac-together agf-find" }, this.jump, this.folder);
    this.element = make("div", { className: "agf-pane" }, this.heading, this.drawing.frame,
      make("div", { className: "agf-account" }, room, this.status));
    this.below = make("div", { className: "agf-pane" }, this.details.element);
  }

  /** Show a view, and rebuild only the parts that have changed. */
  update(view) {
    const rebuilt = this.view?.svg !== view.svg;
    const reshaped = !this.view || JSON.stringify(this.view.cards) !== JSON.stringify(view.cards);
    this.view = view;
    this.heading.textContent = view.name ?? "";
    this.heading.hidden = !view.name;
    this.of.textContent = view.name ?? "";
    this.name(view.name ? ` of ${view.name}` : "");
    if (rebuilt) this.redraw(reshaped);
  }

  name(of) {
    this.jump.ariaLabel = `Go to a node${of}: choose it and press Enter`;
    this.folder.ariaLabel = `Fold a module${of}: choose it and press Enter`;
    this.details.element.ariaLabel = `Details${of}`;
  }

  redraw(reshaped) {
    const activeElement = focus(this.element), focused = this.drawing.cards?.indexOf(activeElement) ?? -1;
    const closing = reshaped && (activeElement === this.folder || this.below.contains(activeElement));
    if (reshaped) this.details.node = null;
    this.drawing.show(this.view);
    // Place the flows side by side if all are legible, and otherwise below each other.
    for (const part of [this.element, this.below]) {
      part.style.setProperty("--agf-wanted", `${this.drawing.width * SCALE.legible}px`);
    }
    if (reshaped) this.list();
    if (reshaped) this.longest.textContent = "";
    if (reshaped) this.land(focused >= 0 || closing);
    else if (focused >= 0) this.drawing.focus(focused);
  }

  /** After folding a group, go to its card. After unfolding a group, go to its first card. */
  land(focused) {
    const { cards } = this.view, { drawing, turned } = this;
    const node = drawing.reading.map((card) => Number(card.dataset.node)).find((i) =>
      cards[i].opens === turned || cards[i].within.includes(turned));
    this.turned = undefined;
    if (node === undefined) return focused && drawing.focus(drawing.roving);
    if (focused) drawing.focus(node);
    else drawing.rove(node);
    drawing.follow(node);
  }

  list() {
    const { cards, groups } = this.view;
    const of = this.view.name ? ` (${this.view.name})` : "";
    offer(this.jump, `Go to …${of}`, this.drawing.reading.map(({ dataset: { node } }) =>
      [node, cards[node].label]));
    const opened = [...new Set(cards.flatMap(({ within }) => within))].sort((a, b) => a - b);
    offer(this.folder, `Fold …${of}`, opened.map((group) => [group, groups[group]]));
    this.folder.hidden = opened.length === 0;
  }

  write(texts) {
    this.texts = texts;
    this.drawing.write(texts, this.fill);
    if (this.view.name) this.drawing.compare(texts.at(-1));
    this.makeRoom();
  }

  /** Keep the longest sentence so far. */
  makeRoom() {
    const longest = this.view.steps.map(({ text }) => this.fill(text))
      .reduce((one, other) => (other.length > one.length ? other : one));
    if (longest.length > this.longest.textContent.length) this.longest.textContent = longest;
  }

  paint(step) {
    const current = this.view.steps[step];
    this.drawing.paint(step, this.fill);
    write(this.phase, { start: "Start", forward: "Forward", backward: "Backward" }[current.phase]);
    this.phase.dataset.phase = current.phase;
    write(this.sentence, this.fill(current.text));
    this.open(this.details.node);
  }

  /** Unfold a folded card. For any other card, open or close the details. */
  act(node) {
    const { opens } = this.view.cards[node];
    if (opens !== null) this.onFold(opens);
    else this.open(this.details.node === node ? null : node);
  }

  open(node) {
    const left = this.details.element.contains(focus(this.element)) ? this.details.node : null;
    this.details.show(node, this.view, this.drawing.known, this.fill);
    this.drawing.cards.forEach((card, i) => card.setAttribute("aria-expanded", i === node));
    if (node === null && left !== null) this.drawing.focus(left);
  }

  goTo(node) {
    this.drawing.rove(node);
    this.drawing.follow(node);
    this.open(node);
  }

  /** Go to a step, with pulses if it is the next one. */
  go(before, after) {
    const current = this.view.steps[after];
    if (after === before + 1) this.drawing.pulse(current);
    if (after !== before) this.drawing.follow(current.nodes[0]);
  }

  /** Fold the innermost unfolded module that contains the focused card. */
  foldAround() {
    const [group] = this.view.cards[this.drawing.roving].within;
    if (group !== undefined) this.onFold(group);
  }

  keys(onCard) {
    const { drawing } = this;
    return onCard ? {
      ArrowDown: () => drawing.wander(1), ArrowUp: () => drawing.wander(-1),
      Enter: () => this.act(drawing.roving), Backspace: () => this.foldAround(),
    } : {};
  }

  dispose() {
    this.drawing.observer.disconnect();
  }
}

/** Create a menu that runs an action for a choice and then shows its prompt again. If the reader moves
    through the closed menu with the keyboard, the action runs only after Enter. */
function chooser(onChoice) {
  const select = make("select");
  let walking = false;
  const choose = () => {
    const chosen = select.value;
    select.value = "";
    if (chosen) onChoice(Number(chosen));
  };
  select.addEventListener("keydown", (event) => {
    const opens = event.key === " " || event.key === "F4" || event.altKey;
    if (event.key !== "Enter") walking = !opens;
    else if (select.value) {
      event.preventDefault();
      choose();
    }
  });
  select.addEventListener("pointerdown", () => { walking = false; });
  select.addEventListener("change", () => walking || choose());
  select.addEventListener("blur", () => { select.value = ""; });
  return select;
}

function offer(select, prompt, options) {
  select.replaceChildren(make("option", { value: "", text: prompt }),
    ...options.map(([value, text]) => make("option", { value, text })));
}

const PACE = { few: 1100, many: 550, manySteps: 40 }; // milliseconds per step while playing

class Flow {
  constructor(model, element) {
    this.model = model;
    this.panes = [];
    this.sliders = new Sliders((texts) => this.moved(texts), (inputs) => this.ask(inputs));
    this.questions = new Questions((inputs) => this.send(inputs), () => this.giveUp(SILENCE));
    this.unfolding = new Questions((opened) => this.sendOpened(opened), () => this.giveUp(SILENCE));
    const pace = (last) => (last > PACE.manySteps ? PACE.many : PACE.few);
    this.player = new Player((step) => this.go(step), pace);
    this.build(element);
    // Every answer contains numbers. If it also contains a view, both arrive at the same time.
    this.deaf = listen(model, { sweeps: () => this.swept(), numbers: () => this.hear(), step: () => this.paint() });
    this.update();
  }

  build(element) {
    this.notice = make("p", { className: "ac-notice", role: "alert" });
    this.above = make("div", { className: "agf-panes" });
    this.below = make("div", { className: "agf-panes" });
    // Parts whose height changes are below the controls, so that the controls do not move.
    this.root = make("div", { className: "ac agf", role: "group" },
      this.above, this.controls(), this.tools(), this.sliders.element, this.notice, this.below);
    keepKeys(this.root, (event) => this.pressed(event));
    element.append(this.root);
  }

  controls() {
    this.more = button("More: find, zoom, key", "⋯", () => this.unfoldTools(this.panel.hidden));
    this.more.className = "agf-more";
    this.player.element.append(this.more);
    return this.player.element;
  }

  /** Create the panel of rarely used tools, which is hidden until the reader opens it. */
  tools() {
    const each = (call) => () => this.panes.forEach(({ drawing }) => call(drawing));
    this.finders = make("span", { className: "ac-controls" });
    this.panel = make("div", { className: "agf-tools" },
      make("div", { className: "ac-controls" }, this.finders,
        make("span", { className: "ac-together", role: "group", "aria-label": "Zoom" },
          button("Zoom out", "−", each((drawing) => drawing.zoom(1 / SCALE.factor))),
          button("Fit to width", "fit", each((drawing) => drawing.whole())),
          button("Zoom in", "+", each((drawing) => drawing.zoom(SCALE.factor))))),
      signsKey(Boolean(this.model.get("view").flows)));
    this.unfoldTools(false);
    return this.panel;
  }

  unfoldTools(open) {
    if (!open && this.panel.contains(focus(this.panel))) this.more.focus();
    this.panel.hidden = !open;
    this.more.ariaExpanded = open;
  }

  get flows() { return this.view.flows ?? [this.view]; }
  get last() { return this.view.places ? this.view.places[0].length - 1 : this.view.steps.length - 1; }
  get step() { return clamp(this.model.get("step"), 0, this.last); }

  /** Convert the shared `step` to the step of one flow. */
  place(flow, step) { return this.view.places ? this.view.places[flow][step] : step; }

  load() {
    this.sliders.load(this.model.get("sweeps"), this.numbers, this.view.shape);
  }

  /** Load new sweeps. If a slider has moved in the meantime, show the texts for its position. */
  swept() {
    this.load();
    const texts = this.sliders.ahead();
    if (!texts) return;
    this.moveTexts(texts);
    this.paint();
  }

  /** Show the numbers that the kernel has sent, and the view if it is new. */
  update() {
    this.numbers = this.model.get("numbers");
    this.notice.textContent = this.numbers.notice;
    if (this.view !== this.model.get("view")) this.rebuild();
    this.load();
    this.sliders.show(this.numbers);
    this.moveTexts(this.sliders.ahead() ?? this.texts());
    this.paint();
  }

  rebuild() {
    this.view = this.model.get("view");
    this.root.setAttribute("aria-label", this.view.title);
    if (!this.panes.length) this.furnish();
    this.panes.forEach((pane, i) => pane.update(this.flows[i]));
    const steps = (phase) => this.flows.map((flow) => flow.steps.filter((step) => step.phase === phase).length);
    this.player.phases(Math.max(...steps("forward")), Math.max(...steps("backward")));
  }

  furnish() {
    this.panes = this.flows.map((_, i) => new Pane((group) => this.fold(i, group)));
    this.above.append(...this.panes.map(({ element }) => element));
    this.finders.append(...this.panes.map(({ find }) => find));
    this.below.append(...this.panes.map(({ below }) => below));
  }

  hear() {
    const before = JSON.stringify(this.view.opened);
    this.update();
    const next = this.questions.answered();
    if (next) this.ask(next);
    if (JSON.stringify(this.view.opened) === before) return;
    const opened = this.unfolding.answered();
    if (opened) this.unfolding.ask(opened);
  }

  texts() { return this.numbers.texts; }

  /** After the reader has moved an input, update all numbers. From the first step, go to the last one. */
  moved(texts) {
    this.player.pause();
    this.moveTexts(texts);
    if (this.step === 0) this.go(this.last);
    else this.paint();
  }

  moveTexts(texts) {
    const all = this.view.flows ? texts : [texts];
    this.panes.forEach((pane, i) => pane.write(all[i]));
  }

  paint() {
    this.panes.forEach((pane, i) => pane.paint(this.place(i, this.step)));
    this.player.place(this.step, this.last);
  }

  go(step) {
    const before = this.step, after = clamp(step, 0, this.last);
    if (after === before) return;
    this.model.set("step", after);
    this.model.save_changes();
    this.panes.forEach((pane, i) => pane.go(this.place(i, before), this.place(i, after)));
  }

  ask(inputs) {
    if (this.questions.timer || !same(inputs, this.numbers.answers)) this.questions.ask(inputs);
    else this.giveUp(this.numbers.notice); // the kernel has answered this before and would not reply
  }

  send(inputs) {
    // Otherwise, repeating an unanswered request would not count as a change.
    this.model.set("inputs", this.numbers.answers);
    this.model.set("inputs", inputs);
    this.model.save_changes();
  }

  /** Unfold a group of a flow, or fold it with everything inside. */
  fold(flow, group) {
    const opened = this.view.opened.map((groups) => [...groups]);
    const there = opened[flow].includes(group);
    opened[flow] = there ? opened[flow].filter((g) => g !== group) : [...opened[flow], group];
    this.panes[flow].details.node = null;
    this.unfolding.ask(opened);
  }

  sendOpened(opened) {
    this.model.set("opened", this.view.opened);
    this.model.set("opened", opened);
    this.model.save_changes();
  }

  /** Show the kernel's last answer again, so that the reader can repeat the request. */
  giveUp(notice) {
    this.sliders.reset();
    this.moveTexts(this.texts());
    this.paint();
    this.notice.textContent = notice;
  }

  pressed(event) {
    const pane = this.panes.find(({ element }) => element.contains(event.target));
    const onCard = Boolean(pane?.drawing.holds(event.target));
    const actions = {
      ...this.player.keys(event.target),
      ...pane?.keys(onCard),
      Escape: () => {
        this.unfoldTools(false);
        this.panes.forEach((each) => each.open(null));
      },
    };
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }

  dispose() {
    this.player.pause();
    this.questions.stop();
    this.unfolding.stop();
    this.sliders.dispose();
    this.panes.forEach((pane) => pane.dispose());
    this.deaf();
    this.root.remove();
  }
}

function render({ model, el }) {
  const flow = new Flow(model, el);
  return () => flow.dispose();
}

export default { initialize, render };

//# sourceURL=autograd_course/visualize/bundles/flow.js
