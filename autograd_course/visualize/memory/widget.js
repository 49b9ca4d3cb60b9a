// The memory timeline: variants to choose from, the chart, a player, what is kept at this moment.

const PHASES = { start: "Start", forward: "Forward", backward: "Backward ∂", after: "After" };
const LINES = { alive: "all tensors that the call made", allocated: "what the CUDA allocator gave out" };

/** The table that compares the variants; its radio buttons choose the one in front. */
class Variants {
  constructor(onChoose) {
    this.onChoose = onChoose;
    this.element = make("div", {
      className: "ac-memory-compare", role: "radiogroup", "aria-label": "Variant in front" });
    this.group = `variant-${Math.random().toString(36).slice(2)}`;
  }

  show(story, budgeted) {
    const [peak, ...columns] = story.columns;
    const heads = ["variant", peak, ...(budgeted ? ["budget"] : []), ...columns];
    this.rows = story.variants.map((variant, i) => this.row(variant, i, budgeted));
    this.element.replaceChildren(make("table", {},
      make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col", text })))),
      make("tbody", {}, ...this.rows.map(({ row }) => row))));
  }

  row({ name, cells }, i, budgeted) {
    const radio = make("input", { type: "radio", name: this.group, value: name });
    radio.addEventListener("change", () => this.onChoose(name));
    const dash = draw("svg", { width: 30, height: 10, "aria-hidden": "true" },
      draw("path", { d: "M1 5H29", class: `ac-memory-ghost ac-memory-dash-${i}` }));
    const verdict = make("td", { className: "ac-memory-verdict" });
    const row = make("tr", {},
      make("th", { scope: "row" }, make("label", {}, radio, dash, make("span", { text: name }))),
      ...cells.map((text) => make("td", { text })));
    if (budgeted) row.children[1].after(verdict);
    row.addEventListener("click", () => radio.checked || this.onChoose(name));
    return { row, radio, verdict };
  }

  choose(index) {
    this.rows.forEach(({ row, radio }, i) => {
      radio.checked = i === index;
      row.classList.toggle("ac-memory-chosen", i === index);
    });
  }

  judge(verdicts) {
    this.rows.forEach(({ verdict }, i) => {
      verdict.textContent = verdicts[i];
      verdict.dataset.fits = verdicts[i].startsWith("✓");
    });
  }
}

/** What is kept when an event is over, the largest first; and what was freed by it. */
class KeptList {
  constructor() {
    this.head = make("h4");
    this.body = make("tbody");
    this.more = make("p", { className: "ac-memory-rest" });
    const heads = ["", "owner", "bytes", "tensor", "shape", "dtype"];
    this.table = make("table", {},
      make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col", text })))), this.body);
    this.element = make("div", { className: "ac-memory-list", role: "region", "aria-label": "Kept at this moment", tabindex: 0 },
      this.head, this.table, this.more);
  }

  show(story, { items, keptTexts, more }, step) {
    const there = items.filter(({ born, freed }) => born <= step && (freed === null || step <= freed));
    const rows = there.slice(0, story.rows).map((item) => this.row(story, item, step));
    this.head.textContent = `Kept at this moment: ${keptTexts[step]}`;
    this.table.hidden = !rows.length;
    this.body.replaceChildren(...rows);
    this.more.textContent = more[step] ? `and ${more[step]} more` : rows.length ? "" : "Nothing.";
  }

  row(story, item, step) {
    const gone = item.freed === step, fresh = item.born === step;
    const sign = gone ? "− freed" : fresh ? "+ new" : "";
    const notes = [item.note, item.line].filter(Boolean);
    return make("tr", { className: gone ? "ac-memory-gone" : fresh ? "ac-memory-fresh" : "" },
      make("td", {}, this.swatch(story, item.group)),
      make("th", { scope: "row" }, make("span", { text: item.owner }), ...this.small(item.module)),
      make("td", { text: item.size }),
      make("td", {}, make("span", { text: item.what }), make("b", { text: sign && ` ${sign}` }),
        ...this.small(item.note), ...(item.line ? [make("code", { text: item.line })] : [])),
      make("td", { text: item.shape }), make("td", { text: item.dtype }));
  }

  small(text) {
    return text ? [make("small", { text })] : [];
  }

  swatch(story, group) {
    if (group === null) return make("span", { className: "ac-memory-swatch ac-memory-none", text: "–" });
    return make("span", { className: `ac-memory-swatch ac-memory-${group}`, text: story.groups[group].letter });
  }
}

class MemoryTimeline {
  constructor(model, element) {
    this.model = model;
    this.chart = new TimelineChart({
      onMove: (step, pressed) => (pressed ? this.player.go(step) : this.preview(step)),
      onLeave: () => this.preview(null),
    });
    this.variants = new Variants((name) => this.choose(name));
    this.list = new KeptList();
    this.player = new Player((step) => this.go(step), (last) => (last > 60 ? 150 : 800));
    this.line = "";
    this.hovered = null;
    this.build(element);
    this.deaf = listen(model, {
      story: () => this.tell(), budgets: () => this.tell(), variant: () => this.redraw(),
      step: () => this.paint(), budget: () => this.judge(),
    });
    this.tell();
    this.observer = new ResizeObserver(() => this.stage.clientWidth !== this.drawnAt && this.redraw());
    this.observer.observe(this.stage);
  }

