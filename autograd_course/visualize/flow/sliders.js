// Sliders for scalar inputs. What to show at each value lies here already; the kernel is told on
// release, and asked at once where nothing lies here: the graph is another, or all is still new.

/** `wanted` holds the inputs for which the kernel has no answer yet. */
class Sliders {
  constructor(onTexts, onWanted) {
    this.element = make("div", { className: "ac-sliders" });
    this.onTexts = onTexts;
    this.onWanted = onWanted;
    this.wanted = {};
    this.rows = [];
    this.frames = []; // by slider and position
  }

  /** Take over what is to be shown as a slider moves, where it holds for the story that is told. */
  load(sweeps, { sliders, answers, shape }) {
    this.frames = sliders.map(({ name, values }) => sweeps.find((sweep) =>
      sweep.name === name && sweep.shape === shape && same(sweep.others, answers) &&
      String(sweep.values) === String(values))?.frames);
  }

  at(i, index) {
    return this.frames[i]?.[index] ?? null;
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
    for (const [i, { values, index }] of this.sliders.entries()) {
      const place = Number(this.rows[i].range.value);
      if (values[place] !== values[index] && this.at(i, place)) return this.at(i, place);
    }
    return null;
  }

  row({ name }, i) {
    const range = make("input", { type: "range", min: 0, step: 1, "aria-label": `input ${name}` });
    const output = make("output", { role: "none" }); // the slider itself says its value
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
    const index = Number(this.rows[i].range.value), { name, values } = this.sliders[i];
    this.place(i, index);
    this.wanted[name] = values[index];
    // Sweeps of the other inputs hold for the old value of this one, until the kernel answers.
    this.rows.forEach(({ range }, j) => { range.disabled = j !== i; });
    const texts = this.at(i, index);
    if (texts) this.onTexts(texts);
    else this.released();
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
