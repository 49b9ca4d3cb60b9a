// Helpers that all widgets of the course share.

export const SVG = "http://www.w3.org/2000/svg";
const PATIENCE = 5000; // milliseconds to wait for the kernel's answer
export const SILENCE = "The kernel has not answered, so the inputs have their old values again. " +
  "If it is busy, move the slider again later. If it was restarted, run the cell again.";

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
export const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
export const same = (one, other) => Object.keys(one).every((name) => one[name] === other[name]);

/** Return the focused element in the page or shadow tree that contains `element`, or null. */
export const focus = (element) => element.getRootNode().activeElement ?? null;

/** Create an HTML element from the options {className, text, …attributes} and children. */
export function make(tag, options = {}, ...children) {
  return filled(document.createElement(tag), options, children);
}

/** Set an element's text only if it differs. Otherwise, a screen reader would read a live region again, and
    the browser would lay out an SVG again. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Create an SVG element in the same way. */
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

/** When the reader clicks a drawing, focus a control, so that further keys do not go to the notebook. */
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

/** Disable or enable a button with `aria-disabled`, which lets the button keep the focus. With
    `disabled`, it would lose the focus, and further keys would go to the notebook. */
export function resting(element, now) {
  element.setAttribute("aria-disabled", now);
}

/** Create the visible value next to a slider. It has no role, because the slider itself announces its value
    to screen readers. */
export function shownValue() {
  return make("output", { role: "none" });
}

/** Fade each side of a box where more content is hidden. Return the box. */
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

/** Keep keys inside the widget, because "d d" would delete the cell in JupyterLab. The page still receives
    the shortcut for saving. */
export function keepKeys(root, onKey = () => {}) {
  root.addEventListener("keydown", (event) => {
    const saves = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s";
    if (!saves) event.stopPropagation();
    if (!event.ctrlKey && !event.metaKey && !event.altKey) onKey(event);
  });
}

/** Listen to changes of the model's traits: {name: callback}. Return a function that stops listening. */
export function listen(model, heard) {
  const events = Object.entries(heard).map(([name, call]) => [`change:${name}`, call]);
  for (const [event, call] of events) model.on(event, call);
  return () => events.forEach(([event, call]) => model.off(event, call));
}

/** Questions to the kernel. They are sent one at a time, and only the newest waiting question is kept. If
    the kernel does not answer within PATIENCE, `onSilence` is called. */
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
