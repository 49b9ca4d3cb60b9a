// Built from vote/widget.js by `make notebooks`: edit the sources named below.

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

// kit/told.js
const $kit_told = (() => {
// The text of a question, which Python sends as blocks and spans.

const { make } = $kit_kit;

/** Create elements from blocks of text, which is never interpreted as HTML. */
function told(blocks, paragraph = "p") {
  return blocks.map(({ code, spans }) => code !== undefined
    ? make("pre", {}, make("code", { text: code }))
    : make(paragraph, {}, ...spans.map(([kind, text]) => (kind ? make(kind, { text }) : text))));
}

return { told };
})();

// vote/widget.js
// A vote. All words come from Python, which sends text as blocks and spans.

const { keepKeys, listen, make, Questions, resting, write } = $kit_kit;
const { initialize } = $kit_saving;
const { told } = $kit_told;

let votes = 0; // for ids that are unique on the whole page

/** One option: a button with its text, and a mark that says whether it was chosen and is right. */
class Option {
  constructor({ letter, right, text }, onClick) {
    Object.assign(this, { letter, right });
    this.mark = make("span", { className: "ac-vote-mark" });
    this.element = make("button", { type: "button", className: "ac-vote-option", "aria-pressed": "false" },
      make("span", { className: "ac-vote-letter", text: letter }),
      make("span", { className: "ac-vote-text" }, ...told(text, "span")), this.mark);
    this.element.addEventListener("click", () => onClick(letter));
  }

  /** Lock the option after the vote. The button keeps the focus. */
  lock(chosen) {
    resting(this.element, Boolean(chosen));
    this.element.setAttribute("aria-pressed", chosen === this.letter);
  }

  /** Mark the reader's own vote and, if the answer is shown, whether the option is right. */
  tell(chosen, shown, words) {
    const mine = chosen === this.letter, judged = shown && (mine || this.right);
    const verdict = this.right ? words.isRight : words.isWrong;
    write(this.mark, [mine && words.yours, judged && verdict].filter(Boolean).join(" · "));
    this.element.dataset.state = judged ? (this.right ? "right" : "wrong") : "";
  }
}

class Vote {
  constructor(model, element) {
    this.model = model;
    this.vote = model.get("vote");
    this.shown = false;
    this.replies = new Questions(() => model.save_changes(), () => write(this.notice, this.vote.words.silence));
    this.build(element);
    this.deaf = listen(model, { kept: () => this.heard() });
    this.heard();
  }

  build(element) {
    const { title, belief, text, options, explanation, words } = this.vote, name = `ac-vote-${votes++}`;
    this.options = options.map((option) => new Option(option, (letter) => this.choose(letter)));
    this.said = make("p", { className: "ac-vote-said", role: "status" });
    this.button = make("button", { type: "button", "aria-controls": `${name}-answer`, hidden: "" });
    this.button.addEventListener("click", () => this.toggle());
    this.answer = make("div", { className: "ac-vote-answer", id: `${name}-answer` }, ...told(explanation));
    this.notice = make("p", { className: "ac-notice", role: "status" });
    const [{ spans }] = belief;
    const quoted = { spans: [["", `${words.say} “`], ...spans, ["", "”"]] };
    this.root = make("div", { className: "ac ac-vote", role: "group", "aria-label": title },
      make("div", { className: "ac-asked" },
        make("div", { className: "ac-vote-title", text: title }),
        make("div", { id: `${name}-text` }, ...told([quoted]), ...told(text)),
        make("div", { className: "ac-vote-options", role: "group", "aria-labelledby": `${name}-text` },
          ...this.options.map((option) => option.element)),
        this.said, this.button, this.answer, this.notice));
    keepKeys(this.root);
    element.append(this.root);
  }

  /** Return the stored vote, or the vote that the kernel has not answered yet. */
  get chosen() { return this.model.get("kept").chosen || this.model.get("chosen"); }

  choose(letter) {
    if (this.chosen) return; // the first vote counts
    this.model.set("chosen", letter);
    this.replies.ask(letter);
    this.show();
  }

  toggle() {
    this.shown = !this.shown;
    this.show();
  }

  heard() {
    this.replies.stop();
    write(this.notice, this.model.get("kept").note);
    this.show();
  }

  show() {
    const { chosen, shown } = this, { words, verdicts } = this.vote;
    for (const option of this.options) {
      option.lock(chosen);
      option.tell(chosen, shown, words);
    }
    write(this.said, shown ? verdicts[chosen] : this.model.get("kept").said);
    this.button.hidden = !chosen;
    write(this.button, shown ? words.hide : words.show);
    this.button.setAttribute("aria-expanded", shown);
    this.answer.hidden = !shown;
  }
}

export default {
  initialize,
  render({ model, el }) {
    const vote = new Vote(model, el);
    return () => {
      vote.replies.stop();
      vote.deaf();
    };
  },
};

//# sourceURL=autograd_course/visualize/bundles/vote.js
