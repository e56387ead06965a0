// A stamp taken apart: a copy's place in the total order, as src/millpond/stamp.py writes it.
//
//     event time µs (17) . sequence + 1 (20) . published µs (17) . message id
//     sequence + 1 (20) . event time µs (17) . published µs (17) . message id     where a sequence outranks time

const STAMP = /^(?:(\d{17})\.(\d{20})|(\d{20})\.(\d{17}))\.(\d{17})\.([^]*)$/;

/** The parts in the order they are compared in, each `{name, text, rank}`; null if it is no stamp. */
export function stampParts(stamp) {
  const found = typeof stamp === "string" ? STAMP.exec(stamp) : null;
  if (!found) return null;
  const sequenceFirst = found[3] !== undefined;
  const [time, rank] = sequenceFirst ? [found[4], found[3]] : [found[1], found[2]];
  const parts = [
    { name: "event time", text: timeText(time), rank: time },
    { name: "sequence", text: BigInt(rank) === 0n ? "none" : String(BigInt(rank) - 1n), rank },
    { name: "published", text: timeText(found[5]), rank: found[5] },
    { name: "message id", text: found[6], rank: found[6] },
  ];
  return sequenceFirst ? [parts[1], parts[0], parts[2], parts[3]] : parts;
}

/** The name of the first part in which two stamps differ; null if they are equal or cannot be compared. */
export function decidingPart(one, other) {
  const [a, b] = [stampParts(one), stampParts(other)];
  if (!a || !b || one === other) return null;
  return a.find((part, n) => part.rank !== b[n].rank)?.name ?? null;
}

function timeText(digits) {
  const us = Number(digits);
  const fraction = String(us % 1_000_000).padStart(6, "0").replace(/0+$/, "");
  const text = new Date(Math.floor(us / 1_000)).toISOString().slice(0, 19).replace("T", " ");
  return fraction ? `${text}.${fraction}` : text;
}
