// A vote. All words come from Python, which sends text as blocks and spans.

import { keepKeys, listen, make, Questions, resting, write } from "../kit/kit.js";
import { initialize } from "../kit/saving.js";
import { told } from "../kit/told.js";

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
