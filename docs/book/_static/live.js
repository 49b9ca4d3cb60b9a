// The lessons' widgets, on a page without a kernel. When a widget scrolls into view, the page loads its
// script (such as live/flow.js) and its state at the end of a run of the lesson (such as
// live/01_template-3.js). Until then, and without JavaScript, the page shows a picture of the widget. No
// file comes from another host.

(() => {
  const HOME = new URL("..", document.currentScript.src); // the root of the site
  const AHEAD = "900px"; // a widget loads when it is this far below the window
  const TRAINING = 1500, PARTS = 15; // the duration in milliseconds and the number of pictures of a replayed training
  const ALONE = "On this page, one input moves at a time: the others have their first values again.";

  const widgets = new Map(), packed = new Map(), loading = new Map();
  window.autogradCourse = {
    widget: (kind, css, make) => widgets.set(kind, { css, make }),
    state: (id, text) => packed.set(id, text),
  };

  // --- Files. They are scripts, because a page opened from a folder can load nothing else ----------

  function load(name) {
    if (!loading.has(name)) loading.set(name, new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.onload = resolve;
      script.onerror = () => reject(new Error(`${name} is missing`));
      script.src = new URL(`live/${name}.js`, HOME);
      document.head.append(script);
    }));
    return loading.get(name);
  }

  async function unpacked(id) {
    await load(id);
    const bytes = Uint8Array.from(atob(packed.get(id)), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  /** Apply a patch from `changes` in tools/book/live.py. */
  function patched(before, patch) {
    if ("=" in patch) return patch["="];
    const after = Array.isArray(before) ? [...before] : { ...before };
    for (const [key, change] of Object.entries(patch)) after[key] = patched(before[key], change);
    return after;
  }

  // --- The reader's answers, which the browser stores ----------------------------------------------

  const kept = {
    get: (key) => {
      try {
        return JSON.parse(localStorage.getItem(`autograd_course ${key}`));
      } catch {
        return null;
      }
    },
    /** Return a message for the reader, which is empty if the answer is stored. */
    set: (key, value) => {
      try {
        localStorage.setItem(`autograd_course ${key}`, JSON.stringify(value));
        return "";
      } catch {
        return "Your browser does not let this page keep your answer.";
      }
    },
  };

  // --- The model that a widget expects from anywidget ----------------------------------------------

  class Model {
    /** `hear(model, names)` receives the widget's changes in place of a kernel. */
    constructor(state, hear) {
      Object.assign(this, { state, hear, heard: {}, changed: new Set() });
    }

    get(name) { return this.state[name]; }

    set(name, value) {
      if (this.state[name] === value) return;
      this.changed.add(name);
      this.update({ [name]: value });
    }

    save_changes() {
      const names = [...this.changed];
      this.changed.clear();
      setTimeout(() => this.hear(this, names)); // an answer must not arrive before the caller of this method has finished
    }

    /** Set values as if a kernel had sent them: first set all of them, and then notify the listeners. */
    update(values) {
      const news = Object.keys(values).filter((name) => this.state[name] !== values[name]);
      for (const name of news) this.state[name] = values[name];
      for (const name of news) this.tell(`change:${name}`, values[name]);
    }

    tell(event, ...args) { for (const call of [...(this.heard[event] ?? [])]) call(...args); }
    on(event, call) { (this.heard[event] ??= []).push(call); }
    off(event, call) { this.heard[event] = (this.heard[event] ?? []).filter((each) => call && each !== call); }
    send() { this.hear(this, ["custom message"]); }
  }

  // --- Replacements for the kernel -----------------------------------------------------------------

  const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
  const sameNames = (one, other) => same(Object.keys(one).sort(), Object.keys(other).sort());
  const equal = (one, other) => sameNames(one, other) && Object.keys(one).every((name) => one[name] === other[name]);

  /** By kind of widget: ({state, key, answers, refuse}) => hear. `answers()` loads the recorded answers. */
  const kernels = {
    flow({ state, answers, refuse }) {
      const given = state.numbers.answers;
      let folded = state; // the state for the modules that are folded now
      const numbersAt = (at) => {
        const [name, ...more] = Object.keys(given).filter((each) => at[each] !== given[each]);
        if (!name) return folded.numbers;
        const sweep = folded.sweeps.find((each) => each.name === name), index = sweep?.values.indexOf(at[name]) ?? -1;
        const texts = more.length ? null : sweep?.frames[index];
        const moved = (slider) => (slider.name === name ? { ...slider, index } : slider);
        return texts && { ...folded.numbers, texts, answers: at, sliders: folded.numbers.sliders.map(moved) };
      };
      const say = (model, numbers, notice) => {
        const turn = model.get("numbers").turn + 1;
        model.update({ numbers: { ...model.get("numbers"), answers: model.get("inputs"), turn } });
        model.update({ numbers: { ...numbers, notice, turn: turn + 1 } });
      };
      const move = (model) => {
        const asked = model.get("inputs"), { answers: before } = model.get("numbers");
        const news = Object.keys(asked).find((name) => asked[name] !== before[name] && asked[name] !== given[name]);
        const alone = news ? { ...given, [news]: asked[news] } : given;
        const numbers = numbersAt(asked) ?? numbersAt(alone);
        if (!numbers) refuse();
        say(model, numbers ?? folded.numbers, numbers && !equal(numbers.answers, asked) ? ALONE : "");
      };
      const fold = async (model) => {
        const sorted = (opened) => opened.map((groups) => [...groups].sort((a, b) => a - b));
        const asked = sorted(model.get("opened"));
        const found = (await answers()).find((each) => same(sorted(each.asked), asked));
        if (!found) return refuse();
        const steps = (view) => (view.places ? view.places[0] : view.steps).length - 1;
        const atEnd = model.get("step") === steps(folded.view);
        folded = { ...folded, ...found.sent };
        const turn = model.get("numbers").turn + 1, last = steps(folded.view);
        const step = atEnd ? last : Math.min(model.get("step"), last);
        model.update({ ...found.sent, step, numbers: { ...folded.numbers, notice: "", turn } });
      };
      return (model, names) => {
        if (names.includes("opened") && !same(model.get("opened"), model.get("view").opened)) fold(model);
        else if (names.includes("inputs")) move(model);
      };
    },

    functionlab({ answers, refuse }) {
      return async (model, names) => {
        if (!names.includes("choice")) return;
        const { function: name, parameters } = model.get("choice"), now = model.get("scene").answers;
        const all = (await answers()).filter(({ asked }) => asked.function === (name ?? now.function));
        const first = all.find((each) => each.first), initial = first?.asked.parameters ?? {};
        const at = (values) => all.find(({ asked }) => equal(asked.parameters, values));
        const wanted = { ...(sameNames(now.parameters, initial) ? now.parameters : initial), ...parameters };
        const moved = Object.keys(wanted).find((each) => wanted[each] !== now.parameters[each]);
        const exact = at(wanted), found = exact ?? at({ ...initial, [moved]: wanted[moved] }) ?? first;
        if (!found) refuse();
        const { scene, x } = found?.sent ?? { scene: model.get("scene"), x: model.get("x") };
        const stays = now.function === scene.answers.function;
        model.update({ x: stays ? model.get("x") : x, scene: { ...scene, notice: exact || !found ? "" : ALONE } });
      };
    },

    stelab({ state, answers, refuse }) {
      const choice = (model) => Object.fromEntries(["quantizer", "place", "seed"].map((name) => [name, model.get(name)]));
      let chosen = { quantizer: state.quantizer, place: state.place, seed: state.seed }, timer = null;
      const play = (model, trained, part = matchMedia("(prefers-reduced-motion: reduce)").matches ? PARTS : 1) => {
        const step = Math.round((trained.steps * part) / PARTS), done = part >= PARTS;
        const runs = trained.runs.map((run) => ({ ...run, losses: run.losses.filter(([at]) => at <= step), result: "", shades: "" }));
        const progress = done ? trained : { ...trained, runs, step, told: `step ${step} of ${trained.steps}` };
        model.update(done ? { progress: { ...progress }, training: false } : { progress });
        if (!done) timer = setTimeout(() => play(model, trained, part + 1), TRAINING / PARTS);
      };
      return async (model, names) => {
        clearTimeout(timer);
        const asked = choice(model), found = (await answers()).find((each) => equal(each.asked, asked));
        if (!found) {
          refuse();
          model.update({ ...chosen, training: false, sweep: { ...model.get("sweep") }, progress: { ...model.get("progress") } });
        } else if (!equal(asked, chosen)) {
          const { sweep, progress } = found.sent;
          const other = asked.quantizer === chosen.quantizer ? {} : { sweep: { ...sweep } };
          chosen = asked;
          model.update({ training: false, ...other, progress: { ...progress } });
        } else if (names.includes("training") && model.get("training")) play(model, found.sent.trained);
      };
    },

    quiz({ state, key }) {
      const { questions } = state.quiz, known = new Map(questions.map((question) => [question.id, question]));
      const { answers = {}, drafts = {}, right = [] } = kept.get(key) ?? {};
      const ids = (list) => list.filter((id) => known.has(id));
      const progress = (done, note) => {
        const essays = done.filter((id) => known.get(id).kind === "essay").length;
        return { replies: ++replies, summary: state.summaries[done.length - essays][essays], note, right: done };
      };
      let replies = 0;
      state.answers = Object.fromEntries(ids(Object.keys(answers)).map((id) => [id, answers[id]]));
      state.drafts = drafts;
      state.kept = progress(ids(right), "");
      return (model, names) => {
        const now = model.get("answers");
        const isRight = ({ id, kind, right: letters }) =>
          now[id] && (kind === "essay" ? now[id].text.trim() !== "" : now[id].chosen === letters);
        const done = [...new Set([...model.get("kept").right, ...questions.filter(isRight).map(({ id }) => id)])];
        const note = kept.set(key, { answers: now, drafts: model.get("drafts"), right: done });
        if (names.includes("answers")) model.update({ kept: progress(done, note) });
      };
    },

    vote({ state, key }) {
      const progress = (chosen, note = "") => ({ chosen, note, said: chosen && state.said.replace("{}", chosen) });
      const { chosen = "" } = kept.get(key) ?? {};
      state.chosen = state.vote.options.some(({ letter }) => letter === chosen) ? chosen : "";
      state.kept = progress(state.chosen);
      return (model) => model.update({ kept: progress(model.get("chosen"), kept.set(key, { chosen: model.get("chosen") })) });
    },
  };

  // --- Predictions, which are numbers in the code of a notebook ------------------------------------

  function prediction(place, { outcome, words }, key) {
    const add = (tag, attributes) => Object.assign(document.createElement(tag), attributes);
    const input = add("input", { type: "text", inputMode: "decimal", autocomplete: "off", size: 8 });
    const label = add("label", { textContent: `${words.ask} ` }), said = add("output", {});
    const form = add("form", { className: "predict" }), wrong = new Set();
    label.append(input);
    form.append(label, add("button", { textContent: words.check }), said);
    const judge = () => {
      const number = Number(input.value.trim().replace("−", "-").replace(",", "."));
      if (!input.value.trim() || Number.isNaN(number)) return words.number;
      const apart = Math.abs(number - outcome);
      if (apart <= Math.max(5e-3 * Math.max(Math.abs(number), Math.abs(outcome)), 1e-9)) return words.right;
      wrong.add(number);
      return (wrong.size < words.tries ? words.again : words.wrong).replace("{}", Number(number.toPrecision(4)));
    };
    const tell = () => { said.textContent = judge(); };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      tell();
      const { value } = input;
      kept.set(key, { value, wrong: [...wrong] });
    });
    const before = kept.get(key);
    if (before) {
      before.wrong.forEach((number) => wrong.add(number));
      input.value = before.value;
      tell();
    }
    place.append(form);
  }

  // --- The page -------------------------------------------------------------------------------------

  const dressed = new Set(), sheets = new Map();

  /** Give a widget the page's colors, light or dark. */
  function dress(root) {
    root.dataset.jpThemeLight = document.documentElement.dataset.theme !== "dark";
  }

  function sheet(kind) {
    if (!sheets.has(kind)) {
      sheets.set(kind, new CSSStyleSheet());
      sheets.get(kind).replaceSync(widgets.get(kind).css);
    }
    return sheets.get(kind);
  }

  async function show(place) {
    const { live: kind, state: id, key } = place.dataset;
    if (kind === "predict") prediction(place, await unpacked(id), key);
    else {
      const [state] = await Promise.all([unpacked(id), load(kind)]);
      await render(place, kind, id, key, state);
    }
    place.classList.add("live-shown");
  }

  async function render(place, kind, id, key, state) {
    const needs = place.querySelector(".needs-kernel"), host = document.createElement("div"), root = document.createElement("div");
    const shadow = host.attachShadow({ mode: "open" }); // the page's style sheets do not apply inside
    shadow.adoptedStyleSheets = [sheet(kind)];
    shadow.append(root);
    root.style.cssText = "--jp-layout-color0: var(--pst-color-background); --jp-ui-font-color1: var(--pst-color-text-base)";
    dressed.add(root);
    dress(root);
    let found = null;
    const answers = () => (found ??= unpacked(`${id}-answers`).then((list) => list.map(({ sent, ...each }) => ({
      ...each, sent: Object.fromEntries(Object.entries(sent).map(([name, patch]) => [name, patched(bases[name], patch)])),
    }))));
    const bases = { ...state, trained: state.progress };
    const hear = kernels[kind]?.({ state, key, answers, refuse: () => { needs.hidden = false; } }) ?? (() => {});
    place.prepend(host);
    await widgets.get(kind).make().render({ model: new Model({ ...state }, hear), el: root });
  }

  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      show(target).catch((error) => console.warn(`The picture stays: ${error.message}`));
    }
  }, { rootMargin: AHEAD });
  new MutationObserver(() => dressed.forEach(dress)).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  document.querySelectorAll(".live").forEach((place) => observer.observe(place));

  // The theme marks the section that the reader sees in the page's contents. Keep this mark in view.
  const contents = document.getElementById("pst-page-toc-nav");
  if (contents) new MutationObserver(() => contents.querySelector("a.active")?.scrollIntoView({ block: "nearest" }))
    .observe(contents, { subtree: true, attributeFilter: ["class"] });
})();
