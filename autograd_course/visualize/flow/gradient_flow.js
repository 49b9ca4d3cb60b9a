// The gradient flow widget. All words and numbers are made in Python (wording.py): a template such
// as "∂ {4}" is filled with story.texts[4]. Here they are only shown, hidden and exchanged.

const PULSE = 600; // milliseconds that a pulse travels along an edge
const PACE = { few: 1100, many: 550, manySteps: 40 }; // milliseconds a step when playing
const CALM = 0.25; // the picture scrolls when a node is farther from its middle than this part of it
const SCALE = { least: 0.25, most: 2, legible: 0.62, wide: 0.8, factor: 1.25 };
/** The picture: which values and gradients are visible, pulses, zoom, and the roving focus. */
class Stage {
  constructor(onOpen) {
    this.view = make("div", { className: "agf-view" });
    this.onOpen = onOpen;
    this.scale = null; // null: chosen by the width
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.view);
    this.view.addEventListener("click", (event) => this.clicked(event));
    this.view.addEventListener("focusin", ({ target }) => {
      if (this.holds(target)) this.rove(this.cards.indexOf(target));
    });
  }

  show(story) {
    this.story = story;
    const parsed = new DOMParser().parseFromString(story.stage, "image/svg+xml");
    this.svg = document.importNode(parsed.documentElement, true);
    this.width = this.svg.viewBox.baseVal.width;
    this.view.replaceChildren(this.svg);
    this.svg.querySelector("title").remove(); // its tooltip would cover the cards
    const all = (selector) => [...this.svg.querySelectorAll(selector)];
    this.reading = all("[data-node]"); // from rank to rank, as the picture is read
    this.cards = [];
    for (const card of this.reading) this.cards[card.dataset.node] = card;
    this.links = all(".agf-link");
    this.factors = all(".agf-factor");
    this.slots = all("[data-text]");
    this.rove(this.cards.indexOf(this.reading[0]));
    this.fit();
  }

  write(texts, fill) {
    for (const slot of this.slots) slot.textContent = fill(slot.dataset.text, texts);
    for (const factor of this.factors) {
      const filled = factor.querySelector("text").textContent !== "";
      factor.setAttribute("visibility", filled ? "visible" : "hidden");
    }
  }

  /** Show the state after `step`, and keep which values and gradients are known by then. */
  paint(step, fill) {
    const { steps } = this.story;
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
      link.classList.toggle("agf-now-forward", now && steps[step].phase === "forward");
      link.classList.toggle("agf-now-backward", now && steps[step].phase === "backward");
    });
    this.factors.forEach((factor, edge) =>
      factor.classList.toggle("agf-went-back", known.back.has(edge)));
  }

  paintCards(current, known, fill) {
    this.cards.forEach((card, node) => {
      const { label, value, gradient } = this.story.cards[node];
      const now = current.phase !== "start" && current.nodes.includes(node);
      card.classList.toggle("agf-has-value", known.value.has(node));
      card.classList.toggle("agf-has-gradient", known.gradient.has(node));
      card.classList.toggle("agf-now", now && current.phase === "forward");
      card.classList.toggle("agf-now-back", now && current.phase === "backward");
      const told = known.value.has(node) ? fill(value) : "not yet known";
      const sent = known.gradient.has(node) ? fill(gradient) : "not yet known";
      card.setAttribute("aria-label", `${label}: value ${told}, gradient ${sent}`);
    });
  }

  /** Let a pulse travel along each edge of a step: with the arrows forward, against them back. */
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

  /** Scroll the node into the middle, unless it is near it. */
  follow(node) {
    const box = this.cards[node].getBoundingClientRect(), view = this.view.getBoundingClientRect();
    const off = (begin, size) => {
      const distance = box[begin] + box[size] / 2 - view[begin] - view[size] / 2;
      return Math.abs(distance) > view[size] * CALM ? distance : 0;
    };
    const behavior = still() ? "auto" : "smooth";
    this.view.scrollBy({ left: off("left", "width"), top: off("top", "height"), behavior });
  }

  fit() {
    if (!this.svg || !this.view.clientWidth) return;
    const fitting = Math.min(1, this.view.clientWidth / this.width);
    this.resize(this.scale ?? (fitting >= SCALE.legible ? fitting : SCALE.wide));
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
    this.scale = Math.min(1, this.view.clientWidth / this.width);
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

  /** Go on to the node that is read so many nodes later. */
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

/** The numbers of one node. */
class Details {
  constructor(onClose) {
    this.heading = make("h4");
    this.list = make("dl");
    const close = button("Close details", "×", onClose);
    const options = { className: "agf-details", role: "region", "aria-label": "Details", hidden: "" };
    this.element = make("section", options, this.heading, close, this.list);
    this.node = null;
  }

  /** Open a node; what the story has not told yet, the details do not tell either. */
  show(node, story, known, fill) {
    this.node = node;
    this.element.hidden = node === null;
    if (node === null) return;
    this.heading.textContent = story.cards[node].label;
    this.list.replaceChildren(...story.cards[node].details.flatMap(([term, text, when]) => [
      make("dt", { text: term }),
      make("dd", { text: known[when].has(node) ? fill(text) : "not yet known" }),
    ]));
  }
}

/** Sliders for scalar inputs. Their sweeps lie here already; the kernel is told on release.
    `wanted` holds the inputs for which the kernel has no answer yet. */
class Sliders {
  constructor(onTexts, onWanted) {
    this.element = make("div", { className: "ac-sliders" });
    this.onTexts = onTexts;
    this.onWanted = onWanted;
    this.wanted = {};
    this.rows = [];
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
      const { range } = this.rows[i];
      range.max = slider.values.length - 1;
      range.disabled = false;
      const wanted = this.wanted[slider.name] ?? slider.values[slider.index];
      const index = slider.values.indexOf(wanted);
      this.place(i, index < 0 ? slider.index : index);
    });
  }

  /** Texts for where the sliders stand, if that is not where the story was traced. */
  ahead() {
    for (const [i, { values, index, frames }] of this.sliders.entries()) {
      const at = Number(this.rows[i].range.value);
      if (values[at] !== values[index] && frames[at]) return frames[at];
    }
    return null;
  }

  row({ name }, i) {
    const range = make("input", { type: "range", min: 0, step: 1, "aria-label": `input ${name}` });
    const output = make("output");
    range.addEventListener("input", () => this.moved(i));
    range.addEventListener("change", () => this.released());
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
    const index = Number(this.rows[i].range.value), { name, values, frames } = this.sliders[i];
    this.place(i, index);
    this.wanted[name] = values[index];
    // Sweeps of the other inputs hold for the old value of this one, until the kernel answers.
    this.rows.forEach(({ range }, j) => { range.disabled = j !== i; });
    if (frames[index]) this.onTexts(frames[index]);
  }

  /** Put the sliders back to where the kernel last traced. */
  reset() {
    this.wanted = {};
    this.show(this);
  }

  released() {
    const { sliders, rows } = this;
    this.onWanted(Object.fromEntries(
      sliders.map(({ name, values }, i) => [name, values[Number(rows[i].range.value)]])));
  }
}

