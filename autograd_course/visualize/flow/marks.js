// Marks and heat maps as marks.py and heat.py write them: "-63" is a negative gradient whose mark
// is 63 % long, "aB." are three cells.

const LOOKS = { "+": "plus", "-": "minus", "±": "mixed", 0: "zero", "!": "broken" };
const EDGE = { thin: 1, thick: 4 }; // pixels
const DEPTH = 6; // levels of a heat map's cells on each side of zero

const KEYS = "▸ is a folded module: click or Enter unfolds it, Backspace folds it again. Left and right " +
  "arrows step, up and down go from node to node, Enter opens one, Escape closes it, Space plays. In " +
  "the menus arrows choose, Enter goes there.";

const lengthOf = (mark) => Number(mark.slice(1) || 0) / 100;

function look(element, mark) {
  for (const name of Object.values(LOOKS)) element.classList.remove(`agf-${name}`);
  element.classList.add(`agf-${LOOKS[mark[0]]}`);
}

/** Draw an edge as thick as its gradient is large, in the look of its sign. */
function weigh(link, mark) {
  look(link, mark);
  link.style.setProperty("--agf-width", EDGE.thin + (EDGE.thick - EDGE.thin) * lengthOf(mark));
}

/** Draw a card's bar as long as its gradient is large. */
function measure(gauge, mark) {
  const [begin, y, end] = gauge.dataset.full.split(" ").map(Number);
  look(gauge, mark);
  gauge.setAttribute("d", `M${begin} ${y}H${begin + lengthOf(mark) * (end - begin)}`);
}

/** Let a card or a factor bear the sign that it differs from its counterpart in another flow. */
function mark(element, differs) {
  const there = element.querySelector(".agf-unlike");
  element.classList.toggle("agf-differs", differs);
  if (differs === Boolean(there)) return;
  if (there) return there.remove();
  const box = element.querySelector("rect:not(.agf-behind)"), onCard = element.matches(".agf-card");
  const [left, top, width] = ["x", "y", "width"].map((name) => Number(box.getAttribute(name)));
  const [x, y] = onCard ? [left + 4, top + 4] : [left + width / 2, top - 7];
  element.append(draw("g", { className: "agf-unlike" }, draw("circle", { cx: x, cy: y, r: 8 }),
    draw("text", { x, y: y + 4.5, text: "≠" })));
}

/** Draw a heat map, one path for each level; negative cells bear a dash. */
function heatMap(code, columns, side) {
  const paths = new Map(), dashes = [];
  [...code].forEach((letter, i) => {
    const x = (i % columns) * side, y = Math.floor(i / columns) * side;
    paths.set(letter, `${paths.get(letter) ?? ""}M${x} ${y}h${side}v${side}h${-side}z`);
    if (/[A-F]/.test(letter)) dashes.push(`M${x + side / 4} ${y + side / 2}h${side / 2}`);
  });
  const cells = [...paths].map(([letter, d]) => draw("path", { d, ...shade(letter) }));
  const rim = `M0 0h${columns * side}v${(code.length / columns) * side}h${-columns * side}z`;
  return [...cells, draw("path", { className: "agf-dash", d: dashes.join("") }),
    draw("path", { className: "agf-rim", d: rim })];
}

function shade(letter) {
  const up = "abcdef".indexOf(letter) + 1, down = "ABCDEF".indexOf(letter) + 1;
  const name = up ? "plus" : down ? "minus" : letter === "!" ? "broken" : "zero";
  const opacity = letter === "!" ? 1 : (up || down) / DEPTH;
  return { className: `agf-cell agf-${name}`, "fill-opacity": opacity.toFixed(2) };
}

/** A key to the signs, for those who ask. */
function signsKey(compared) {
  const samples = [
    ["+80", "positive ∂"], ["-80", "negative ∂ (dashed, blue)"], ["+20", "thinner, shorter: smaller |∂|, logarithmically"],
    ["0", "∂ is zero"],
  ];
  const rows = samples.map(([mark, text]) => {
    const link = draw("g", { className: "agf-link" }, draw("path", { className: "agf-edge", d: "M0 6H34" }));
    weigh(link, mark);
    return make("span", { className: "agf-sample" },
      draw("svg", { className: "agf-swatch", width: 36, height: 12, "aria-hidden": "true" }, link), text);
  });
  const map = draw("g", {}, ...heatMap("fc.CF", 5, 12));
  rows.push(make("span", { className: "agf-sample" },
    draw("svg", { className: "agf-swatch", width: 62, height: 13, "aria-hidden": "true" }, map),
    "heat map: its largest positive value to its most negative one (dash)"));
  if (compared) rows.push(make("span", { className: "agf-sample", text: "≠ differs between the flows: an operation, a local factor" }));
  return make("div", { className: "agf-key", role: "group", "aria-label": "Key" }, ...rows, make("p", { text: KEYS }));
}
