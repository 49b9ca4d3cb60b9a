// Built from jacobian/widget.js by `make notebooks`: edit the sources named below.

// kit/kit.js
const $kit_kit = (() => {
// Helpers that all widgets of the course share.

const SVG = "http://www.w3.org/2000/svg";
const PATIENCE = 5000; // milliseconds to wait for the kernel's answer
const SILENCE = "The kernel has not answered, so the inputs have their old values again. " +
  "If it is busy, move the slider again later. If it was restarted, run the cell again.";

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const same = (one, other) => Object.keys(one).every((name) => one[name] === other[name]);

/** Return the focused element in the page or shadow tree that contains `element`, or null. */
const focus = (element) => element.getRootNode().activeElement ?? null;

/** Create an HTML element from the options {className, text, …attributes} and children. */
function make(tag, options = {}, ...children) {
  return filled(document.createElement(tag), options, children);
}

/** Set an element's text only if it differs. Otherwise, a screen reader would read a live region again, and
    the browser would lay out an SVG again. */
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Create an SVG element in the same way. */
function draw(tag, options = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), options, children);
}

function filled(element, { className, text, ...attributes }, children) {
  if (className) element.setAttribute("class", className);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** When the reader clicks a drawing, focus a control, so that further keys do not go to the notebook. */
function leadTo(control, drawing) {
  drawing.addEventListener("mousedown", (event) => {
    if (!event.target.closest("svg")) return;
    event.preventDefault();
    control.focus({ preventScroll: true });
  });
}

function button(label, face, onClick) {
  const element = make("button", { type: "button", "aria-label": label, title: label }, face);
  element.addEventListener("click", () => element.ariaDisabled === "true" || onClick());
  return element;
}

/** Disable or enable a button with `aria-disabled`, which lets the button keep the focus. With
    `disabled`, it would lose the focus, and further keys would go to the notebook. */
function resting(element, now) {
  element.setAttribute("aria-disabled", now);
}

/** Create the visible value next to a slider. It has no role, because the slider itself announces its value
    to screen readers. */
function shownValue() {
  return make("output", { role: "none" });
}

/** Fade each side of a box where more content is hidden. Return the box. */
function fadeEdges(box) {
  const mark = () => {
    const hidden = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.dataset.more = [box.scrollLeft > 1 && "left", hidden > 1 && "right"].filter(Boolean).join(" ");
  };
  const sizes = new ResizeObserver(mark);
  const watch = () => {
    sizes.disconnect();
    for (const part of [box, ...box.children]) sizes.observe(part);
  };
  new MutationObserver(watch).observe(box, { childList: true });
  box.addEventListener("scroll", mark, { passive: true });
  watch();
  return box;
}

/** Keep keys inside the widget, because "d d" would delete the cell in JupyterLab. The page still receives
    the shortcut for saving. */
function keepKeys(root, onKey = () => {}) {
  root.addEventListener("keydown", (event) => {
    const saves = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s";
    if (!saves) event.stopPropagation();
    if (!event.ctrlKey && !event.metaKey && !event.altKey) onKey(event);
  });
}

/** Listen to changes of the model's traits: {name: callback}. Return a function that stops listening. */
function listen(model, heard) {
  const events = Object.entries(heard).map(([name, call]) => [`change:${name}`, call]);
  for (const [event, call] of events) model.on(event, call);
  return () => events.forEach(([event, call]) => model.off(event, call));
}

/** Questions to the kernel. They are sent one at a time, and only the newest waiting question is kept. If
    the kernel does not answer within PATIENCE, `onSilence` is called. */
class Questions {
  constructor(send, onSilence) {
    this.send = send;
    this.onSilence = onSilence;
    this.timer = null;
    this.waiting = null;
  }

  ask(inputs) {
    if (this.timer) {
      this.waiting = inputs;
      return;
    }
    this.waiting = null;
    this.timer = setTimeout(() => {
      this.stop();
      this.onSilence();
    }, PATIENCE);
    this.send(inputs);
  }

  /** End the current question. Return the waiting question, or null. */
  answered() {
    const { waiting } = this;
    this.stop();
    return waiting;
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = this.waiting = null;
  }
}

return { SVG, SILENCE, still, clamp, same, focus, make, write, draw, leadTo, button, resting, shownValue, fadeEdges, keepKeys, listen, Questions };
})();

