// Colours of code: comments, strings, numbers and keywords, which most languages write alike.

import { diffLine } from "./diff.js";
import { el } from "./dom.js";

const LONGEST = 20_000;
const WORDS = new Set(
  (
    "abstract and as assert async await bool boolean break case catch char class const continue def default del " +
    "defer do done echo elif else elsif end enum esac except export extends extern false False fi final finally " +
    "float fn for from func function global go goto if impl implements import in instanceof int interface is " +
    "lambda let local loop long match mod module mut namespace new nil None nonlocal not null or package pass " +
    "private protected pub public raise ref return select self Self set sizeof static str string struct super " +
    "switch template then this throw throws trait true True try type typedef typeof undefined union unless " +
    "until use using var virtual void when where while with yield " +
    "SELECT FROM WHERE INSERT INTO VALUES UPDATE DELETE CREATE TABLE JOIN LEFT ON ORDER BY GROUP AND OR NOT NULL"
  ).split(" "),
);
const HASH = /^(python|py|bash|sh|shell|zsh|ruby|rb|perl|yaml|yml|toml|ini|make|makefile|dockerfile|r)$/i;
const DASH = /^(sql|lua|haskell|hs)$/i;
const PLAIN = /^(text|txt|console|output|log|markdown|md|)$/i;
const STRING = [
  String.raw`"""[\s\S]*?(?:"""|$)`,
  String.raw`"(?:\\.|[^"\\\n])*"?`,
  String.raw`'(?:\\.|[^'\\\n])*'?`,
  String.raw`\x60(?:\\.|[^\x60\\])*\x60?`,
].join("|");
const NUMBER = String.raw`\b\d[\w.]*\b`;
const NAME = String.raw`[A-Za-z_$][\w$]*`;
const SLASHED = String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;

/**
 * @param {string} code
 * @param {string} language As it stands behind the fence.
 * @returns {(string | Node)[]}
 */
export function coloured(code, language) {
  if (code.length > LONGEST || PLAIN.test(language)) return [code];
  if (/^(diff|patch)$/i.test(language)) return code.split("\n").map(diffLine);
  const comment = HASH.test(language) ? "#[^\n]*" : DASH.test(language) ? "--[^\n]*" : SLASHED;
  const pattern = new RegExp(`(${comment})|(${STRING})|(${NUMBER})|(${NAME})`, "g");
  /** @type {(string | Node)[]} */
  const parts = [];
  let place = 0;
  for (const found of code.matchAll(pattern)) {
    const [text, note, quoted, number] = found;
    const kind = note ? "comment" : quoted ? "string" : number ? "number" : WORDS.has(text) ? "keyword" : "";
    if (!kind) continue;
    parts.push(code.slice(place, found.index), el("span", { class: `syntax-${kind}` }, text));
    place = found.index + text.length;
  }
  parts.push(code.slice(place));
  return parts;
}
