// <gen-rows>: a list of any length of which only the rows in sight are in the page.

import { el, framed } from "./dom.js";

const SPARE = 6;

export class Rows extends HTMLElement {
  items = [];
  height = 54;
  make = () => el("div");
  draw = () => {};
  keyOf = (item) => item.id;
  chosen = null;
  #rows = new Map();
  #spacer = el("div", { class: "spacer", role: "presentation" });
  #later = framed(() => this.render());
  #size = new ResizeObserver(() => this.#later());

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

  show(items) {
    this.items = items;
    this.#later();
  }

  refresh() {
    this.#later();
  }

  render() {
    const { items, height } = this;
    this.#spacer.style.height = `${items.length * height}px`;
    const first = Math.max(0, Math.floor(this.scrollTop / height) - SPARE);
    const last = Math.min(items.length, Math.ceil((this.scrollTop + this.clientHeight) / height) + SPARE);
    const used = new Map();
    const fresh = [];
    for (let place = first; place < last; place += 1) {
      const key = this.keyOf(items[place]);
      const row = this.#rows.get(key);
      if (row) {
        used.set(key, row);
        this.#rows.delete(key);
      } else {
        fresh.push(key);
      }
    }
    const spare = [...this.#rows.values()];
    for (const key of fresh) used.set(key, spare.pop() ?? this.#made());
    for (const row of spare) row.remove();
    this.#rows = used;
    for (let place = first; place < last; place += 1) this.#place(items[place], place);
    this.#inOrder();
    const row = this.chosen === null ? null : used.get(this.chosen);
    if (row) this.setAttribute("aria-activedescendant", row.id);
    else this.removeAttribute("aria-activedescendant");
  }

  // Whoever hears the page goes through the rows as whoever sees it does.
  #inOrder() {
    let next = this.#spacer.firstChild;
    const rows = [...this.#rows.values()];
    rows.sort((one, other) => one.ariaPosInSet - other.ariaPosInSet);
    for (const row of rows) {
      if (row === next) next = next.nextSibling;
      else this.#spacer.insertBefore(row, next);
    }
  }

  #made() {
    const row = this.make();
    Rows.count = (Rows.count ?? 0) + 1;
    row.id = `row-${Rows.count}`;
    row.classList.add("row");
    row.addEventListener("click", (event) => this.#clicked(row, event));
    this.#spacer.append(row);
    return row;
  }

  #place(item, place) {
    const key = this.keyOf(item);
    const row = this.#rows.get(key);
    row.style.transform = `translateY(${place * this.height}px)`;
    row.style.height = `${this.height}px`;
    row.item = item;
    row.setAttribute("aria-posinset", place + 1);
    row.setAttribute("aria-setsize", this.items.length);
    row.setAttribute("aria-selected", String(key === this.chosen));
    this.draw(row, item);
  }

  #clicked(row, event) {
    const wanted = event.target.closest("[data-fold]") ? "fold" : "pick";
    this.choose(row.item);
    this.#say(wanted, row.item);
  }

  #say(name, item) {
    this.dispatchEvent(new CustomEvent(name, { detail: item }));
  }

  choose(item) {
    this.chosen = this.keyOf(item);
    this.#later();
  }

  reveal(key) {
    const place = this.items.findIndex((item) => this.keyOf(item) === key);
    if (place < 0) return;
    const top = place * this.height;
    if (top < this.scrollTop) this.scrollTop = top;
    else if (top + this.height > this.scrollTop + this.clientHeight)
      this.scrollTop = top + this.height - this.clientHeight;
  }

  #pressed = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || this.items.length === 0) return;
    const place = this.items.findIndex((item) => this.keyOf(item) === this.chosen);
    const page = Math.max(1, Math.floor(this.clientHeight / this.height) - 1);
    const steps = {
      ArrowDown: place + 1,
      ArrowUp: place - 1,
      Home: 0,
      End: this.items.length - 1,
      PageDown: place + page,
      PageUp: place - page,
    };
    if (event.key in steps) {
      const next = this.items[Math.min(Math.max(steps[event.key], 0), this.items.length - 1)];
      this.choose(next);
      this.reveal(this.chosen);
    } else if (place >= 0 && (event.key === "Enter" || event.key === " ")) {
      this.#say("pick", this.items[place]);
    } else if (place >= 0 && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      this.dispatchEvent(
        new CustomEvent("side", { detail: { item: this.items[place], open: event.key === "ArrowRight" } }),
      );
    } else {
      return;
    }
    event.preventDefault();
  };
}

customElements.define("gen-rows", Rows);