  build(element) {
    this.phase = make("span", { className: "ac-memory-phase" });
    this.sentence = make("span", { className: "ac-memory-told" });
    this.amount = make("strong", { className: "ac-memory-amount" });
    this.status = make("div", { className: "ac-status ac-memory-status", role: "status" },
      this.phase, this.sentence, this.amount);
    this.stage = make("div", { className: "ac-memory-stage" }, this.chart.element);
    this.legend = make("ul", { className: "ac-memory-legend", "aria-label": "Bands" });
    this.options = make("div", { className: "ac-memory-options" });
    this.root = make("div", { className: "ac ac-memory", role: "group" },
      this.variants.element, this.stage, this.legend, this.player.element, this.status, this.options, this.list.element);
    leadTo(this.player.scrubber, this.stage);
    keepKeys(this.root, (event) => this.pressed(event));
    element.append(this.root);
  }

  get index() { return Math.max(0, this.story.variants.findIndex(({ name }) => name === this.model.get("variant"))); }
  get variant() { return this.story.variants[this.index]; }
  get last() { return this.variant.kept.length - 1; }
  get step() { return clamp(this.model.get("step"), 0, this.last); }

  /** Take over what the kernel tells. */
  tell() {
    this.story = this.model.get("story");
    this.budgets = this.model.get("budgets");
    this.root.setAttribute("aria-label", this.story.title);
    this.variants.show(this.story, Boolean(this.budgets));
    this.offer();
    this.redraw();
  }

  offer() {
    const boxes = Object.entries(LINES).filter(([name]) => this.story.variants.every((v) => v[name])).map(([name, text]) => {
      const box = make("input", { type: "checkbox" });
      box.checked = this.line === name;
      box.addEventListener("change", () => {
        this.line = box.checked ? name : "";
        this.options.querySelectorAll("[type=checkbox]").forEach((other) => { other.checked = other === box && box.checked; });
        this.redraw();
      });
      return make("label", { className: "ac-memory-box" }, box, make("span", { text: `also draw ${text}` }));
    });
    this.options.replaceChildren(...(this.budgets ? [this.slider()] : []), ...boxes);
  }

  slider() {
    const { values } = this.budgets;
    this.range = make("input", { type: "range", min: 0, max: values.length - 1, step: 1, "aria-label": "budget" });
    this.range.value = values.indexOf(this.model.get("budget"));
    this.range.addEventListener("input", () => this.judge(Number(this.range.value)));
    this.range.addEventListener("change", () => {
      this.model.set("budget", values[Number(this.range.value)]);
      this.model.save_changes();
    });
    this.told = shownValue();
    return make("label", { className: "ac-slider" }, make("span", { text: "budget" }), this.range, this.told);
  }

  /** Compare all variants with a budget: at a position of the slider, or the model's. */
  judge(position) {
    if (!this.budgets) return this.chart.limit(null);
    const { values, labels, verdicts } = this.budgets;
    const at = position ?? values.indexOf(this.model.get("budget"));
    if (at < 0) return;
    this.range.value = at;
    this.range.setAttribute("aria-valuetext", labels[at]);
    this.told.textContent = labels[at];
    this.variants.judge(verdicts[at]);
    this.chart.limit({ value: values[at], label: labels[at] });
  }

  redraw() {
    this.drawnAt = this.stage.clientWidth;
    this.variants.choose(this.index);
    this.chart.show(this.story, this.variant, { budget: null, line: this.line });
    this.legend.replaceChildren(...this.variant.stacked.map((group) =>
      make("li", {}, this.list.swatch(this.story, group), make("span", { text: this.story.groups[group].label }))));
    this.judge(this.range && this.budgets ? Number(this.range.value) : undefined);
    this.paint();
  }

  preview(step) {
    if (step === this.hovered) return;
    this.hovered = step;
    this.paint();
  }

  paint() {
    const { variant } = this, step = this.hovered ?? this.step, phase = variant.phases[step];
    this.chart.point(step);
    write(this.phase, PHASES[phase]);
    this.phase.dataset.phase = phase;
    write(this.sentence, variant.texts[step]);
    const also = this.line === "alive" ? `, of ${variant.aliveTexts[step]} alive at most` : "";
    write(this.amount, `${variant.keptTexts[step]} kept${also}`);
    this.chart.element.setAttribute("aria-label",
      `${variant.name}: ${variant.peakText}. At event ${step} of ${this.last}, ${variant.keptTexts[step]} kept`);
    this.list.show(this.story, variant, step);
    this.player.place(this.step, this.last);
  }

  go(step) {
    this.hovered = null;
    this.model.set("step", clamp(step, 0, this.last));
    this.model.save_changes();
    this.paint();
  }

  /** Bring another variant to the front, at the same place of its pass. */
  choose(name) {
    this.player.pause();
    const place = this.variant.places[this.step], other = this.story.variants.find((v) => v.name === name);
    const step = Math.max(0, other.places.filter((at) => at <= place + 1e-6).length - 1);
    this.model.set("step", Math.min(step, other.kept.length - 1));
    this.model.set("variant", name);
    this.model.save_changes();
  }

  pressed(event) {
    if (event.target.matches("button, input")) return;
    const actions = this.player.keys();
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }

  dispose() {
    this.player.pause();
    this.observer.disconnect();
    this.deaf();
    this.root.remove();
  }
}

function render({ model, el }) {
  const timeline = new MemoryTimeline(model, el);
  return () => timeline.dispose();
}

export default { initialize, render };
