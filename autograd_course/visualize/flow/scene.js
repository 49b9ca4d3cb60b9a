// One flow: its picture, the sentence of its step, and the node that is looked into.

class Scene {
  /** `onFold(group)` is asked to open a folded group, or to fold an opened one. */
  constructor(onFold) {
    this.onFold = (group) => {
      this.turned = group;
      onFold(group);
    };
    this.stage = new Stage((node) => this.act(node));
    this.details = new Details(() => this.open(null), this.onFold);
    this.fill = (template, texts = this.texts) =>
      template.replace(/\{(\d+)\}/g, (_, slot) => texts[Number(slot)]);
    this.heading = make("h4", { className: "agf-name" });
    this.phase = make("span", { className: "agf-phase" });
    this.sentence = make("span", { className: "agf-sentence" });
    this.of = make("span", { className: "ac-heard" }); // for the eye, the sentence stands under its picture
    this.status = make("div", { className: "agf-status", role: "status" }, this.of, this.phase, this.sentence);
    // Never seen: it makes room for the longest sentence, so that no other one moves what is below.
    this.longest = make("span", { className: "agf-sentence" });
    const room = make("div", { className: "agf-room", "aria-hidden": "true" },
      make("span", { className: "agf-phase", text: "Backward" }), this.longest);
    this.jump = chooser((node) => this.goTo(node));
    this.folder = chooser((group) => this.onFold(group));
    this.find = make("span", { className: "ac-together agf-find" }, this.jump, this.folder);
    this.element = make("div", { className: "agf-scene" }, this.heading, this.stage.view,
      make("div", { className: "agf-told" }, room, this.status));
    this.below = make("div", { className: "agf-scene" }, this.details.element);
  }

  /** Take over a story; rebuild only what has changed. */
  tell(story) {
    const rebuilt = this.story?.stage !== story.stage;
    const reshaped = !this.story || JSON.stringify(this.story.cards) !== JSON.stringify(story.cards);
    this.story = story;
    this.heading.textContent = story.name ?? "";
    this.heading.hidden = !story.name;
    this.of.textContent = story.name ?? "";
    this.name(story.name ? ` of ${story.name}` : "");
    if (rebuilt) this.restage(reshaped);
  }

  name(of) {
    this.jump.ariaLabel = `Go to a node${of}: choose one, then Enter`;
    this.folder.ariaLabel = `Fold a module${of}: choose one, then Enter`;
    this.details.element.ariaLabel = `Details${of}`;
  }

  restage(reshaped) {
    const { activeElement } = document, focused = this.stage.cards?.indexOf(activeElement) ?? -1;
    const closing = reshaped && (activeElement === this.folder || this.below.contains(activeElement));
    if (reshaped) this.details.node = null;
    this.stage.show(this.story);
    // Beside each other where both are legible, else below each other.
    for (const part of [this.element, this.below]) {
      part.style.setProperty("--agf-wanted", `${this.stage.width * SCALE.legible}px`);
    }
    if (reshaped) this.list();
    if (reshaped) this.longest.textContent = "";
    if (reshaped) this.land(focused >= 0 || closing);
    else if (focused >= 0) this.stage.focus(focused);
  }

  /** After folding or unfolding, go to the card that stands for the group, or is its first. */
  land(focused) {
    const { cards } = this.story, { stage, turned } = this;
    const node = stage.reading.map((card) => Number(card.dataset.node)).find((i) =>
      cards[i].opens === turned || cards[i].within.includes(turned));
    this.turned = undefined;
    if (node === undefined) return focused && stage.focus(stage.roving);
    if (focused) stage.focus(node);
    else stage.rove(node);
    stage.follow(node);
  }

  list() {
    const { cards, groups } = this.story;
    const of = this.story.name ? ` (${this.story.name})` : "";
    offer(this.jump, `Go to …${of}`, this.stage.reading.map(({ dataset: { node } }) =>
      [node, cards[node].label]));
    const opened = [...new Set(cards.flatMap(({ within }) => within))].sort((a, b) => a - b);
    offer(this.folder, `Fold …${of}`, opened.map((group) => [group, groups[group]]));
    this.folder.hidden = opened.length === 0;
  }

  write(texts) {
    this.texts = texts;
    this.stage.write(texts, this.fill);
    if (this.story.name) this.stage.compare(texts.at(-1));
    this.makeRoom();
  }

  /** Keep the longest sentence there has been. */
  makeRoom() {
    const longest = this.story.steps.map(({ text }) => this.fill(text))
      .reduce((one, other) => (other.length > one.length ? other : one));
    if (longest.length > this.longest.textContent.length) this.longest.textContent = longest;
  }

  paint(step) {
    const current = this.story.steps[step];
    this.stage.paint(step, this.fill);
    write(this.phase, { start: "Start", forward: "Forward", backward: "Backward" }[current.phase]);
    this.phase.dataset.phase = current.phase;
    write(this.sentence, this.fill(current.text));
    this.open(this.details.node);
  }

  /** A folded card unfolds; another one opens its details, or closes them. */
  act(node) {
    const { opens } = this.story.cards[node];
    if (opens !== null) this.onFold(opens);
    else this.open(this.details.node === node ? null : node);
  }

  open(node) {
    const left = this.details.element.contains(document.activeElement) ? this.details.node : null;
    this.details.show(node, this.story, this.stage.known, this.fill);
    this.stage.cards.forEach((card, i) => card.setAttribute("aria-expanded", i === node));
    if (node === null && left !== null) this.stage.focus(left);
  }

  goTo(node) {
    this.stage.rove(node);
    this.stage.follow(node);
    this.open(node);
  }

  /** Go to a step, with pulses if it is the next one. */
  go(before, after) {
    const current = this.story.steps[after];
    if (after === before + 1) this.stage.pulse(current);
    if (after !== before) this.stage.follow(current.nodes[0]);
  }

  /** Fold the innermost opened module around the card that has the focus. */
  foldAround() {
    const [group] = this.story.cards[this.stage.roving].within;
    if (group !== undefined) this.onFold(group);
  }

  keys(onCard) {
    const { stage } = this;
    return onCard ? {
      ArrowDown: () => stage.wander(1), ArrowUp: () => stage.wander(-1),
      Enter: () => this.act(stage.roving), Backspace: () => this.foldAround(),
    } : {};
  }

  dispose() {
    this.stage.observer.disconnect();
  }
}

/** A menu that does something and forgets it: at once, or at Enter where keys walk through it closed. */
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
