// The training of the STE lab: the losses of all nets, and the map of what each decides.

const MOST_LOSS = 0.85; // ln 2 = 0.69 is the loss of a net that knows nothing
const LOOKS = 5; // ways in which estimators are drawn (widget.css)
const lookOf = (i) => `ac-ste-look${i % LOOKS}`;

/** One net: its name, the map of its decisions with the points on it, and its result. */
class NetCard {
  constructor(i, { name, label }, { reach, cells, points }, onChoose) {
    Object.assign(this, { cells, name, shades: "" });
    this.canvas = make("canvas", { width: cells, height: cells, "aria-hidden": "true" });
    this.ground = this.canvas.getContext("2d");
    const key = draw("svg", { class: "ac-ste-key", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
      draw("line", { class: lookOf(i), x1: 0, x2: 100, y1: 3, y2: 3 }));
    const marks = points.map(([x, y, label]) => draw("path", { class: "ac-ste-mark", d: label
      ? `M${x} ${-y - 0.07}l.06 .11h-.12z` : `M${x - 0.05} ${-y}a.05 .05 0 1 0 .1 0a.05 .05 0 1 0 -.1 0` }));
    const dots = draw("svg", { viewBox: `${-reach} ${-reach} ${2 * reach} ${2 * reach}`, "aria-hidden": "true" }, ...marks);
    this.result = make("span", { className: "ac-ste-result" });
    this.element = make("button", { type: "button", className: "ac-ste-card" },
      make("span", { className: "ac-ste-name", text: label }), key,
      make("span", { className: "ac-ste-map" }, this.canvas, dots), this.result);
    this.element.addEventListener("click", () => onChoose(name));
    this.label = label;
  }

  show(run, colors) {
    this.result.textContent = run?.result.replace(", ", "\n") ?? "";
    this.element.setAttribute("aria-label", `${this.label}: ${run?.result || "not trained yet"}`);
    const shades = run?.shades ?? "", look = colors.flat().join();
    if (this.shades === shades && this.colors === look) return;
    Object.assign(this, { shades, colors: look });
    this.paint(shades, colors);
  }

  paint(shades, [zero, one]) {
    const image = this.ground.createImageData(this.cells, this.cells);
    [...shades].forEach((digit, i) => {
      const part = parseInt(digit, 16) / 15;
      const color = zero.map((channel, c) => channel + (one[c] - channel) * part);
      image.data.set([...color, 255], 4 * i);
    });
    this.ground.putImageData(image, 0, 0);
  }
}

/** All nets, with the controls that start and stop them. `act` holds what the reader can do. */
class RaceView {
  constructor(board, act) {
    Object.assign(this, { board, act, cards: [] });
    this.plot = new Plot({ label: "Loss of each net over the steps of training", x: [0, 150], y: [0, MOST_LOSS] });
    this.plot.element.classList.add("ac-ste-still");
    this.deck = make("div", { className: "ac-ste-cards", role: "group", "aria-label": "Nets" });
    this.told = make("span", { className: "ac-ste-told", role: "status" });
    this.rest = make("p", { className: "ac-ste-rest" });
    this.notice = make("p", { className: "ac-notice", role: "status" });
    const losses = make("figure", { className: "ac-ste-figure" }, make("figcaption", { text: "Loss over the steps of training" }), this.plot.element);
    this.element = make("section", { className: "ac-ste-race", "aria-label": "Training" },
      this.controls(), this.rest, this.notice, make("div", { className: "ac-ste-columns" }, losses, this.deck));
  }

  /** Paint the maps when the page shows them, which is when their colors are known, and anew when
      the notebook's theme changes. */
  followTheme(repaint) {
    this.shown = new ResizeObserver(repaint);
    this.shown.observe(this.element);
    this.theme = new MutationObserver(repaint);
    for (const bearer of [document.documentElement, document.body]) {
      this.theme.observe(bearer, { attributes: true, attributeFilter: ["data-jp-theme-light", "class", "theme"] });
    }
  }

  dispose() {
    this.shown.disconnect();
    this.theme.disconnect();
  }

  controls() {
    this.train = make("button", { type: "button", className: "ac-ste-train" });
    this.train.addEventListener("click", () => this.act.train());
    this.place = chooser("Quantized", [["activations", "hidden activations"], ["weights", "weights"]],
      (value) => this.act.place(value));
    const starts = [0, 1, 2, 3, 4].map((seed) => [String(seed), String(seed + 1)]);
    this.seed = chooser("Random start", starts, (value) => this.act.seed(Number(value)));
    return make("div", { className: "ac-controls" }, this.train, this.place.row, this.seed.row, this.told);
  }

  /** Make a card for each estimator; the maps stay empty until something is trained. */
  deal(estimates) {
    this.plot.layer.replaceChildren();
    this.plot.drawn.clear();
    this.cards = estimates.map((estimate, i) => new NetCard(i, estimate, this.board, this.act.choose));
    this.deck.replaceChildren(...this.cards.map(({ element }) => element));
  }

  show(progress, training) {
    const { runs, notice, told, rest, step, steps } = progress;
    const colors = classColors(this.element);
    this.cards.forEach((card, i) => {
      card.show(runs[i], colors);
      this.plot.curve(card.name, runs[i]?.losses ?? [], `ac-curve ${lookOf(i)}`);
    });
    const idle = step ? `Train again` : "Train";
    this.train.textContent = training ? "Stop" : idle;
    // A running count would be read aloud fifty times: only its ends are told.
    this.told.setAttribute("aria-live", training && step < steps ? "off" : "polite");
    write(this.told, told);
    this.rest.textContent = step ? rest : "Which of these will learn? They start alike, see the same points, and differ in backward alone.";
    write(this.notice, notice);
    this.place.choice.value = progress.place;
    this.seed.choice.value = String(progress.seed);
  }

  chosen(name) {
    this.cards.forEach((card) => {
      card.element.setAttribute("aria-pressed", card.name === name);
      this.plot.drawn.get(card.name)?.classList.toggle("ac-ste-chosen", card.name === name);
    });
  }
}

/** A labeled <select>. */
function chooser(label, options, onChoose) {
  const choice = make("select", { "aria-label": label }, ...options.map(([value, text]) => make("option", { value, text })));
  choice.addEventListener("change", () => onChoose(choice.value));
  return { row: make("label", { className: "ac-ste-chooser" }, `${label} `, choice), choice };
}

/** The colors of the two classes as the theme has them: [[r, g, b], [r, g, b]]. */
function classColors(element) {
  const style = getComputedStyle(element);
  return ["--ac-ste-zero", "--ac-ste-one"].map((name) => {
    const value = style.getPropertyValue(name).trim() || "#808080";
    return [1, 3, 5].map((i) => parseInt(value.slice(i, i + 2), 16));
  });
}
