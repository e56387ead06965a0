// JSON as text: indented for reading and editing, without changing a digit, a name or the order of fields.

const STRING = /"(?:[^"\\]|\\.)*"/y;
const EMPTY = /\s*[}\]]/y;
const SPACE = /\s/;
// Longer or deeper text is shown as it is: indenting it would take seconds, and deep text grows with its depth.
const CHARS_MAX = 1_000_000;
const DEPTH_MAX = 100;

/** The text of a JSON object or list, indented; the text as it is if it is anything else.
 *
 * The text is never parsed and written again: numbers of more than 15 digits would change, and names that occur twice
 * would be lost.
 */
export function indented(text) {
  if (text.length > CHARS_MAX || !isStructure(text)) return text;
  const parts = [];
  let depth = 0;
  const newline = () => parts.push("\n", "  ".repeat(depth));
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at];
    if (sign === '"') {
      STRING.lastIndex = at;
      const [found] = STRING.exec(text);
      parts.push(found);
      at += found.length - 1;
    } else if (sign === "{" || sign === "[") {
      EMPTY.lastIndex = at + 1;
      const closed = EMPTY.exec(text)?.[0];
      parts.push(sign);
      if (closed) {
        parts.push(closed.trim());
        at += closed.length;
      } else {
        depth += 1;
        if (depth > DEPTH_MAX) return text;
        newline();
      }
    } else if (sign === "}" || sign === "]") {
      depth -= 1;
      newline();
      parts.push(sign);
    } else if (sign === ",") {
      parts.push(sign);
      newline();
    } else if (sign === ":") {
      parts.push(": ");
    } else if (!SPACE.test(sign)) {
      parts.push(sign);
    }
  }
  return parts.join("");
}

/** Why a text is not the text of a JSON object; null if it is. The server checks it again, more strictly. */
export function faultOf(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? null : "It must be a JSON object: { … }";
  } catch (error) {
    return `This is not JSON yet: ${error.message}`;
  }
}

function isStructure(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object";
  } catch {
    return false;
  }
}
