// The curve with its tangents, x's slider under it, and the slopes over x.

const TANGENT = 85; // half the length of a tangent, in units of the drawing
const UPPER = { width: 440, height: 250, left: 40, right: 12, bottom: 24 };
const LOWER = { ...UPPER, height: 150, top: 20 };

/** `onMove(index)` is told where the reader drags, `onRest()` that the hand has let go. */
class Curves {
  constructor(onMove, onRest) {
    this.onMove = onMove;
    const drag = { x: [0, 1], y: [0, 1], onMove: (x) => onMove(this.nearest(x)) };
    this.upper = new Plot({ ...drag, label: "", frame: UPPER });
    this.lower = new Plot({ ...drag, label: "", frame: LOWER });
    this.range = make("input", { type: "range", min: 0, step: 1 });
    this.range.addEventListener("input", () => onMove(Number(this.range.value)));
    this.range.addEventListener("change", onRest);
    for (const { element } of [this.upper, this.lower]) {
      element.addEventListener("pointerup", onRest);
      leadTo(this.range, element);
    }
    this.build();
  }

  build() {
    const number = () => make("b");
    [this.here, this.value, this.claimed, this.found] = [number(), number(), number(), number()];
    this.legend = make("div", { className: "ac-lab-legend" },
      make("span", { className: "ac-lab-key" }, this.here),
      this.key("forward-line", "forward", this.value),
      this.key("claimed", "∂ backward", this.claimed),
      this.key("found", "differences", this.found));
    this.overview = make("p", { className: "ac-lab-overview" });
    this.caption = make("div", { className: "ac-lab-caption" });
    this.element = make("div", { className: "ac-lab-curves" },
      this.legend, this.upper.element, make("div", { className: "ac-lab-x" }, this.range),
      this.caption, this.lower.element, this.overview);
  }

  key(kind, text, number) {
    const line = draw("line", { class: `ac-lab-${kind}`, x1: 1, x2: 29, y1: 6, y2: 6 });
    const sample = draw("svg", { viewBox: "0 0 30 12", "aria-hidden": "true" }, line);
    return make("span", { className: "ac-lab-key" }, sample, text, number);
  }

  /** Take over a sweep: everything that does not depend on where the reader stands. */
  show(scene) {
    const { ranges, slopes, bands } = scene;
    this.scene = scene;
    this.upper.range(ranges.x, ranges.y);
    this.lower.range(ranges.x, ranges.slope);
    this.upper.bands("open", bands.open, "ac-lab-open");
    this.upper.bands("differ", bands.differ, "ac-lab-differ");
    this.upper.curve("curve", scene.curve);
    this.lower.bands("open", bands.open, "ac-lab-open", "?");
    this.lower.bands("differ", bands.differ, "ac-lab-differ", "✗");
    this.lower.curve("backward", slopes.backward, "ac-lab-claimed");
    this.lower.curve("differences", slopes.differences, "ac-lab-found");
    this.chosen(slopes.chosen);
    this.range.max = scene.positions.length - 1;
    this.range.setAttribute("aria-label", scene.variable);
    this.upper.element.setAttribute("aria-label", `Forward over ${scene.variable}, with both tangents`);
    this.lower.element.setAttribute("aria-label", `Slope over ${scene.variable}. ${scene.overview}`);
    this.caption.textContent = `slope over ${scene.variable}`;
    this.overview.textContent = scene.overview;
  }

  /** What backward says where forward has no slope: single points. */
  chosen(points) {
    const dots = points.map(([x, y]) => y !== null &&
      draw("circle", { r: 4, cx: this.lower.px(x), cy: this.lower.py(y) }));
    this.lower.put("chosen", draw("g", { class: "ac-lab-chosen", "clip-path": this.lower.clip() }, ...dots.filter(Boolean)));
  }

  nearest(x) {
    const { positions } = this.scene;
    let best = 0;
    positions.forEach((at, i) => { if (Math.abs(at - x) < Math.abs(positions[best] - x)) best = i; });
    return best;
  }

  /** Stand at a position: tangents, points, numbers. */
  place(index) {
    const x = this.scene.positions[index], frame = this.scene.frames[index], { y, slope, sides } = frame;
    const [left, right] = sides?.length === 2 ? sides : [sides?.[0] ?? null, sides?.[0] ?? null];
    this.tangent("claimed", x, y, slope, -1, 1);
    this.tangent("found left", x, y, left, -1, 0);
    this.tangent("found right", x, y, right, 0, 1);
    this.upper.point("here", x, y);
    this.upper.upright("guide", x);
    this.lower.upright("guide", x);
    this.lower.point("claimed here", x, slope, "ac-lab-claimed-here");
    this.lower.point("found here", x, left === right ? left : null, "ac-lab-found-here");
    this.here.textContent = `${this.scene.variable} = ${frame.label}`;
    this.value.textContent = frame.value;
    this.claimed.textContent = frame.byBackward;
    this.found.textContent = frame.byDifferences;
    this.range.value = index;
    this.range.setAttribute("aria-valuetext", `${this.scene.variable} = ${frame.label}. ${frame.sentence}`);
  }

  /** A tangent is equally long on the page, however steep it is. */
  tangent(name, x, y, slope, from, to) {
    const { upper } = this;
    if (y === null || slope === null) return upper.put(name, null);
    const run = upper.px(x + 1) - upper.px(x), rise = slope * (upper.py(y + 1) - upper.py(y));
    const reach = TANGENT / Math.hypot(run, rise);
    const end = (side) => [x + side * reach, y + side * reach * slope];
    upper.segment(name, end(from), end(to), name === "claimed" ? "ac-lab-claimed" : "ac-lab-found");
  }
}