// kit/saving.js
const $kit_saving = (() => {
// A saved notebook contains only a widget's picture. The class Saved in live.py explains why.

const VIEW = "application/vnd.jupyter.widget-view+json";
const WATCHED = Symbol.for("autograd_course.watched"); // shared by all widgets, so that only one patches the notebook

/** Make JupyterLab save the widget's notebook without live views, and restore the views whose widgets the
    kernel still has. The widget does not wait for this. In other front ends, this does nothing. */
function initialize({ model }) {
  const manager = model.widget_manager, context = manager?.context;
  if (!context?.model?.toJSON) return;
  context.ready.then(() => {
    withoutViews(context.model);
    revive(context.model, manager);
  });
}

/** Make a notebook leave out its live views when it is saved. They remain on the page. */
function withoutViews(notebook) {
  if (notebook[WATCHED]) return;
  notebook[WATCHED] = true;
  const whole = notebook.toJSON.bind(notebook);
  notebook.toJSON = () => {
    const saved = whole();
    return { ...saved, cells: saved.cells.map((cell) => (cell.outputs ? { ...cell, outputs: cell.outputs.map(pictured) } : cell)) };
  };
}

/** Remove the live view from an output of the course. The view's id remains in the metadata. */
function pictured(output) {
  if (!output.metadata?.[VIEW]?.model_id || !output.data?.[VIEW]) return output;
  const { [VIEW]: _, ...data } = output.data;
  return { ...output, data };
}

/** In a reopened notebook, show a live view again if the kernel still has its widget. */
function revive(notebook, manager) {
  const { dirty } = notebook;
  for (const { outputs } of notebook.cells) {
    for (let i = 0; i < (outputs?.length ?? 0); i++) {
      const output = outputs.get(i).toJSON(), view = output.metadata?.[VIEW];
      if (!view?.model_id || output.data[VIEW] || !manager.has_model?.(view.model_id)) continue;
      outputs.set(i, { ...output, data: { ...output.data, [VIEW]: view } });
    }
  }
  notebook.dirty = dirty; // the saved file would be the same
}

return { initialize };
})();

// jacobian/widget.js
// The Jacobian view: three linked maps. Python writes all words and numbers.

const { button, clamp, draw, keepKeys, listen, make } = $kit_kit;
const { initialize } = $kit_saving;

const EXTENT = 264, LARGEST = 54, SMALLEST = 26; // pixels: a map's size, the largest cell, a map's shortest side
const EDGE = { left: 18, top: 18 }; // room for the names of the selected row and column
const LEAST_RING = 9; // the minimum size of the square around the selected cell, in pixels
const GRID = 24; // maximum number of rows or columns for which grid lines are drawn
let patterns = 0; // counts the hatch patterns, whose ids must be unique on the page

/** Convert a sentence to nodes, with the text in backticks as code. */
const marked = (text) => text.split("`").map((part, k) => (k % 2 ? make("code", { text: part }) : part));

