// The Function lab. Python writes all words and numbers, and the page shows the frame for the current x.
// Moving x does not need the kernel, but choosing another function or parameter does.

import { draw, focus, keepKeys, leadTo, listen, make, Questions, same, shownValue, SILENCE, write } from "../kit/kit.js";
import { Player } from "../kit/player.js";
import { Plot } from "../kit/plot.js";
import { initialize } from "../kit/saving.js";

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
