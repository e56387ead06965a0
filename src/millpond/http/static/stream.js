// Server-sent events over fetch, because EventSource cannot send the token. Reads, and nothing else.

import { answer } from "./api.js";

// The server says something every 15 s; a connection that is silent for longer is dead, whatever TCP believes.
const SILENCE_MS = 40_000;

/** Each event as `{kind, data}`, until the stream ends or `signal` is aborted. */
export async function* eventsOf(path, signal) {
  const silence = new AbortController();
  const either = AbortSignal.any([signal, silence.signal]);
  const response = await answer(path, { signal: either });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let timer;
  try {
    for (;;) {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const event = parse(block);
        if (event) yield event;
      }
    }
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
}

function parse(block) {
  let kind = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) kind = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5));
  }
  return data.length ? { kind, data: JSON.parse(data.join("\n")) } : null;
}
