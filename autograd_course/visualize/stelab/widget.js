// The STE lab. Numbers and sentences come from Python (story.py, wording.py); here they are chosen.

const BUSY = "The kernel has not answered. It may be busy: try again when it is idle. " +
  "If it was restarted, run the cell again.";
const CAP = 0.6; // what leaves the plot is drawn no farther out than this part of its height

/** The two plots: forward with the line that backward follows, and the gradient. */
class Curves {
  constructor(onMove) {
    const plot = (label) => new Plot({ label, x: [-3, 3], y: [-1, 1], onMove });
    this.forward = plot("Forward over x: the staircase, and the line that backward follows");
    this.backward = plot("Backward over x: the gradient, and dashed the staircase's own slope");
    this.climbs = make("span", { className: "ac-ste-sum" });
    this.gap = make("span", { className: "ac-ste-sum" });
    this.element = make("div", { className: "ac-ste-columns" },
      this.figure("Forward: y over x", this.climbs, this.forward, [["ac-ste-stairs", "staircase"], ["ac-ste-shown", "surrogate"], ["ac-ste-own", "chord over x ± width"]]),
      this.figure("Backward: ∂ over x, for grad_output = 1", this.gap, this.backward,
        [["ac-ste-shown", "∂ of the surrogate"], ["ac-ste-own", "slope of the staircase"]]));
  }

  figure(title, sum, plot, keys) {
    const legend = keys.flatMap(([look, text]) => [
      draw("svg", { class: "ac-ste-sample", viewBox: "0 0 30 8", "aria-hidden": "true" },
        draw("line", { class: look, x1: 1, x2: 29, y1: 4, y2: 4 })), make("span", { text })]);
    return make("figure", { className: "ac-ste-figure" },
      make("figcaption", {}, make("b", { text: title }), make("span", { className: "ac-ste-legend" }, ...legend)),
      plot.element, sum);
  }

  /** Draw all that stays while x moves. */
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

  /** At a jump the derivative is no number: an arrow that leaves the plot. */
  arrows(jumps, top) {
    const plot = this.backward;
    return draw("g", { class: "ac-ste-jump" }, ...jumps.map((x) => draw("path", {
      d: `M${plot.px(x)} ${plot.py(0)}V${plot.py(top) + 9}m-5 3l5 -11l5 11z` })));
  }

  /** Put the marks where x stands. */
  place(x, value, gradient, width) {
    for (const [plot, y, text] of [[this.forward, value, value], [this.backward, gradient, `∂ ${gradient}`]]) {
      plot.put("window", width ? this.band(plot, x, width) : null);
      plot.put("here", draw("line", { class: "ac-ste-here", x1: plot.px(x), x2: plot.px(x), y1: plot.py(plot.y[0]), y2: plot.py(plot.y[1]) }));
      plot.point("point", x, Number(y), "ac-point ac-ste-point");
      const side = plot.px(x) > 0.8 * FRAME.width ? "end" : "start";
      plot.put("number", draw("text", { class: "ac-ste-number", x: plot.px(x) + (side === "end" ? -10 : 10), y: plot.py(Number(y)) - 10, "text-anchor": side, text }));
    }
  }

  /** The chord of the staircase over x ± width, from its lower end. */
  chord(x, foot, slope, width) {
    const far = foot + 2 * width * Number(slope), ends = [[x - width, foot], [x + width, far]];
    this.forward.curve("chord", width ? ends : [], "ac-curve ac-ste-own");
  }

  band(plot, x, width) {
    const low = plot.px(Math.max(x - width, plot.x[0])), high = plot.px(Math.min(x + width, plot.x[1]));
    return draw("rect", { class: "ac-ste-band", x: low, width: high - low, y: plot.py(plot.y[1]), height: plot.py(plot.y[0]) - plot.py(plot.y[1]) });
  }
}

/** A labeled slider over the places of a list; `onMove(index)` at each, `onRest()` when it is left. */
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

/** All together. */
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
    this.width = new Places("half width of the slope", (i) => this.widen(i), () => this.rest());
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

  /** Another quantizer: choices, cards and curves anew. */
  swept() {
    const { quantizers, name, estimates } = this.sweep;
    this.questions.answered();
    this.notice.textContent = "";
    this.surrogate = this.model.get("surrogate");
    const forward = quantizers.length
      ? chooser("Forward", quantizers, (quantizer) => this.ask({ quantizer })) : null;
    this.estimator = chooser("Backward", estimates.map((each) => [each.name, each.label]), (to) => this.choose(to));
    if (forward) forward.choice.value = name;
    const focused = this.head.contains(document.activeElement) && document.activeElement.ariaLabel;
    this.head.replaceChildren(...(forward ? [forward.row] : []), this.estimator.row, this.about);
    if (focused) this.head.querySelector(`[aria-label="${focused}"]`)?.focus();
    this.race.deal(estimates);
    this.paint();
    this.progressed();
  }

  /** Take the state over from the model and draw everything. */
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

  /** Show what holds at x. */
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

  /** Tell the kernel where everything stands; the picture that is saved shows that. */
  rest() {
    const { xs, widths } = this.sweep;
    this.tell({ surrogate: this.surrogate, x: xs[this.at], width: widths[this.wide] });
  }

  tell(state) {
    const news = Object.entries(state).filter(([name, value]) => this.model.get(name) !== value);
    for (const [name, value] of news) this.model.set(name, value);
    if (news.length) this.model.save_changes();
  }

  /** What only the kernel can answer: another quantizer, place or start. */
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
    this.questions.stop(); // a stop needs no answer
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
