// The Function lab. All words and numbers are made in Python (scene.py): the page shows the frame of
// the present x. Moving x needs no kernel; another function or parameter does.

/** The choice of a function, and a slider for each parameter. `onAsk(choice)` wants another sweep. */
class Choice {
  constructor(onAsk) {
    this.onAsk = onAsk;
    this.select = make("select", { "aria-label": "Function" });
    this.select.addEventListener("change", () => onAsk({ function: this.select.value, parameters: {} }));
    this.sliders = make("div", { className: "ac-lab-sliders" });
    this.element = make("div", { className: "ac-lab-choice" }, this.select, this.sliders);
    this.known = "";
  }

  /** Show what the kernel has run, or what is asked for meanwhile. */
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
    const focused = this.rows?.findIndex(({ range }) => range === document.activeElement) ?? -1;
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

/** All together: keeps the place and the step, and talks to the model. */
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

  /** Where the story stands: -1 in the model is its end, however many lines run at this x. */
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

  /** What a move of x changes is said by x's slider; said here, too, it would be heard twice. */
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

  /** Go to where a line of the listing ran last. */
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
    this.model.set("choice", this.scene.answers); // else what went unheard would be no news
    this.model.set("choice", choice);
    this.model.save_changes();
  }

  giveUp() {
    this.choice.show(this.scene);
    this.notice.textContent = SILENCE;
  }

  pressed(event) {
    const action = !event.target.matches("button, input, select") && this.player.keys()[event.key];
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
