// <gen-rows>: a list of any length of which only the rows in sight are in the page.

import { el, framed } from "./dom.js";
import { Signal } from "./signal.js";

const SPARE = 6;
let made = 0;

/**
 * @template {{ id: string }} Item
 * @template Parts
 * @typedef {object} RowRenderer
 * @property {() => { row: HTMLElement, parts: Parts }} make A row, and those of its parts that change.
 * @property {(row: HTMLElement, parts: Parts, item: Item) => void} draw
 */

/**
 * @template {{ id: string }} Item
 * @template Parts
 * @typedef {{ element: HTMLElement, parts: Parts, item: Item | null, place: number }} Row
 */

/**
 * @template {{ id: string }} Item
 * @template Parts
 */
export class VirtualList extends HTMLElement {
  /** @type {Item[]} */
  items = [];
  /** @type {string | null} */
  chosen = null;
  /** @type {Signal<Item>} */
  picked = new Signal();
  /** @type {Signal<Item>} */
  folded = new Signal();
  /**
   * The arrow to the left or to the right was pressed.
   * @type {Signal<{ item: Item, open: boolean }>}
   */
  sideways = new Signal();
  #height;
  #renderer;
  /** @type {Map<string, Row<Item, Parts>>} */
  #rows = new Map();
  #spacer = el("div", { class: "spacer", role: "presentation" });
  #later = framed(() => this.render());
  #size = new ResizeObserver(() => this.#later());

  /**
   * @param {RowRenderer<Item, Parts>} renderer
   * @param {number} [height] Of a row.
   */
  constructor(renderer, height = 54) {
    super();
    this.#renderer = renderer;
    this.#height = height;
  }

  connectedCallback() {
    if (!this.#spacer.parentNode) this.append(this.#spacer);
    this.tabIndex = 0;
    this.addEventListener("scroll", this.#later, { passive: true });
    this.addEventListener("keydown", this.#pressed);
    this.#size.observe(this);
  }

  disconnectedCallback() {
    this.removeEventListener("scroll", this.#later);
    this.removeEventListener("keydown", this.#pressed);
    this.#size.disconnect();
  }

  /** @param {Item[]} items */
  show(items) {
    this.items = items;
    this.#later();
  }

  refresh() {
    this.#later();
  }

  render() {
    const { items } = this;
    const height = this.#height;
    this.#spacer.style.height = `${items.length * height}px`;
    const first = Math.max(0, Math.floor(this.scrollTop / height) - SPARE);
    const last = Math.min(items.length, Math.ceil((this.scrollTop + this.clientHeight) / height) + SPARE);
    const before = this.#rows;
    /** @type {Map<string, Row<Item, Parts>>} */
    const used = new Map();
    const inSight = items.slice(first, last);
    for (const { id } of inSight) {
      const row = before.get(id);
      if (row) used.set(id, row);
      before.delete(id);
    }
    const spare = [...before.values()];
    for (const { id } of inSight) if (!used.has(id)) used.set(id, spare.pop() ?? this.#made());
    for (const row of spare) row.element.remove();
    this.#rows = used;
    inSight.forEach((item, place) => this.#place(item, first + place));
    this.#inOrder();
    const row = this.chosen === null ? null : used.get(this.chosen);
    if (row) this.setAttribute("aria-activedescendant", row.element.id);
    else this.removeAttribute("aria-activedescendant");
  }

  // Screen readers go through the rows in the order in which they are seen.
  #inOrder() {
    let next = this.#spacer.firstChild;
    const rows = [...this.#rows.values()].sort((one, other) => one.place - other.place);
    for (const { element } of rows) {
      if (element === next) next = next.nextSibling;
      else this.#spacer.insertBefore(element, next);
    }
  }

  /** @returns {Row<Item, Parts>} */
  #made() {
    const { row: element, parts } = this.#renderer.make();
    made += 1;
    element.id = `row-${made}`;
    element.classList.add("row");
    /** @type {Row<Item, Parts>} */
    const row = { element, parts, item: null, place: 0 };
    element.addEventListener("click", (event) => this.#clicked(row, event));
    this.#spacer.append(element);
    return row;
  }

  /**
   * @param {Item} item
   * @param {number} place
   */
  #place(item, place) {
    const row = this.#rows.get(item.id);
    if (!row) return;
    row.item = item;
    row.place = place;
    const { element } = row;
    element.style.transform = `translateY(${place * this.#height}px)`;
    element.style.height = `${this.#height}px`;
    element.setAttribute("aria-posinset", String(place + 1));
    element.setAttribute("aria-setsize", String(this.items.length));
    element.setAttribute("aria-selected", String(item.id === this.chosen));
    this.#renderer.draw(element, row.parts, item);
  }

  /**
   * @param {Row<Item, Parts>} row
   * @param {Event} event
   */
  #clicked(row, event) {
    if (!row.item) return;
    this.choose(row.item.id);
    const onFold = event.target instanceof Element && event.target.closest("[data-fold]");
    (onFold ? this.folded : this.picked).send(row.item);
  }

  /** @param {string | null} id */
  choose(id) {
    this.chosen = id;
    this.#later();
  }

  /** @param {string | null} id */
  reveal(id) {
    const place = this.items.findIndex((item) => item.id === id);
    if (place < 0) return;
    const top = place * this.#height;
    const bottom = top + this.#height - this.clientHeight;
    if (top < this.scrollTop) this.scrollTo({ top, behavior: "instant" });
    else if (bottom > this.scrollTop) this.scrollTo({ top: bottom, behavior: "instant" });
  }

  #pressed = (/** @type {KeyboardEvent} */ event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || this.items.length === 0) return;
    const place = this.items.findIndex((item) => item.id === this.chosen);
    const item = this.items[place];
    const page = Math.max(1, Math.floor(this.clientHeight / this.#height) - 1);
    /** @type {Record<string, number>} */
    const steps = {
      ArrowDown: place + 1,
      ArrowUp: place - 1,
      Home: 0,
      End: this.items.length - 1,
      PageDown: place + page,
      PageUp: place - page,
    };
    const step = steps[event.key];
    if (step !== undefined) {
      const next = this.items[Math.min(Math.max(step, 0), this.items.length - 1)];
      this.choose(next.id);
      this.reveal(next.id);
    } else if (item && (event.key === "Enter" || event.key === " ")) {
      this.picked.send(item);
    } else if (item && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      this.sideways.send({ item, open: event.key === "ArrowRight" });
    } else {
      return;
    }
    event.preventDefault();
  };
}

customElements.define("gen-rows", VirtualList);