/** All together: keeps the step, plays, and talks to the model. */
class Flow {
  constructor(model, element) {
    this.model = model;
    this.stage = new Stage((node) => this.open(this.details.node === node ? null : node));
    this.details = new Details(() => this.open(null));
    this.sliders = new Sliders((texts) => this.moved(texts), (inputs) => this.ask(inputs));
    this.questions = new Questions((inputs) => this.send(inputs), () => this.giveUp(SILENCE));
    const pace = (last) => (last > PACE.manySteps ? PACE.many : PACE.few);
    this.player = new Player((step) => this.go(step), pace);
    this.fill = (template, texts = this.texts) =>
      template.replace(/\{(\d+)\}/g, (_, slot) => texts[Number(slot)]);
    this.build(element);
    this.deaf = listen(model, { story: () => this.hear(), step: () => this.paint() });
    this.tell();
  }

  build(element) {
    this.phase = make("span", { className: "agf-phase" });
    this.sentence = make("span", { className: "agf-sentence" });
    this.status = make("div", { className: "agf-status", role: "status" }, this.phase, this.sentence);
    this.notice = make("p", { className: "ac-notice", role: "status" });
    this.root = make("div", { className: "ac agf", role: "group" },
      this.stage.view, this.controls(), this.status, this.sliders.element, this.notice,
      this.details.element);
    keepKeys(this.root, (event) => this.pressed(event));
    element.append(this.root);
  }

