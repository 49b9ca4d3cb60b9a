// The attention tiles widget. Words and numbers are made in Python (wording.py, frames.py).

const PHASES = { start: "Start", forward: "Forward", backward: "Backward", end: "End" };
const HURRY = { few: 1500, many: 500, manySteps: 60 }; // milliseconds a step when playing

/** Add frames up to a step (story.py has the same for the picture). */
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

/** What is alive in a turn, against the same with the whole matrix as one tile. */
class Memory {
  constructor() {
    this.turn = this.row("this turn");
    this.whole = this.row("as one tile");
    this.parts = make("p", { className: "ac-tiles-note" });
    this.note = make("p", { className: "ac-tiles-note" });
    this.element = make("div", { className: "ac-tiles-memory", role: "group", "aria-label": "Memory" },
      make("h4", { text: "Alive at once" }), this.turn.line, this.whole.line, this.parts, this.note);
  }

  row(label) {
    const square = make("i", { className: "ac-tiles-square" }), rest = make("i", { className: "ac-tiles-rest" });
    const size = make("strong"); // an output element would be announced at each step
    const track = make("span", { className: "ac-tiles-track", "aria-hidden": "true" }, square, rest);
    return { square, rest, size, line: make("div", {}, make("span", { text: label }), track, size) };
  }

  show(now, { whole, memory }) {
    const { held } = now;
    this.fill(this.turn, held ?? { text: "nothing", square: 0, all: 0 });
    this.fill(this.whole, whole[sideOf(now)]);
    this.parts.textContent = held ? `${held.parts}.` : "Between turns: inputs, and what is complete.";
    this.note.textContent = memory;
  }

  fill({ square, rest, size }, held) {
    square.style.width = `${100 * held.square}%`;
    rest.style.width = `${100 * (held.all - held.square)}%`;
    size.textContent = held.text;
  }
}

/** All together: keeps the step and the choice, plays, and talks to the model. */
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

  /** Put the story on stage that is chosen now. */
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

  /** Choose another story, and stand in it where this one stood. */
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

  /** Go to the turn of a tile, in the phase that is on stage. */
  visit(row, column) {
    const phase = this.matrix.element.classList.contains("ac-tiles-back") ? "backward" : "forward";
    const step = this.story.frames.findIndex((frame) =>
      frame.phase === phase && frame.tile?.[0] === row && frame.tile[1] === column);
    if (step >= 0) this.player.go(step);
  }

  pressed(event) {
    const native = event.target.matches("button, input, select"), keys = this.player.keys();
    if (native || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  }

  dispose() {
    this.player.pause();
    this.deaf();
    this.root.remove();
  }
}

/** The step of another story that is about the same pair in the same phase, or as far on. */
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
