// The widget: one flow, or several side by side, stepped together. Keeps the step and talks to the
// model.

const PACE = { few: 1100, many: 550, manySteps: 40 }; // milliseconds a step when playing

class Flow {
  constructor(model, element) {
    this.model = model;
    this.scenes = [];
    this.sliders = new Sliders((texts) => this.moved(texts), (inputs) => this.ask(inputs));
    this.questions = new Questions((inputs) => this.send(inputs), () => this.giveUp(SILENCE));
    this.unfolding = new Questions((opened) => this.sendOpened(opened), () => this.giveUp(SILENCE));
    const pace = (last) => (last > PACE.manySteps ? PACE.many : PACE.few);
    this.player = new Player((step) => this.go(step), pace);
    this.build(element);
    // The numbers come with every answer, a story only with some, and then at the same time.
    this.deaf = listen(model, { sweeps: () => this.swept(), numbers: () => this.hear(), step: () => this.paint() });
    this.tell();
  }

  build(element) {
    this.notice = make("p", { className: "ac-notice", role: "alert" });
    this.above = make("div", { className: "agf-scenes" });
    this.below = make("div", { className: "agf-scenes" });
    // What changes its height stands below what is pressed and dragged.
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

  /** What is seldom needed: it is shown when it is asked for. */
  tools() {
    const each = (call) => () => this.scenes.forEach(({ stage }) => call(stage));
    this.finders = make("span", { className: "ac-controls" });
    this.panel = make("div", { className: "agf-tools" },
      make("div", { className: "ac-controls" }, this.finders,
        make("span", { className: "ac-together", role: "group", "aria-label": "Zoom" },
          button("Zoom out", "−", each((stage) => stage.zoom(1 / SCALE.factor))),
          button("Fit to width", "fit", each((stage) => stage.whole())),
          button("Zoom in", "+", each((stage) => stage.zoom(SCALE.factor))))),
      signsKey(Boolean(this.model.get("story").flows)));
    this.unfoldTools(false);
    return this.panel;
  }

  unfoldTools(open) {
    if (!open && this.panel.contains(document.activeElement)) this.more.focus();
    this.panel.hidden = !open;
    this.more.ariaExpanded = open;
  }

  get flows() { return this.story.flows ?? [this.story]; }
  get last() { return this.story.places ? this.story.places[0].length - 1 : this.story.steps.length - 1; }
  get step() { return clamp(this.model.get("step"), 0, this.last); }

  /** Where a flow stands in its own story when all stand at `step`. */
  place(flow, step) { return this.story.places ? this.story.places[flow][step] : step; }

  load() {
    this.sliders.load(this.model.get("sweeps"), this.numbers, this.story.shape);
  }

  /** Sweeps have come: a slider that was moved on meanwhile is followed. */
  swept() {
    this.load();
    const texts = this.sliders.ahead();
    if (!texts) return;
    this.moveTexts(texts);
    this.paint();
  }

  /** Take over what the kernel tells: the numbers, and the story if it is another. */
  tell() {
    this.numbers = this.model.get("numbers");
    this.notice.textContent = this.numbers.notice;
    if (this.story !== this.model.get("story")) this.stage();
    this.load();
    this.sliders.show(this.numbers);
    this.moveTexts(this.sliders.ahead() ?? this.texts());
    this.paint();
  }

  stage() {
    this.story = this.model.get("story");
    this.root.setAttribute("aria-label", this.story.title);
    if (!this.scenes.length) this.furnish();
    this.scenes.forEach((scene, i) => scene.tell(this.flows[i]));
    const steps = (phase) => this.flows.map((flow) => flow.steps.filter((step) => step.phase === phase).length);
    this.player.phases(Math.max(...steps("forward")), Math.max(...steps("backward")));
  }

  furnish() {
    this.scenes = this.flows.map((_, i) => new Scene((group) => this.fold(i, group)));
    this.above.append(...this.scenes.map(({ element }) => element));
    this.finders.append(...this.scenes.map(({ find }) => find));
    this.below.append(...this.scenes.map(({ below }) => below));
  }

  hear() {
    const before = JSON.stringify(this.story.opened);
    this.tell();
    const next = this.questions.answered();
    if (next) this.ask(next);
    if (JSON.stringify(this.story.opened) === before) return;
    const opened = this.unfolding.answered();
    if (opened) this.unfolding.ask(opened);
  }

  texts() { return this.numbers.texts; }

  /** The reader moves an input: all numbers follow, at the beginning of the story from its end. */
  moved(texts) {
    this.player.pause();
    this.moveTexts(texts);
    if (this.step === 0) this.go(this.last);
    else this.paint();
  }

  moveTexts(texts) {
    const all = this.story.flows ? texts : [texts];
    this.scenes.forEach((scene, i) => scene.write(all[i]));
  }

  paint() {
    this.scenes.forEach((scene, i) => scene.paint(this.place(i, this.step)));
    this.player.place(this.step, this.last);
  }

  go(step) {
    const before = this.step, after = clamp(step, 0, this.last);
    if (after === before) return;
    this.model.set("step", after);
    this.model.save_changes();
    this.scenes.forEach((scene, i) => scene.go(this.place(i, before), this.place(i, after)));
  }

  ask(inputs) {
    if (this.questions.timer || !same(inputs, this.numbers.answers)) this.questions.ask(inputs);
    else this.giveUp(this.numbers.notice); // answered before: nothing would come
  }

  send(inputs) {
    this.model.set("inputs", this.numbers.answers); // else what went unheard would be no news
    this.model.set("inputs", inputs);
    this.model.save_changes();
  }

  /** Open a group of a flow, or fold it with all inside. */
  fold(flow, group) {
    const opened = this.story.opened.map((groups) => [...groups]);
    const there = opened[flow].includes(group);
    opened[flow] = there ? opened[flow].filter((g) => g !== group) : [...opened[flow], group];
    this.scenes[flow].details.node = null;
    this.unfolding.ask(opened);
  }

  sendOpened(opened) {
    this.model.set("opened", this.story.opened);
    this.model.set("opened", opened);
    this.model.save_changes();
  }

  /** Show what the kernel said last, and let it be asked anew. */
  giveUp(notice) {
    this.sliders.reset();
    this.moveTexts(this.texts());
    this.paint();
    this.notice.textContent = notice;
  }

  pressed(event) {
    const scene = this.scenes.find(({ element }) => element.contains(event.target));
    const onCard = Boolean(scene?.stage.holds(event.target));
    const native = event.target.matches("button, input, select, summary");
    const actions = {
      ...(!native && this.player.keys()),
      ...scene?.keys(onCard),
      Escape: () => {
        this.unfoldTools(false);
        this.scenes.forEach((each) => each.open(null));
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
    this.scenes.forEach((scene) => scene.dispose());
    this.deaf();
    this.root.remove();
  }
}

function render({ model, el }) {
  const flow = new Flow(model, el);
  return () => flow.dispose();
}

export default { initialize, render };
