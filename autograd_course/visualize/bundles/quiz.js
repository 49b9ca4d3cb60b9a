// Built from quiz/widget.js by `make notebooks`: edit the sources named below.

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

// quiz/widget.js
// The knowledge check. All words come from Python, which sends text as blocks and spans.

const { button, clamp, keepKeys, listen, make, Questions, resting, same, write } = $kit_kit;
const { initialize } = $kit_saving;
const { told } = $kit_told;

let groups = 0; // counts names, because radio buttons with the same name exclude each other on the whole page

/** One option: a radio button or checkbox, its text, and below it the explanation. */
class Option {
  constructor(option, type, name, words) {
    this.option = option;
    this.input = make("input", { type, name, value: option.letter });
    this.why = make("div", { className: "ac-quiz-why", id: `${name}-${option.letter}`, "data-right": option.right }, make("b", {
      text: option.right ? words.isRight : words.isWrong }), ...told(option.explanation));
    const label = make("label", {}, this.input, make("span", { className: "ac-quiz-letter", text: option.letter }),
      make("span", { className: "ac-quiz-text" }, ...told(option.text)));
    this.element = make("div", { className: "ac-quiz-option" }, label, this.why);
    this.explain(false);
  }

  explain(visible) {
    this.why.hidden = !visible;
    if (visible) this.input.setAttribute("aria-describedby", this.why.id);
    else this.input.removeAttribute("aria-describedby");
  }
}

/** One question. `onAnswer(answer)` gets each answer that the learner checks, and `onDraft(text)` the text of an
    essay whenever it changes. */
class Question {
  constructor(question, number, words, onAnswer, onDraft) {
    Object.assign(this, { question, words, onAnswer });
    const name = `ac-quiz-${groups++}`, type = question.kind === "one" ? "radio" : "checkbox";
    this.options = question.options.map((option) => new Option(option, type, name, words));
    this.area = make("textarea", { rows: 6, "aria-labelledby": `${name}-text`, maxlength: 20000 });
    this.area.addEventListener("input", () => onDraft(this.area.value));
    this.rubric = make("ul", { className: "ac-quiz-rubric", hidden: "" },
      ...question.rubric.map((point) => make("li", {}, ...told(point))));
    this.check = make("button", { type: "button", text: this.essay ? "Compare" : "Check" });
    this.check.addEventListener("click", () => this.checked());
    this.reveal = make("button", { type: "button", text: "Explain every option", hidden: "" });
    this.reveal.addEventListener("click", () => this.explain(() => true));
    this.verdict = make("span", { className: "ac-quiz-verdict", role: "status" });
    this.element = make("fieldset", { className: "ac-asked", "aria-labelledby": `${name}-kind ${name}-text` },
      make("legend", { id: `${name}-kind` }, make("b", { text: `Question ${number}` }), ` ${words[question.kind]}`),
      make("div", { className: "ac-quiz-ask", id: `${name}-text` }, ...told(question.text)),
      ...(this.essay ? [this.area] : this.options.map(({ element }) => element)),
      make("div", { className: "ac-controls" }, this.check, this.reveal, this.verdict), this.rubric);
    this.element.addEventListener("change", () => this.touched());
    this.guesses = new Set(); // the wrong guesses so far
  }

  get essay() { return this.question.kind === "essay"; }
  get chosen() { return this.options.filter(({ input }) => input.checked).map(({ input }) => input.value).join(""); }

  /** When the learner selects another option, hide the verdict on the previous answer. */
  touched() {
    if (this.essay) return;
    this.say("");
    this.reveal.hidden = true;
    this.explain(() => false);
  }

  checked() {
    const { chosen, words } = this, text = this.essay ? this.area.value.trim() : "";
    if (!(this.essay ? text : chosen)) return this.say(this.essay ? words.empty : words.nothing);
    this.judge(chosen);
    this.onAnswer({ chosen, text });
  }

  /** Show an answer that was given earlier or elsewhere. */
  restore({ chosen, text }) {
    if (this.essay) this.area.value = text;
    for (const { input } of this.options) input.checked = chosen.includes(input.value);
    this.judge(chosen);
  }

  judge(chosen) {
    const { right } = this.question, { words } = this;
    this.rubric.hidden = !this.essay;
    if (this.essay) return this.say(words.written, "written");
    const all = chosen === right, part = [...chosen].every((letter) => right.includes(letter));
    if (!all) this.guesses.add(chosen);
    const told = all || this.guesses.size >= words.tries, again = told ? "" : ` ${words.again}`;
    this.say(all ? words.right : (part ? words.part : words.wrong) + again, all ? "right" : "wrong");
    this.explain(({ letter }) => told || chosen.includes(letter));
    this.reveal.hidden = told;
  }

  say(text, kind = "") {
    this.verdict.textContent = text;
    this.verdict.dataset.kind = kind;
  }

  explain(wanted) {
    for (const option of this.options) option.explain(wanted(option.option));
  }
}

