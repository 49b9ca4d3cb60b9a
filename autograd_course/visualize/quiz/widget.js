// The knowledge check. All words come from Python, which sends text as blocks and spans.

import { button, clamp, keepKeys, listen, make, Questions, resting, same, write } from "../kit/kit.js";
import { initialize } from "../kit/saving.js";
import { told } from "../kit/told.js";

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
