// The picture of a gradient flow. All words and numbers are made in Python (wording.py): a template
// such as "∂ {4}" is filled with texts[4]. Here they are only shown, hidden and exchanged.

const PULSE = 600; // milliseconds that a pulse travels along an edge
const CALM = 0.25; // the picture scrolls when a node is farther from its middle than this part of it
const LETTER = 12 * 0.61, ASIDE = 8; // pixels of a factor's letter, and beside them all (face.py)
const SCALE = { least: 0.25, most: 2, legible: 11 / 12, factor: 1.25 }; // legible: 12 px text is 11 px high

/** Which values and gradients are visible, pulses, zoom, and the roving focus. */
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
    this.maps = all("[data-map]");
    this.gauges = this.cards.map((card) => card.querySelector(".agf-gauge"));
    this.rove(this.cards.indexOf(this.reading[0]));
    this.fit();
  }

  write(texts, fill) {
    for (const slot of this.slots) slot.textContent = fill(slot.dataset.text, texts);
    for (const factor of this.factors) {
      const text = factor.querySelector("text"), { length } = text.textContent;
      factor.setAttribute("visibility", length ? "visible" : "hidden");
      const width = length * LETTER + ASIDE, ground = factor.querySelector("rect");
      ground.setAttribute("x", text.getAttribute("x") - width / 2);
      ground.setAttribute("width", width);
    }
    const { marks, cards } = this.story;
    this.links.forEach((link, edge) => weigh(link, fill(marks[edge], texts)));
    this.gauges.forEach((gauge, node) => measure(gauge, fill(cards[node].mark, texts)));
    for (const map of this.maps) {
      const { columns, cell } = map.dataset;
      map.replaceChildren(...heatMap(fill(map.dataset.map, texts), Number(columns), Number(cell)));
    }
  }

  /** Mark what differs from another flow, as Python writes it: "1 4/0" are two nodes and an edge. */
  compare(code) {
    const [nodes, edges] = code.split("/").map((part) => new Set(part ? part.split(" ").map(Number) : []));
    this.unlike = nodes;
    this.cards.forEach((card, node) => mark(card, nodes.has(node)));
    this.factors.forEach((factor, edge) => mark(factor, edges.has(edge)));
  }

  /** Show the state after `step`, and keep which values and gradients are known by then. */
  paint(step, fill) {
    const { steps } = this.story;
    [this.active] = steps[step].nodes;
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
      link.classList.toggle("agf-went-back", known.back.has(edge));
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
      const unlike = this.unlike?.has(node) ? "; ≠ differs between the flows" : "";
      card.setAttribute("aria-label", `${label}: value ${told}, gradient ${sent}${unlike}`);
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
  follow(node, behavior = still() ? "auto" : "smooth") {
    const box = this.cards[node].getBoundingClientRect(), view = this.view.getBoundingClientRect();
    const off = (begin, size) => {
      const distance = box[begin] + box[size] / 2 - view[begin] - view[size] / 2;
      return Math.abs(distance) > view[size] * CALM ? distance : 0;
    };
    this.view.scrollBy({ left: off("left", "width"), top: off("top", "height"), behavior });
  }

  fit() {
    if (!this.svg || !this.view.clientWidth) return;
    this.resize(this.scale ?? clamp(this.view.clientWidth / this.width, SCALE.legible, 1));
    if (this.seen || this.active === undefined) return;
    this.seen = true;
    this.follow(this.active, "auto");
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
