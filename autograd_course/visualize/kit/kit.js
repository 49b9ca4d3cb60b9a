// What every widget of the course uses.

export const SVG = "http://www.w3.org/2000/svg";
const PATIENCE = 5000; // milliseconds that the kernel has to answer
export const SILENCE = "The kernel has not answered, so the inputs have their old values again. " +
  "If it is busy, move the slider again later. If it was restarted, run the cell again.";

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
export const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
export const same = (one, other) => Object.keys(one).every((name) => one[name] === other[name]);

/** What has the focus, in the page or the shadow tree that the element is in; null if nothing has. */
export const focus = (element) => element.getRootNode().activeElement ?? null;

/** Make an HTML element: {className, text, …attributes}, children. */
export function make(tag, options = {}, ...children) {
  return filled(document.createElement(tag), options, children);
}

/** Change a text only where it is another: what is live would be heard again, and an SVG laid out. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Make an SVG element in the same way. */
export function draw(tag, options = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), options, children);
}

function filled(element, { className, text, ...attributes }, children) {
  if (className) element.setAttribute("class", className);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** After a press on a drawing keys go on at a control, and none of them reaches the notebook. */
export function leadTo(control, drawing) {
  drawing.addEventListener("mousedown", (event) => {
    if (!event.target.closest("svg")) return;
    event.preventDefault();
    control.focus({ preventScroll: true });
  });
}

export function button(label, face, onClick) {
  const element = make("button", { type: "button", "aria-label": label, title: label }, face);
  element.addEventListener("click", () => element.ariaDisabled === "true" || onClick());
  return element;
}

/** Let a button rest, or work again. It keeps the focus: a disabled one would drop it, and with it
    every further key, onto the notebook. */
export function resting(element, now) {
  element.setAttribute("aria-disabled", now);
}

/** Beside a slider, its value for the eye: the slider itself says it. */
export function shownValue() {
  return make("output", { role: "none" });
}

/** Fade the side of a box on which more of its content is out of sight. Return the box. */
export function fadeEdges(box) {
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

/** Keep keys inside the widget: in JupyterLab, "d d" would delete the cell. Saving stays the page's. */
export function keepKeys(root, onKey = () => {}) {
  root.addEventListener("keydown", (event) => {
    const saves = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s";
    if (!saves) event.stopPropagation();
    if (!event.ctrlKey && !event.metaKey && !event.altKey) onKey(event);
  });
}

/** Listen to traits of the model: {name: heard}; returns how to stop. */
export function listen(model, heard) {
  const events = Object.entries(heard).map(([name, call]) => [`change:${name}`, call]);
  for (const [event, call] of events) model.on(event, call);
  return () => events.forEach(([event, call]) => model.off(event, call));
}

/** Questions to the kernel: one at a time, of those that wait only the newest, none for ever. */
export class Questions {
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

  /** Return what was asked meanwhile. */
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