/** One map: the picture of a matrix, with lines, hatching, a band and a square on top. */
class Matrix {
  constructor({ title, filling, image }, view, part) {
    this.view = view;
    this.part = part; // 0: differences, with one nudge per column; 1: backward, with one call per row
    this.rows = view.rows.length;
    this.columns = view.columns.length;
    const side = Math.min(LARGEST, EXTENT / Math.max(this.rows, this.columns));
    this.wide = Math.max(side, Math.min(LARGEST, SMALLEST / this.columns));
    this.high = Math.max(side, Math.min(LARGEST, SMALLEST / this.rows));
    this.width = this.wide * this.columns;
    this.height = this.high * this.rows;
    this.band = [draw("rect", { class: "ac-jac-band" }), draw("rect", { class: "ac-jac-band" })];
    this.ring = [draw("rect", { class: "ac-jac-halo" }), draw("rect", { class: "ac-jac-ring" })];
    this.across = draw("text", { class: "ac-jac-name", y: -6 });
    this.down = draw("text", { class: "ac-jac-name", x: 0, y: 0 });
    this.board = draw("svg", {
      class: "ac-jac-board", "aria-hidden": "true",
      viewBox: `${-EDGE.left} ${-EDGE.top} ${this.width + EDGE.left + 6} ${this.height + EDGE.top + 6}`,
    }, ...this.picture(image), ...this.band, ...this.ring, this.across, this.down);
    const caption = make("figcaption", {}, make("b", { text: title }), make("span", { text: filling }));
    this.element = make("figure", { className: "ac-jac-map" }, this.board, caption);
    this.board.style.maxWidth = `${this.width + EDGE.left + 6}px`;
  }

  picture(image) {
    const id = `ac-jac-hatch-${patterns++}`;
    const pattern = draw("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      draw("line", { class: "ac-jac-stroke", x1: 0, x2: 0, y1: 0, y2: 6 }));
    return [
      draw("defs", {}, pattern),
      draw("image", { href: image, width: this.width, height: this.height, preserveAspectRatio: "none" }),
      draw("path", { class: "ac-jac-grid", d: this.lines() }),
      draw("path", { fill: `url(#${id})`, d: this.wrong() }),
      draw("path", { class: "ac-jac-group", d: this.lines(this.view.groups) }),
      draw("rect", { class: "ac-jac-frame", width: this.width, height: this.height }),
    ];
  }

  /** Return the lines between cells, or between groups of cells that form a row of the tensor. */
  lines(groups = [this.rows, this.columns].map((count) => (count <= GRID ? 1 : 0))) {
    const { width, height, high, wide } = this, [down, across] = groups;
    let path = "";
    for (let i = down; down && i < this.rows; i += down) path += `M0 ${i * high}h${width}`;
    for (let j = across; across && j < this.columns; j += across) path += `M${j * wide} 0v${height}`;
    return path || "M0 0";
  }

  /** Return a rectangle for each run of wrong cells in a row. */
  wrong() {
    const runs = this.view.marks.flatMap((marks, i) =>
      [...marks.matchAll(/x+/g)].map(({ index, 0: { length } }) =>
        `M${index * this.wide} ${i * this.high}h${length * this.wide}v${this.high}h${-length * this.wide}z`));
    return runs.join("") || "M0 0";
  }

  /** Mark a cell, and the row or column that was computed together with it. */
  point(row, column) {
    const { wide, high, width, height } = this, x = column * wide, y = row * high;
    const place = (rect, box) => Object.entries(box).forEach(([name, value]) => rect.setAttribute(name, value));
    place(this.band[0], { x: 0, y, width: this.part === 0 ? 0 : width, height: high });
    place(this.band[1], { x, y: 0, width: wide, height: this.part === 1 ? 0 : height });
    const [w, h] = [Math.max(wide, LEAST_RING), Math.max(high, LEAST_RING)];
    const box = { x: x + (wide - w) / 2, y: y + (high - h) / 2, width: w, height: h };
    this.ring.forEach((rect) => place(rect, box));
    this.name(this.across, this.view.columns[column], x + wide / 2, width, (at) => `translate(${at} 0)`);
    this.name(this.down, this.view.rows[row], y + high / 2, height, (at) => `translate(-6 ${at}) rotate(-90)`);
  }

  /** Write a name next to the map, centered on its cell or as close to the center as it fits. */
  name(text, label, at, length, moved) {
    const half = label.length * 3.3;
    text.textContent = label;
    const fits = half * 2 <= length;
    text.setAttribute("transform", moved(fits ? clamp(at, half - 4, length - half + 4) : length / 2));
  }

  /** Return the cell under the pointer, or null if the pointer is outside the map. */
  under({ clientX, clientY }) {
    const box = this.board.getBoundingClientRect(), scale = box.width / (this.width + EDGE.left + 6);
    const column = Math.floor(((clientX - box.left) / scale - EDGE.left) / this.wide);
    const row = Math.floor(((clientY - box.top) / scale - EDGE.top) / this.high);
    const inside = row >= 0 && row < this.rows && column >= 0 && column < this.columns;
    return inside ? [row, column] : null;
  }
}

class JacobianView {
  constructor(model, element) {
    this.model = model;
    this.build(element);
    this.deaf = listen(model, {
      views: () => this.stage(), shown: () => this.stage(), cell: () => this.point(),
      finding: () => this.found(),
    });
    this.found();
    this.stage();
  }

