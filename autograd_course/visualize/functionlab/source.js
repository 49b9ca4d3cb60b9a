// The source of forward and backward: which lines have run, and what each has left behind.

/** The listing with its marks and notes; steps are [row, phase, note]. A click on a line goes to it. */
class Source {
  constructor(onRow) {
    this.onRow = onRow;
    this.notice = make("p", { className: "ac-notice" });
    this.kept = make("div", { className: "ac-lab-kept" });
    this.sent = make("div", { className: "ac-lab-sent" });
    this.parts = make("div", { className: "ac-lab-parts", tabindex: 0, role: "region", "aria-label": "Source of forward and backward" });
    this.element = make("div", { className: "ac-lab-source" }, this.parts, this.notice);
  }

  show(source) {
    this.rows = [];
    this.own = source.own;
    const of = (phase) => source.parts.filter((part) => part.phase === phase).map((part) => this.part(part));
    this.parts.replaceChildren(...of("forward"), this.kept, ...of("backward"), this.sent);
    this.notice.textContent = source.notice;
  }

  part({ heading, phase, rows }) {
    const lines = rows.map((spans) => this.row(spans));
    return make("div", { className: `ac-lab-part ac-lab-${phase}` },
      make("p", { className: "ac-lab-heading", text: `${phase === "backward" ? "∂ " : ""}${heading}` }),
      make("ol", {}, ...lines));
  }

  /** A line of source; what does not fit into it goes on below, indented a little more. */
  row(spans) {
    const text = spans.map(([, part]) => part).join(""), indent = text.length - text.trimStart().length;
    const code = make("code", { style: `padding-left: ${indent + 2}ch; text-indent: -2ch` },
      ...spans.map(([kind, part], i) => make("span",
        { ...(kind && { className: `ac-lab-${kind}` }), text: i ? part : part.trimStart() })));
    const mark = make("span", { className: "ac-lab-mark", "aria-hidden": "true" });
    const note = make("span", { className: "ac-lab-note" });
    const element = make("li", {}, mark, code, note);
    const row = this.rows.length;
    element.addEventListener("click", () => this.onRow(row));
    this.rows.push({ element, mark, note, text: text.trim() });
    return element;
  }

  /** Show what has happened up to a step, and return it as a sentence. */
  paint(frame, step) {
    const done = frame.steps.slice(0, step + 1), now = done.at(-1);
    const notes = new Map();
    for (const [row, , note] of done) if (note || !notes.has(row)) notes.set(row, note);
    this.rows.forEach(({ element, mark, note }, row) => {
      const current = now?.[0] === row;
      element.toggleAttribute("data-ran", notes.has(row));
      element.toggleAttribute("data-now", current);
      if (current) element.setAttribute("aria-current", "step");
      else element.removeAttribute("aria-current");
      mark.textContent = current ? "▶" : notes.has(row) ? "•" : "";
      note.textContent = notes.get(row) ?? "";
    });
    this.beside(frame, step, now);
    return now ? this.sentence(now) : "";
  }

  /** ctx has its content when forward is over; backward has answered when all is over. */
  beside(frame, step, now) {
    const forwardOver = !now || now[1] === "backward" || step === frame.steps.length - 1;
    const things = (frame.kept ?? []).map(([name, text, what]) => make("div", {},
      make("b", { text: name }), ` = ${text} `, make("span", { className: "ac-lab-what", text: what })));
    const none = forwardOver && frame.kept ? "nothing" : "…";
    const title = make("p", { className: "ac-lab-heading", text: "ctx keeps for backward" });
    this.kept.hidden = !this.own;
    this.kept.replaceChildren(title, ...(forwardOver && things.length ? things : [make("div", { text: none })]));
    this.sent.textContent = !now || step === frame.steps.length - 1 ? frame.sent : "";
  }

  sentence([row, phase, note]) {
    const { text } = this.rows[row];
    return [phase === "forward" ? "Forward" : "Backward", text, note || "no new value"].join(" · ");
  }

  /** Scroll, inside the panel only, to the line that runs. */
  follow(row) {
    const { parts } = this, element = this.rows[row]?.element;
    if (!element) return;
    const box = parts.getBoundingClientRect(), line = element.getBoundingClientRect();
    if (line.top < box.top) parts.scrollTop -= box.top - line.top + 8;
    if (line.bottom > box.bottom) parts.scrollTop += line.bottom - box.bottom + 8;
  }
}
