// Sliders for scalar inputs. What to show at each value lies here already; the kernel is told when
// the hand rests, and asked at once where nothing lies here: the graph is another, or all is new.

const REST = 250; // milliseconds; keys that are held down or pressed in a row come faster

/** `wanted` holds the inputs for which the kernel has no answer yet. */
class Sliders {
  constructor(onTexts, onWanted) {
    this.element = make("div", { className: "agf-sliders" });
    this.onTexts = onTexts;
    this.onWanted = onWanted;
    this.wanted = {};
    this.rows = [];
    this.frames = []; // by slider and position
    this.rest = null;
  }

  /** Take over what is to be shown as a slider moves, where it holds for the story that is told. */
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

  /** Texts for where a slider stands: they hold while all others stand where the kernel traced. */
  at(i) {
    const others = this.sliders.every(({ index }, j) => j === i || this.index(j) === index);
    return (others && this.frames[i]?.[this.index(i)]) || null;
  }

  /** Texts for where the sliders stand, if that is not where the story was traced. */
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

  /** Tell the kernel once nothing more comes. */
  settle() {
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.released(), REST);
  }

  /** Put the sliders back to where the kernel last traced. */
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