  build(element) {
    this.finding = make("p", { className: "ac-jac-finding" });
    this.heading = make("div", { className: "ac-jac-heading" });
    this.verdict = make("p", { className: "ac-jac-verdict" });
    this.legend = make("div", { className: "ac-jac-legend" });
    this.scale = make("p", { className: "ac-jac-scale" });
    this.select = make("select", { "aria-label": "Jacobian of" });
    this.select.addEventListener("change", () => this.choose(Number(this.select.value)));
    this.maps = make("div", {
      className: "ac-jac-maps", role: "application", tabindex: 0,
      "aria-label": "Three maps of the Jacobian. Arrow keys move between entries, Home and End move along a " +
        "row, Page Up and Page Down along a column. N and P select the next and the previous wrong entry.",
    });
    this.place = make("span", { className: "ac-jac-place" });
    this.terms = [0, 1, 2].map(() => make("span", { className: "ac-jac-term" }));
    this.word = make("span", { className: "ac-jac-word" });
    this.status = make("div", { className: "ac-status ac-jac-status", role: "status" }, this.place, ...this.terms, this.word);
    this.previous = button("Previous wrong entry (P)", "‹ previous wrong", () => this.leap(-1));
    this.next = button("Next wrong entry (N)", "next wrong ›", () => this.leap(1));
    this.how = make("p", { className: "ac-jac-how" });
    this.controls = make("div", { className: "ac-controls" }, this.previous, this.next, this.legend);
    this.root = make("div", { className: "ac ac-jac", role: "group" },
      make("div", { className: "ac-jac-top" }, this.heading, this.select), this.finding, this.verdict, this.scale,
      this.maps, this.status, this.controls, this.how);
    this.maps.addEventListener("pointermove", (event) => this.hover(event));
    this.maps.addEventListener("pointerleave", () => this.point());
    this.maps.addEventListener("click", (event) => this.pick(event));
    keepKeys(this.root, (event) => this.pressed(event));
    element.append(this.root);
  }

  found() {
    const text = this.model.get("finding"), colon = text.indexOf(": ");
    const [rule, said] = [text.slice(0, colon), text.slice(colon)];
    this.finding.replaceChildren(...(text ? [make("code", { text: rule }), ...marked(said)] : []));
    this.finding.hidden = !text;
  }

  /** Show the selected Jacobian. */
  stage() {
    const views = this.model.get("views"), view = views[this.model.get("shown")];
    this.view = view;
    this.heading.textContent = view.heading;
    this.root.setAttribute("aria-label", view.heading);
    this.verdict.textContent = view.verdict;
    this.verdict.dataset.wrong = view.wrong > 0;
    this.scale.textContent = view.scale;
    this.scale.hidden = !view.scale;
    this.how.textContent = view.how;
    this.select.replaceChildren(...views.map(({ name }, value) => make("option", { text: name, value })));
    this.select.value = this.model.get("shown");
    this.select.hidden = views.length < 2;
    this.matrices = view.maps.map((map, part) => new Matrix(map, view, part));
    this.maps.replaceChildren(...this.matrices.map(({ element }) => element));
    this.wrong = view.marks.flatMap((marks, i) => [...marks.matchAll(/x/g)].map(({ index }) => [i, index]));
    this.next.hidden = this.previous.hidden = !view.wrong;
    this.explain();
    this.point();
  }

