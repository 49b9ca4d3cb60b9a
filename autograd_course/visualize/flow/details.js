// What there is to know of one node.

const LARGE = 16; // pixels of a heat map's cell in the details

/** The numbers of one node, its heat maps, its source, and the modules around it. */
class Details {
  constructor(onClose, onFold) {
    this.onFold = onFold;
    this.heading = make("h4");
    this.list = make("dl");
    this.maps = make("div", { className: "agf-maps" });
    this.code = make("div", { className: "agf-code" });
    this.folds = make("div", { className: "agf-folds" });
    const close = button("Close details", "×", onClose);
    close.classList.add("agf-close");
    const options = { className: "agf-details", role: "region", "aria-label": "Details", hidden: "" };
    this.element = make("section", options, this.heading, close, this.list, this.maps, this.code, this.folds);
    this.node = null;
  }

  /** Open a node; what the story has not told yet, the details do not tell either. */
  show(node, story, known, fill) {
    const another = this.node !== node || this.story !== story;
    Object.assign(this, { node, story });
    this.element.hidden = node === null;
    if (node === null) return;
    const card = story.cards[node];
    this.heading.textContent = card.label;
    this.list.replaceChildren(...card.details.flatMap(([term, text, when]) => [
      make("dt", { text: term }),
      make("dd", { text: known[when].has(node) ? fill(text) : "not yet known" }),
    ]));
    this.maps.replaceChildren(...card.maps.filter(({ when }) => known[when].has(node))
      .map((map) => this.map(map, fill)));
    if (another) this.about(card, story); // an opened source stays open while numbers change
  }

  map({ code, columns, rows, when }, fill) {
    const width = columns * LARGE, height = rows * LARGE;
    const name = when === "gradient" ? "gradient ∂" : "value";
    const label = `heat map of the ${name}, ${rows} by ${columns}`;
    const picture = draw("svg", { className: "agf-swatch", role: "img", "aria-label": label, width, height },
      ...heatMap(fill(code), columns, LARGE));
    return make("figure", {}, make("figcaption", { text: name }), picture);
  }

  about({ source, opens, within }, story) {
    const parts = source === null ? [] : Object.entries(story.sources[source]).filter(([, text]) => text);
    this.code.replaceChildren(...parts.map(([name, text]) =>
      make("details", {}, make("summary", { text: `source of ${name}` }), make("pre", { text }))));
    const buttons = opens === null ? [] : [this.fold("Unfold", opens, story)];
    this.folds.replaceChildren(...buttons, ...within.map((group) => this.fold("Fold", group, story)));
  }

  fold(verb, group, story) {
    const text = `${verb} ${story.groups[group]}`;
    return button(text, text, () => this.onFold(group));
  }
}
