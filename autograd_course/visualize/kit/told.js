// The text of a question, which Python sends as blocks and spans.

import { make } from "./kit.js";

/** Create elements from blocks of text, which is never interpreted as HTML. */
export function told(blocks, paragraph = "p") {
  return blocks.map(({ code, spans }) => code !== undefined
    ? make("pre", {}, make("code", { text: code }))
    : make(paragraph, {}, ...spans.map(([kind, text]) => (kind ? make(kind, { text }) : text))));
}
