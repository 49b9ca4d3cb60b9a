// Built from vote/widget.js by `make notebooks`: edit the sources named below.

// kit/kit.js
const $kit_kit = (() => {
// What every widget of the course uses.

const SVG = "http://www.w3.org/2000/svg";
const PATIENCE = 5000; // milliseconds that the kernel has to answer
const SILENCE = "The kernel has not answered, so the inputs have their old values again. " +
  "If it is busy, move the slider again later. If it was restarted, run the cell again.";

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const same = (one, other) => Object.keys(one).every((name) => one[name] === other[name]);

/** What has the focus, in the page or the shadow tree that the element is in; null if nothing has. */
const focus = (element) => element.getRootNode().activeElement ?? null;

/** Make an HTML element: {className, text, …attributes}, children. */
function make(tag, options = {}, ...children) {
  return filled(document.createElement(tag), options, children);
}

/** Change a text only where it is another: what is live would be heard again, and an SVG laid out. */
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Make an SVG element in the same way. */
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

/** After a press on a drawing keys go on at a control, and none of them reaches the notebook. */
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

/** Let a button rest, or work again. It keeps the focus: a disabled one would drop it, and with it
    every further key, onto the notebook. */
function resting(element, now) {
  element.setAttribute("aria-disabled", now);
}

/** Beside a slider, its value for the eye: the slider itself says it. */
function shownValue() {
  return make("output", { role: "none" });
}

/** Fade the side of a box on which more of its content is out of sight. Return the box. */
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

/** Keep keys inside the widget: in JupyterLab, "d d" would delete the cell. Saving stays the page's. */
function keepKeys(root, onKey = () => {}) {
  root.addEventListener("keydown", (event) => {
    const saves = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s";
    if (!saves) event.stopPropagation();
    if (!event.ctrlKey && !event.metaKey && !event.altKey) onKey(event);
  });
}

/** Listen to traits of the model: {name: heard}; returns how to stop. */
function listen(model, heard) {
  const events = Object.entries(heard).map(([name, call]) => [`change:${name}`, call]);
  for (const [event, call] of events) model.on(event, call);
  return () => events.forEach(([event, call]) => model.off(event, call));
}

/** Questions to the kernel: one at a time, of those that wait only the newest, none for ever. */
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

return { SVG, SILENCE, still, clamp, same, focus, make, write, draw, leadTo, button, resting, shownValue, fadeEdges, keepKeys, listen, Questions };
})();

// kit/saving.js
const $kit_saving = (() => {
// What the saved notebook keeps of a widget: its picture. Saved in live.py says why.

const VIEW = "application/vnd.jupyter.widget-view+json";
const WATCHED = Symbol.for("autograd_course.watched"); // each widget brings this code; one is enough

/** From a widget's first moment on, save its notebook without live views, and put back those that
    the kernel still serves. Nothing waits for this, and only JupyterLab has a notebook to tell. */
function initialize({ model }) {
  const manager = model.widget_manager, context = manager?.context;
  if (!context?.model?.toJSON) return;
  context.ready.then(() => {
    withoutViews(context.model);
    revive(context.model, manager);
  });
}

/** Leave the live views out of what is saved; the page keeps them. */
function withoutViews(notebook) {
  if (notebook[WATCHED]) return;
  notebook[WATCHED] = true;
  const whole = notebook.toJSON.bind(notebook);
  notebook.toJSON = () => {
    const saved = whole();
    return { ...saved, cells: saved.cells.map((cell) => (cell.outputs ? { ...cell, outputs: cell.outputs.map(pictured) } : cell)) };
  };
}

/** Take the live view out of an output of the course: its address is in the metadata, too. */
function pictured(output) {
  if (!output.metadata?.[VIEW]?.model_id || !output.data?.[VIEW]) return output;
  const { [VIEW]: _, ...data } = output.data;
  return { ...output, data };
}

/** Show the live view again where the kernel still has its widget: the notebook was reopened. */
function revive(notebook, manager) {
  const { dirty } = notebook;
  for (const { outputs } of notebook.cells) {
    for (let i = 0; i < (outputs?.length ?? 0); i++) {
      const output = outputs.get(i).toJSON(), view = output.metadata?.[VIEW];
      if (!view?.model_id || output.data[VIEW] || !manager.has_model?.(view.model_id)) continue;
      outputs.set(i, { ...output, data: { ...output.data, [VIEW]: view } });
    }
  }
  notebook.dirty = dirty; // what would be saved is what was saved
}

return { initialize };
})();

// kit/told.js
const $kit_told = (() => {
// The text of a question, which Python sends as blocks and spans.

const { make } = $kit_kit;

/** Build elements from blocks of text; nothing of it is read as HTML. */
function told(blocks, paragraph = "p") {
  return blocks.map(({ code, spans }) => code !== undefined
    ? make("pre", {}, make("code", { text: code }))
    : make(paragraph, {}, ...spans.map(([kind, text]) => (kind ? make(kind, { text }) : text))));
}

return { told };
})();

// vote/widget.js
// A vote. All words come from Python, text as blocks and spans.

const { keepKeys, listen, make, Questions, resting, write } = $kit_kit;
const { initialize } = $kit_saving;
const { told } = $kit_told;

let votes = 0; // for ids that are unique on the whole page

/** One option: a button, and behind its text whether it was chosen and is right. */
class Option {
  constructor({ letter, right, text }, onClick) {
    Object.assign(this, { letter, right });
    this.mark = make("span", { className: "ac-vote-mark" });
    this.element = make("button", { type: "button", className: "ac-vote-option", "aria-pressed": "false" },
      make("span", { className: "ac-vote-letter", text: letter }),
      make("span", { className: "ac-vote-text" }, ...told(text, "span")), this.mark);
    this.element.addEventListener("click", () => onClick(letter));
  }

  /** Lock the option once there is a vote; the button keeps the focus. */
  lock(chosen) {
    resting(this.element, Boolean(chosen));
    this.element.setAttribute("aria-pressed", chosen === this.letter);
  }

  /** Say whose vote it was and, if the answer is shown, whether the option is right. */
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

  /** The vote that counts, or the one that the kernel has not yet answered. */
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
