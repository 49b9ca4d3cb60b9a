// A plot with axes, curves, straight lines and points. The reader can drag its x.

import { clamp, draw } from "./kit.js";

export const FRAME = { width: 560, height: 300, left: 46, right: 14, top: 12, bottom: 30 };

/** Return round values in a range, about `count` of them and at least three. */
function ticks([low, high], count = 5) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const multiples = (step) => {
    const found = [];
    for (let i = Math.ceil(low / step); i * step <= high + step * 1e-6; i++) found.push(i * step);
    return found;
  };
  const steps = [10, 5, 2, 1, 0.5].map((digit) => digit * power), fine = steps.findLastIndex((step) => step >= rough);
  const found = steps.slice(fine).map(multiples).find(({ length }) => length > 2);
  return found.map((value) => Number(value.toPrecision(6)));
}

/** Everything in a plot has a name. Drawing something with the same name replaces it. `frame` can override
    values of FRAME. */
export class Plot {
  constructor({ label, x, y, onMove, frame }) {
    this.x = x;
    this.y = y;
    this.frame = { ...FRAME, ...frame };
    this.drawn = new Map();
    this.axes = draw("g", { "aria-hidden": "true" });
    this.layer = draw("g");
    this.element = draw("svg", {
      class: "ac-plot", role: "img", "aria-label": label, viewBox: `0 0 ${this.frame.width} ${this.frame.height}`,
    }, this.axes, this.layer);
    this.ruled();
    if (onMove) this.draggable(onMove);
  }

  /** Let the reader drag. `onMove(x)` gets the x under the pointer. */
  draggable(onMove) {
    const at = ({ clientX }) => {
      const box = this.element.getBoundingClientRect();
      onMove(this.across(((clientX - box.left) / box.width) * this.frame.width));
    };
    this.element.style.cursor = "ew-resize";
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      at(event);
    });
    this.element.addEventListener("pointermove", (event) => event.buttons && at(event));
  }

  /** Set the ranges for everything that is drawn from now on. */
  range(x, y) {
    Object.assign(this, { x, y });
    this.ruled();
  }

  ruled() {
    const { left, right, top, bottom, width, height } = this.frame;
    const across = ticks(this.x, clamp(width / 63, 3, 8)).flatMap((value) => [
      draw("line", { class: "ac-grid", x1: this.px(value), x2: this.px(value), y1: top, y2: height - bottom }),
      draw("text", { x: this.px(value), y: height - bottom + 17, "text-anchor": "middle", text: value })]);
    const up = ticks(this.y, clamp(height / 60, 2, 5)).flatMap((value) => [
      draw("line", { class: "ac-grid", x1: left, x2: width - right, y1: this.py(value), y2: this.py(value) }),
      draw("text", { x: left - 7, y: this.py(value) + 4, "text-anchor": "end", text: value })]);
    const zero = (value, [low, high]) => clamp(value, low, high);
    const axes = [
      draw("line", { class: "ac-axis", x1: left, x2: width - right, y1: this.py(zero(0, this.y)), y2: this.py(zero(0, this.y)) }),
      draw("line", { class: "ac-axis", x1: this.px(zero(0, this.x)), x2: this.px(zero(0, this.x)), y1: top, y2: height - bottom })];
    this.axes.replaceChildren(...across, ...up, ...axes);
  }

  px(x) {
    const { left, right, width } = this.frame, [low, high] = this.x;
    return left + ((x - low) / (high - low)) * (width - left - right);
  }

  py(y) {
    const { top, bottom, height } = this.frame, [low, high] = this.y;
    return height - bottom - ((y - low) / (high - low)) * (height - top - bottom);
  }

  /** Return the x at a horizontal position in the drawing. */
  across(px) {
    const { left, right, width } = this.frame, [low, high] = this.x;
    return clamp(low + ((px - left) / (width - left - right)) * (high - low), low, high);
  }

  /** Draw a curve through [x, y] pairs. It has gaps where y is null, not finite, or far off the plot. */
  curve(name, points, className = "ac-curve") {
    const [low, high] = this.y, reach = high - low;
    let pen = "M", path = "";
    for (const [x, y] of points) {
      const off = y === null || !Number.isFinite(y) || y > high + reach || y < low - reach;
      if (!off) path += `${pen}${this.px(x).toFixed(1)} ${this.py(y).toFixed(1)}`;
      pen = off ? "M" : "L";
    }
    this.put(name, draw("path", { class: className, d: path || "M0 0", "clip-path": this.clip() }));
  }

  /** Draw the straight line through (x, y) with a slope, or nothing if one of the numbers is not finite. */
  line(name, { x, y, slope }, className = "ac-line") {
    if (![x, y, slope].every(Number.isFinite)) return this.put(name, null);
    const [low, high] = this.x, at = (place) => y + slope * (place - x);
    this.put(name, draw("line", {
      class: className, "clip-path": this.clip(),
      x1: this.px(low), x2: this.px(high), y1: this.py(at(low)), y2: this.py(at(high)),
    }));
  }

  /** Draw a straight line from one [x, y] to another. */
  segment(name, [x1, y1], [x2, y2], className = "ac-line") {
    this.put(name, draw("line", {
      class: className, "clip-path": this.clip(),
      x1: this.px(x1), y1: this.py(y1), x2: this.px(x2), y2: this.py(y2),
    }));
  }

  /** Draw a vertical line at x over the full height of the plot. */
  upright(name, x, className = "ac-upright") {
    const { top, bottom, height } = this.frame, at = this.px(x);
    this.put(name, draw("line", { class: className, x1: at, x2: at, y1: top, y2: height - bottom }));
  }

  /** Shade intervals of x, [[low, high], …], with a sign in the margin above each interval. */
  bands(name, stretches, className = "ac-band", sign = "") {
    const { top, bottom, height } = this.frame;
    const marks = stretches.flatMap(([low, high]) => [
      draw("rect", { x: this.px(low), width: this.px(high) - this.px(low), y: top, height: height - top - bottom }),
      draw("text", { x: this.px((low + high) / 2), y: top - 4, "text-anchor": "middle", text: sign })]);
    const band = draw("g", { class: className }, ...marks);
    this.drawn.get(name)?.remove();
    this.layer.prepend(band); // behind the curves
    this.drawn.set(name, band);
  }

  point(name, x, y, className = "ac-point") {
    const seen = Number.isFinite(y) && y >= this.y[0] && y <= this.y[1];
    this.put(name, seen ? draw("circle", { class: className, r: 6, cx: this.px(x), cy: this.py(y) }) : null);
  }

  put(name, element) {
    const before = this.drawn.get(name);
    if (element && before) before.replaceWith(element);
    else if (element) this.layer.append(element);
    else before?.remove();
    if (element) this.drawn.set(name, element);
    else this.drawn.delete(name);
  }

  /** Return a reference to the plot's frame as a clip path. */
  clip() {
    if (!this.clipped) {
      this.clipped = `ac-clip-${Math.random().toString(36).slice(2)}`;
      const { left, right, top, bottom, width, height } = this.frame;
      const frame = draw("rect", { x: left, y: top, width: width - left - right, height: height - top - bottom });
      this.element.prepend(draw("clipPath", { id: this.clipped }, frame));
    }
    return `url(#${this.clipped})`;
  }
}