  /** Explain the colors, and the marks that occur. */
  explain() {
    const seen = this.model.get("legend").filter(({ mark }) => !mark || this.view.marks.some((line) => line.includes(mark)));
    this.legend.replaceChildren(...seen.map(({ meaning, color }) => {
      const square = make("span", { className: color ? "ac-jac-square" : "ac-jac-square ac-jac-hatched" });
      square.style.backgroundColor = color;
      return make("span", { className: "ac-jac-meaning" }, square, meaning);
    }));
  }

  get cell() {
    const [row, column] = this.model.get("cell"), { rows, columns } = this.view;
    return [clamp(row ?? 0, 0, rows.length - 1), clamp(column ?? 0, 0, columns.length - 1)];
  }

  /** Show a cell: the selected one, or the one under the pointer. */
  point([row, column] = this.cell) {
    const { view } = this, mark = view.marks[row][column], at = row * view.columns.length + column;
    this.matrices.forEach((matrix) => matrix.point(row, column));
    this.place.textContent = `∂${view.rows[row]} / ∂${view.columns[column]}`;
    this.terms.forEach((term, k) => {
      term.replaceChildren(`${view.terms[k]} `, make("b", { text: view.texts[view.numbers[k][at]] }));
    });
    this.word.textContent = this.model.get("words")[mark];
    this.word.dataset.mark = mark;
  }

  hover(event) {
    const cell = this.matrices.map((matrix) => matrix.under(event)).find(Boolean);
    if (String(cell) !== String(this.hovered)) this.point(cell);
    this.hovered = cell;
  }

  pick(event) {
    const cell = this.matrices.map((matrix) => matrix.under(event)).find(Boolean);
    if (cell) this.go(cell);
  }

  go([row, column]) {
    const { rows, columns } = this.view;
    this.hovered = undefined;
    this.model.set("cell", [clamp(row, 0, rows.length - 1), clamp(column, 0, columns.length - 1)]);
    this.model.save_changes();
    this.point();
  }

  choose(shown) {
    this.model.set("cell", this.model.get("views")[shown].start);
    this.model.set("shown", shown);
    this.model.save_changes();
  }

  /** Go to the next or previous wrong cell in reading order. Wrap around at both ends. */
  leap(direction) {
    if (!this.wrong.length) return;
    const order = ([row, column]) => row * this.view.columns.length + column, here = order(this.cell);
    const ahead = direction > 0
      ? this.wrong.find((cell) => order(cell) > here) ?? this.wrong[0]
      : this.wrong.findLast((cell) => order(cell) < here) ?? this.wrong.at(-1);
    this.go(ahead);
  }

  pressed(event) {
    if (event.target !== this.maps) return;
    const [row, column] = this.cell, { rows, columns } = this.view, far = event.shiftKey ? 8 : 1;
    const action = {
      ArrowUp: () => this.go([row - far, column]), ArrowDown: () => this.go([row + far, column]),
      ArrowLeft: () => this.go([row, column - far]), ArrowRight: () => this.go([row, column + far]),
      Home: () => this.go([row, 0]), End: () => this.go([row, columns.length - 1]),
      PageUp: () => this.go([0, column]), PageDown: () => this.go([rows.length - 1, column]),
      n: () => this.leap(1), p: () => this.leap(-1),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}

export default {
  initialize,
  render({ model, el }) {
    const view = new JacobianView(model, el);
    return () => view.deaf();
  },
};

//# sourceURL=autograd_course/visualize/bundles/jacobian.js
