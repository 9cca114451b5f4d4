// Elements are made here and nowhere else: text is set as text, and nothing that acts can be set at all.

const SVG = "http://www.w3.org/2000/svg";
const ACTS = /^(on|style$|srcdoc$|src$|formaction$)/i;

// A signal of the C0 and C1 ranges, of direction or without width: shown as an escape, as in the terminal.
const UNSEEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f" +
    "\\u3164\\uffa0\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\ufe00-\\ufe0d" +
    "\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]|\\p{Cs}",
  "gu",
);

export function visible(text) {
  return String(text ?? "")
    .replaceAll("\r\n", "\n")
    .replace(UNSEEN, (found) => {
      const code = found.codePointAt(0).toString(16);
      return code.length > 2 ? `\\u{${code}}` : `\\x${code.padStart(2, "0")}`;
    });
}

export function line(text, most = 200) {
  const shown = visible(
    String(text ?? "")
      .slice(0, 4 * most)
      .replace(/\s+/g, " ")
      .trim(),
  );
  return shown.length > most ? `${shown.slice(0, most - 1)}…` : shown;
}

function fill(made, given, children) {
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, call] of Object.entries(value)) made.addEventListener(event, call);
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name === "text") made.textContent = visible(value);
    else if (name === "value") made.value = value;
    else if (ACTS.test(name)) throw new TypeError(`${name} is never set`);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(
    ...children
      .flat(Infinity)
      .filter((each) => each !== null && each !== undefined && each !== false)
      .map((each) => (each instanceof Node ? each : visible(each))),
  );
  return made;
}

export function el(name, given = {}, ...children) {
  return fill(document.createElement(name), given, children);
}

export function svg(name, given = {}, ...children) {
  return fill(document.createElementNS(SVG, name), given, children);
}

// A picture of 16 by 16, drawn with one path.
export function icon(path, label = "") {
  const named = label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" };
  return svg("svg", { class: "icon", viewBox: "0 0 16 16", ...named }, svg("path", { d: path }));
}

export const ICONS = {
  right: "M6 3.5 10.5 8 6 12.5",
  fork: "M4.5 2.5v11M4.5 8.5c4 0 6.5-1.5 6.5-5M9 4.5l2-2 2 2",
  down: "M8 3v9.5M4 9l4 4 4-4",
  plus: "M8 3v10M3 8h10",
  back: "M10 3.5 5.5 8l4.5 4.5",
};

export function put(element, text) {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
}

export function button(text, press, given = {}) {
  return el("button", { type: "button", on: { click: press }, ...given }, text);
}

// One call per frame, however often it is asked for; a page that nobody sees is drawn now and then.
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
