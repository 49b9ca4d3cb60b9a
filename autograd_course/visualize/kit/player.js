// Playback of a story in steps, with buttons, a scrubber and a count.

import { button, clamp, draw, make, resting } from "./kit.js";

const ICONS = {
  start: "M2 2h2v12H2zM14 2v12L5 8z",
  back: "M12 2v12L3 8z",
  play: "M3 1.5v13L14 8z",
  pause: "M3 2h4v12H3zM9 2h4v12H9z",
  next: "M4 2v12l9-6z",
  end: "M12 2h2v12h-2zM2 2v12l9-6z",
};

function icon(name) {
  return draw("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, draw("path", { d: ICONS[name] }));
}

/** Controls for the steps 0 … last. `onStep(step)` goes to a step, and `place` shows the current step.
    If a story opens at its last step, the first step forward leads to the beginning. */
export class Player {
  constructor(onStep, pace = () => 900) {
    this.onStep = onStep;
    this.pace = pace; // milliseconds per step while playing
    this.step = this.last = 0;
    this.untold = true;
    this.build();
  }

  build() {
    this.toStart = button("First step (Home)", icon("start"), () => this.go(0));
    this.previous = button("Step back (left arrow)", icon("back"), () => this.go(this.step - 1));
    this.player = button("Play (space)", icon("play"), () => this.toggle());
    this.next = button("Step forward (right arrow)", icon("next"), () => this.forward());
    this.toEnd = button("Last step (End)", icon("end"), () => this.go(this.last));
    this.scrubber = make("input", { type: "range", min: 0, step: 1, "aria-label": "step" });
    this.scrubber.addEventListener("input", () => this.go(Number(this.scrubber.value)));
    this.scrubber.addEventListener("keydown", (event) => {
      const begins = this.untold && this.step === this.last && ["ArrowRight", "ArrowUp"].includes(event.key);
      if (event.key !== " " && !begins) return;
      event.preventDefault();
      event.stopPropagation();
      if (begins) this.forward();
      else this.toggle();
    });
    this.parts = make("span", { className: "ac-phases", "aria-hidden": "true" });
    this.count = make("span", { className: "ac-count" });
    this.element = make("div", { className: "ac-controls", role: "group", "aria-label": "Playback" },
      this.toStart, this.previous, this.player, this.next, this.toEnd,
      make("span", { className: "ac-scrub" }, this.scrubber, this.parts), this.count);
  }

  /** Show below the scrubber which part of the steps is forward, and which part is backward. */
  phases(forward, backward) {
    this.parts.replaceChildren(...Object.entries({ forward, backward }).map(([text, steps]) =>
      make("span", { "data-phase": text, style: `flex-grow: ${steps}`, text })));
  }

  place(step, last) {
    Object.assign(this, { step, last });
    this.scrubber.max = last;
    this.scrubber.value = step;
    this.scrubber.setAttribute("aria-valuetext", `step ${step} of ${last}`);
    this.count.textContent = `${step} / ${last}`;
    for (const back of [this.toStart, this.previous]) resting(back, step === 0);
    resting(this.toEnd, step === last);
    resting(this.next, step === last && !this.untold);
  }

  /** Go to the step that the reader has chosen, and stop playing. */
  go(step) {
    this.pause();
    this.untold = false;
    this.onStep(clamp(step, 0, this.last));
    this.place(this.step, this.last);
  }

  forward() {
    this.go(this.untold && this.step === this.last ? 0 : this.step + 1);
  }

  toggle() {
    if (this.timer) return this.pause();
    this.untold = false;
    this.face("pause", "Pause (space)");
    if (this.step === this.last) this.onStep(0);
    const tick = () => (this.step === this.last ? this.pause() : this.onStep(this.step + 1));
    this.timer = setInterval(tick, this.pace(this.last));
    tick();
  }

  pause() {
    if (!this.timer) return;
    clearInterval(this.timer);
    this.timer = null;
    this.face("play", "Play (space)");
  }

  face(name, label) {
    this.player.replaceChildren(icon(name));
    this.player.setAttribute("aria-label", label);
    this.player.title = label;
  }

  /** Return the keys that work everywhere in the widget, without those that the target itself needs. */
  keys(target) {
    if (target.matches("input, select")) return {};
    const steps = {
      ArrowRight: () => this.forward(), ArrowLeft: () => this.go(this.step - 1),
      Home: () => this.go(0), End: () => this.go(this.last),
    };
    return target.matches("button, summary") ? steps : { ...steps, " ": () => this.toggle() };
  }
}
