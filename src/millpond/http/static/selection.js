// Which letters are selected, by id: a set that says when it changes.

export class Selection extends EventTarget {
  #ids = new Set();
  #last = null;

  get size() {
    return this.#ids.size;
  }

  has(id) {
    return this.#ids.has(id);
  }

  /** A copy: what is done with it is not changed by what is selected later. */
  ids() {
    return [...this.#ids];
  }

  /** Turn one over; with `listed`, give everything between the last one and this the same state. */
  tick(id, listed = null, state = !this.#ids.has(id)) {
    const [from, end] = listed ? [listed.indexOf(this.#last), listed.indexOf(id)] : [-1, -1];
    const range = from >= 0 && end >= 0 ? listed.slice(Math.min(from, end), Math.max(from, end) + 1) : [id];
    this.#last = id;
    this.set(range, state);
  }

  set(ids, state) {
    for (const id of ids) {
      if (state) this.#ids.add(id);
      else this.#ids.delete(id);
    }
    this.dispatchEvent(new Event("change"));
  }

  add(ids) {
    this.set(ids, true);
  }

  remove(ids) {
    this.set(ids, false);
  }

  clear() {
    this.remove(this.ids());
  }
}
