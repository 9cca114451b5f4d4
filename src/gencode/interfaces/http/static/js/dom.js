// Elements are made here and nowhere else: text is set as text, and nothing that acts can be set at all.

const SVG = "http://www.w3.org/2000/svg";
const ACTS = /^(on|style$|srcdoc$|src$|formaction$)/i;

// What acts or cannot be seen, the same as in core/text.py, where it is explained; a test compares them.
const raw = String.raw;
const ALWAYS =
  raw`\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u3164\uffa0\u200b\u200e\u200f` +
  raw`\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\ufe03-\ufe0d\u{1bca0}-\u{1bca3}` +
  raw`\u{1d173}-\u{1d17a}\u{e0000}-\u{e00ff}\u{e0120}-\u{e0fff}`;
const JOINERS = raw`\u200c\u200d`;
const FORMS = raw`\ufe00-\ufe02\u{e0100}-\u{e011f}`;
const MONGOLIAN_FORMS = raw`\u180b-\u180f`;
const EMOJI = raw`\u2194\u2195\u2600-\u27bf\u2b1b\u{1f000}-\u{1f3fa}\u{1f400}-\u{1faff}`;
const JOINED =
  raw`\u0610-\u061a\u0620-\u06dc\u06de-\u06ff\u0710-\u077f\u07c0-\u07fa\u0840-\u085b\u0860-\u088f` +
  raw`\u0897-\u08e1\u08e3-\u0df3\u1000-\u109f\u1780-\u17b3\u17b6-\u17e9\u1820-\u18aa\u1a20-\u1a99` +
  raw`\u1b00-\u1bff\u1cd0-\u1cfa\ua800-\ua877\ua880-\ua8ff\ua980-\ua9fe\uaa60-\uaa7f\uaae0-\uaaf6` +
  raw`\uabc0-\uabf9\ufb50-\ufdfb\ufe70-\ufefc\u{10ac0}-\u{10ae6}\u{10b80}-\u{10b91}\u{10d00}-\u{10d39}` +
  raw`\u{10ec2}-\u{10f6f}\u{10fb0}-\u{10fc4}\u{11000}-\u{110ba}\u{11100}-\u{1174f}\u{11800}-\u{1183a}` +
  raw`\u{1e900}-\u{1e959}`;
const WITH_FORMS =
  raw`\u1000-\u109f\u2200-\u22ff\u2a00-\u2aff\u3001\u3002\u3400-\u9fff\ua840-\ua877\uaa60-\uaa7f` +
  raw`\uf900-\ufaff\uff01-\uff1f\u{20000}-\u{3ffff}`;
const FLAGS =
  raw`\u{1f3f4}\u{e0067}\u{e0062}(?:\u{e0065}\u{e006e}\u{e0067}|\u{e0073}\u{e0063}\u{e0074}|` +
  raw`\u{e0077}\u{e006c}\u{e0073})\u{e007f}`;
const STRAY_SIGN =
  raw`[\ufe0e\ufe0f](?<![\u00a9\u00ae\u203c-\u3299\u{1f000}-\u{1faff}][\ufe0e\ufe0f])` +
  raw`(?!(?<=[0-9#*]\ufe0f)\u20e3)`;
const STRAY =
  raw`[${JOINERS}](?:(?=[${JOINERS}])|(?<=[${JOINERS}][${JOINERS}])|` +
  raw`(?<![${JOINED}][${JOINERS}])(?![${JOINED}])(?!(?<=[${EMOJI}]\u200d)[${EMOJI}])` +
  raw`(?!(?<=[${EMOJI}][\ufe0f\u{1f3fb}-\u{1f3ff}]\u200d)[${EMOJI}]))` +
  raw`|[${FORMS}](?<![${WITH_FORMS}][${FORMS}])` +
  raw`|[${MONGOLIAN_FORMS}](?<![\u1820-\u18aa][${MONGOLIAN_FORMS}])`;
// eslint-disable-next-line no-misleading-character-class -- the ranges are of single characters
const ACTING = new RegExp(raw`(${FLAGS})|[${ALWAYS}]|${STRAY_SIGN}|${STRAY}`, "gu");
// eslint-disable-next-line no-misleading-character-class -- the ranges are of single characters
const UNSEEN = new RegExp(raw`[${ALWAYS}${JOINERS}${FORMS}${MONGOLIAN_FORMS}]|${STRAY_SIGN}`, "gu");

