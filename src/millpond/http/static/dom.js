// Makes elements, and brings what stands on the page up to date. The only module that touches the DOM's insides.
//
// Text from the server reaches the page as text nodes and attribute values only: nothing here parses markup, `style`
// attributes are refused, and a link leads nowhere but to another view of this page or to the runbook.

const SVG = "http://www.w3.org/2000/svg";
const OWN = Symbol("looks after its own children");

export function html(tag, ...rest) {
  return make((name) => document.createElement(name), tag, rest);
}

export function svg(tag, ...rest) {
  return make((name) => document.createElementNS(SVG, name), tag, rest);
}

/** Show exactly these children in `container`, keeping every element that can stay: focus and listeners live on.
 *
 * A kept element keeps its first listeners too, so a listener must not rely on what it saw when it was made; lists
 * listen once, on their container. Items of a list are told apart by `data-key`.
 */
export function render(container, ...children) {
  const wanted = document.createDocumentFragment();
  append(wanted, children);
  matchChildren(container, wanted);
}

/** An element that looks after its own children: `render` leaves it alone as long as it stands for the same `value`. */
export function own(node, value) {
  node[OWN] = value;
  return node;
}

function make(create, tag, rest) {
  const [name, ...classes] = tag.split(".");
  const node = create(name);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  if (isAttributes(rest[0])) setAttributes(node, rest.shift());
  append(node, rest);
  return node;
}

function isAttributes(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Node);
}

function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      node.addEventListener(name.slice(2), value);
    } else if (name === "style" || name === "srcdoc") {
      throw new TypeError(`${name} is never set as an attribute here`);
    } else if (name === "href" && !/^(runbook)?#/.test(value)) {
      throw new TypeError("links lead to views of this page and to the runbook");
    } else if (name === "class" && node.hasAttribute("class")) {
      node.setAttribute("class", `${node.getAttribute("class")} ${value}`);
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

function append(node, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(node, child);
    else if (child instanceof Node) node.append(child);
    else if (child !== null && child !== undefined && child !== false) node.append(String(child));
  }
}

function matchChildren(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.children) if (child.dataset?.key !== undefined) keyed.set(child.dataset.key, child);
  let place = parent.firstChild;
  for (const next of [...wanted.childNodes]) {
    const key = next.dataset?.key;
    const known = key === undefined ? place : (keyed.get(key) ?? null);
    if (known && isSameKind(known, next)) {
      if (known === place) place = place.nextSibling;
      else move(parent, known, place);
      matchNode(known, next);
    } else {
      parent.insertBefore(next, place);
    }
  }
  while (place) {
    const rest = place.nextSibling;
    place.remove();
    place = rest;
  }
}

/** To another place among its siblings, with the focus if it has it. */
function move(parent, known, place) {
  const focused = known.contains(document.activeElement) ? document.activeElement : null;
  parent.insertBefore(known, place);
  if (focused && focused !== document.activeElement) focused.focus({ preventScroll: true });
}

function isSameKind(known, next) {
  return known.nodeName === next.nodeName && known.dataset?.key === next.dataset?.key && known[OWN] === next[OWN];
}

function matchNode(known, next) {
  if (known[OWN] !== undefined || known.isEqualNode(next)) return;
  if (known.nodeType === Node.TEXT_NODE) {
    known.data = next.data;
    return;
  }
  for (const { name } of [...known.attributes]) {
    // What the reader unfolded stays so.
    if (!next.hasAttribute(name) && name !== "open") known.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (known.getAttribute(name) !== value) known.setAttribute(name, value);
  }
  matchChildren(known, next);
}