class KnowledgeCheck {
  constructor(model, element) {
    this.model = model;
    this.quiz = model.get("quiz");
    this.at = 0;
    this.whole = false;
    this.questions = this.quiz.questions.map((question, k) =>
      new Question(question, k + 1, this.quiz.words, (answer) => this.answered(question.id, answer),
        (text) => this.drafted(question.id, text)));
    this.replies = new Questions(() => this.model.save_changes(), () => this.tell(this.quiz.words.silence));
    this.build(element);
    this.deaf = listen(model, { answers: () => this.restore(), kept: () => this.heard() });
    this.restore();
    this.quiz.questions.forEach(({ id }, k) => { this.questions[k].area.value = model.get("drafts")[id] ?? this.questions[k].area.value; });
    this.heard();
    this.go(Math.max(0, this.quiz.questions.findIndex(({ id }) => !this.model.get("answers")[id])));
  }

  build(element) {
    this.summary = make("span", { className: "ac-quiz-summary", role: "status" });
    this.notice = make("p", { className: "ac-notice", role: "status" });
    this.tabs = this.quiz.questions.map((_, k) => {
      const tab = make("button", { type: "button" });
      tab.addEventListener("click", () => this.call(k));
      return tab;
    });
    const face = (text) => make("span", { text });
    this.previous = button("Previous question", face("‹"), () => this.call(this.at - 1));
    this.next = button("Next question", face("›"), () => this.call(this.at + 1));
    this.all = make("button", { type: "button", text: "Show all" });
    this.all.addEventListener("click", () => this.unroll());
    const bar = make("span", { className: "ac-quiz-bar", role: "toolbar", "aria-label": "Questions" }, ...this.tabs);
    bar.addEventListener("keydown", (event) => this.walk(event));
    this.called = make("span", { className: "ac-heard", role: "status" });
    this.pages = make("div", { className: "ac-controls ac-quiz-tabs" },
      this.previous, bar, this.next, make("span", { className: "ac-gap" }), this.all, this.called);
    this.root = make("div", { className: "ac ac-quiz", role: "group", "aria-label": this.quiz.title },
      make("div", { className: "ac-quiz-head" }, make("b", { text: this.quiz.title }), this.summary),
      this.pages, ...this.questions.map(({ element: shown }) => shown), this.notice);
    keepKeys(this.root);
    element.append(this.root);
  }

  go(k) {
    this.at = clamp(k, 0, this.questions.length - 1);
    this.show();
    if (this.whole) this.questions[this.at].element.scrollIntoView({ block: "nearest" });
  }

  /** Go to a question, and announce it, because the focus stays on the button. */
  call(k) {
    this.go(k);
    const tab = this.tabs[this.at].ariaLabel;
    this.called.textContent = tab.replace(",", ` of ${this.tabs.length},`);
  }

  /** Go from question to question with the arrow keys. All their buttons together are a single Tab stop. */
  walk(event) {
    const to = { ArrowLeft: this.at - 1, ArrowRight: this.at + 1, Home: 0, End: this.tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.go(to);
    this.tabs[this.at].focus();
  }

  unroll() {
    this.whole = !this.whole;
    this.all.textContent = this.whole ? "One at a time" : "Show all";
    this.show();
  }

  show() {
    this.questions.forEach(({ element }, k) => { element.hidden = !this.whole && k !== this.at; });
    resting(this.previous, this.at === 0);
    resting(this.next, this.at === this.questions.length - 1);
    this.mark();
  }

  /** Mark the button of each question: ✓ right at least once, ✗ not right yet. */
  mark() {
    const answers = this.model.get("answers"), { right } = this.model.get("kept");
    this.tabs.forEach((tab, k) => {
      const { id, kind, right: letters } = this.quiz.questions[k], tried = id in answers;
      const done = right.includes(id) || (tried && (kind === "essay" || answers[id].chosen === letters));
      const state = done ? "right" : tried ? "not right yet" : "not answered";
      tab.textContent = `${k + 1}${done ? " ✓" : tried ? " ✗" : ""}`;
      tab.setAttribute("aria-label", `Question ${k + 1}, ${state}`);
      tab.setAttribute("aria-current", k === this.at ? "true" : "false");
      tab.tabIndex = k === this.at ? 0 : -1;
      tab.dataset.state = done ? "right" : tried ? "wrong" : "";
    });
  }

  answered(id, answer) {
    const before = this.model.get("answers");
    if (before[id] && same(answer, before[id])) return; // the kernel would not reply
    this.own = id; // this question already shows its answer
    this.model.set("answers", { ...before, [id]: answer });
    this.own = null;
    this.replies.ask(this.model.get("answers"));
    this.mark();
  }

  /** Keep the text of an essay, even if the learner does not compare it. */
  drafted(id, text) {
    this.model.set("drafts", { ...this.model.get("drafts"), [id]: text });
    this.model.save_changes();
  }

  restore() {
    const answers = this.model.get("answers");
    this.quiz.questions.forEach(({ id }, k) => {
      if (answers[id] && id !== this.own && !same(answers[id], this.shown?.[id] ?? {})) this.questions[k].restore(answers[id]);
    });
    this.shown = answers;
    if (this.summary.textContent) this.mark();
  }

  heard() {
    const { summary, note } = this.model.get("kept");
    write(this.summary, summary);
    this.tell(note);
    this.mark();
    const waiting = this.replies.answered();
    if (waiting) this.replies.ask(waiting);
  }

  tell(note) {
    write(this.notice, note);
  }
}

export default {
  initialize,
  render({ model, el }) {
    const check = new KnowledgeCheck(model, el);
    return () => {
      check.replies.stop();
      check.deaf();
    };
  },
};

//# sourceURL=autograd_course/visualize/bundles/quiz.js