/**
 * @typedef {Record<string, any> & { on?: Record<string, (event: any) => void>, data?: Record<string, string> }} Attributes
 * @typedef {Node | string | number | null | undefined | false | Child[]} Child
 */

/** @param {string} found */
function spelled(found) {
  const code = (found.codePointAt(0) ?? 0).toString(16);
  return code.length > 2 ? `\\u{${code}}` : `\\x${code.padStart(2, "0")}`;
}

/**
 * Text to read: control characters are escaped, joiners and signs stay where they have an effect.
 * @param {unknown} text
 */
export function visible(text) {
  return String(text ?? "")
    .replaceAll("\r\n", "\n")
    .replace(ACTING, (found, flag) => flag ?? spelled(found));
}

/**
 * Text by which somebody decides: everything that cannot be seen is escaped.
 * @param {unknown} text
 */
export function exact(text) {
  return String(text ?? "")
    .replaceAll("\r\n", "\n")
    .replace(UNSEEN, spelled);
}

/** @param {unknown} text */
export function line(text, most = 200) {
  const shown = visible(
    String(text ?? "")
      .slice(0, 4 * most)
      .replace(/\s+/g, " ")
      .trim(),
  );
  return shown.length > most ? `${shown.slice(0, most - 1)}…` : shown;
}

/**
 * Sets the attributes of an element and adds children to it.
 * @template {Element} Made
 * @param {Made} made
 * @param {Attributes} given
 * @param {Child[]} children
 * @returns {Made}
 */
export function fill(made, given, children = []) {
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, call] of Object.entries(value)) made.addEventListener(event, call);
    else if (name === "data") Object.assign(/** @type {any} */ (made).dataset, value);
    else if (name === "value") /** @type {any} */ (made).value = value;
    else if (ACTS.test(name)) throw new TypeError(`${name} is never set`);
    else made.setAttribute(name, value === true ? "" : value);
  }
  const flat = /** @type {unknown[]} */ (/** @type {any[]} */ (children).flat(Infinity));
  made.append(
    ...flat
      .filter((each) => each !== null && each !== undefined && each !== false)
      .map((each) => (each instanceof Node ? each : visible(each))),
  );
  return made;
}

/**
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Attributes} [given]
 * @param {Child[]} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function el(name, given = {}, ...children) {
  return fill(document.createElement(name), given, children);
}

/**
 * @template {keyof SVGElementTagNameMap} Name
 * @param {Name} name
 * @param {Attributes} [given]
 * @param {Child[]} children
 * @returns {SVGElementTagNameMap[Name]}
 */
export function svg(name, given = {}, ...children) {
  return fill(document.createElementNS(SVG, name), given, children);
}

/**
 * A picture of 16 by 16, drawn with one path.
 * @param {string} path
 */
export function icon(path) {
  return svg(
    "svg",
    { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" },
    svg("path", { d: path }),
  );
}

export const ICONS = {
  right: "M6 3.5 10.5 8 6 12.5",
  fork: "M4.5 2.5v11M4.5 8.5c4 0 6.5-1.5 6.5-5M9 4.5l2-2 2 2",
  down: "M8 3v9.5M4 9l4 4 4-4",
  plus: "M8 3v10M3 8h10",
  back: "M10 3.5 5.5 8l4.5 4.5",
};

/**
 * An element of the page as it was loaded.
 * @param {string} id
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`The page has no element ${id}.`);
  return found;
}

/**
 * @param {Node | null} element
 * @param {unknown} text
 */
export function put(element, text) {
  const shown = visible(text);
  if (element && element.textContent !== shown) element.textContent = shown;
}

/**
 * @param {string} text
 * @param {() => void} press
 * @param {Attributes} [given]
 */
export function button(text, press, given = {}) {
  return el("button", { type: "button", on: { click: press }, ...given }, text);
}

/**
 * One call per frame, however often it is asked for; a page that nobody sees is drawn now and then.
 * @param {() => void} call
 */
export function framed(call) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    const go = () => {
      waiting = false;
      call();
    };
    if (document.hidden) setTimeout(go, 500);
    else requestAnimationFrame(go);
  };
}