  controls() {
    this.player.element.append(
      make("span", { className: "ac-gap" }),
      button("Zoom out", "−", () => this.stage.zoom(1 / SCALE.factor)),
      button("Fit to width", "fit", () => this.stage.whole()),
      button("Zoom in", "+", () => this.stage.zoom(SCALE.factor)));
    return this.player.element;
  }

  get step() { return clamp(this.model.get("step"), 0, this.last); }
  get last() { return this.story.steps.length - 1; }

  /** Take over a story from the kernel; rebuild only what has changed. */
  tell() {
    const story = this.model.get("story"), rebuilt = this.story?.stage !== story.stage;
    const reshaped = !this.story || JSON.stringify(this.story.cards) !== JSON.stringify(story.cards);
    this.story = story;
    this.root.setAttribute("aria-label", story.title);
    this.notice.textContent = story.notice;
    if (rebuilt) this.restage(reshaped);
    this.sliders.show(story);
    this.moveTexts(this.sliders.ahead() ?? story.texts);
    this.paint();
  }

  hear() {
    this.tell();
    const next = this.questions.answered();
    if (next) this.ask(next);
  }

  restage(reshaped) {
    const focused = this.stage.cards?.indexOf(document.activeElement) ?? -1;
    if (reshaped) this.details.node = null;
    this.stage.show(this.story);
    if (focused >= 0) this.stage.focus(Math.min(focused, this.stage.cards.length - 1));
  }

  /** The reader moves an input: all numbers follow, at the beginning of the story from its end. */
  moved(texts) {
    this.player.pause();
    this.moveTexts(texts);
    if (this.step === 0) this.go(this.last);
    else this.paint();
  }

  moveTexts(texts) {
    this.texts = texts;
    this.stage.write(texts, this.fill);
  }

  paint() {
    const { step, last } = this, current = this.story.steps[step];
    this.stage.paint(step, this.fill);
    this.phase.textContent = { start: "Start", forward: "Forward", backward: "Backward" }[current.phase];
    this.phase.dataset.phase = current.phase;
    this.sentence.textContent = this.fill(current.text);
    this.player.place(step, last);
    this.open(this.details.node);
  }

  open(node) {
    this.details.show(node, this.story, this.stage.known, this.fill);
    this.stage.cards.forEach((card, i) => card.setAttribute("aria-expanded", i === node));
  }

  go(step) {
    const before = this.step, after = clamp(step, 0, this.last);
    if (after === before) return;
    this.model.set("step", after);
    this.model.save_changes();
    const current = this.story.steps[after];
    if (after === before + 1) this.stage.pulse(current);
    this.stage.follow(current.nodes[0]);
  }

  ask(inputs) {
    if (this.questions.timer || !same(inputs, this.story.answers)) this.questions.ask(inputs);
    else this.giveUp(this.story.notice); // answered before: nothing would come
  }

  send(inputs) {
    this.model.set("inputs", this.story.answers); // else what went unheard would be no news
    this.model.set("inputs", inputs);
    this.model.save_changes();
  }

  /** Show what the kernel said last, and let it be asked anew. */
  giveUp(notice) {
    this.sliders.reset();
    this.moveTexts(this.story.texts);
    this.paint();
    this.notice.textContent = notice;
  }

  pressed(event) {
    const { stage } = this, onCard = stage.holds(event.target);
    const native = event.target.matches("button, input");
    const actions = {
      ...(!native && this.player.keys()),
      ...(onCard && {
        ArrowDown: () => stage.wander(1), ArrowUp: () => stage.wander(-1),
        Enter: () => this.open(this.details.node === stage.roving ? null : stage.roving),
      }),
      Escape: () => this.open(null),
    };
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }

  dispose() {
    this.player.pause();
    this.questions.stop();
    this.stage.observer.disconnect();
    this.deaf();
    this.root.remove();
  }
}

function render({ model, el }) {
  const flow = new Flow(model, el);
  return () => flow.dispose();
}

export default { render };
