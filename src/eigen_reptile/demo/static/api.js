// Requests to the server. All addresses are relative, because a token may be part of the page's own.

export class Refused extends Error {}

export async function post(path, body) {
  const answer = await send(path, body);
  return answer.json();
}

export async function get(path) {
  const answer = await fetch(`api/${path}`);
  if (!answer.ok) throw new Refused(await reasonOf(answer));
  return answer.json();
}

// The answer of a request that reports its progress as server-sent events.
export async function follow(path, body, onProgress) {
  const answer = await send(path, body);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Refused("the server has stopped");
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const message = JSON.parse(event.slice(event.indexOf("data: ") + 6));
      if (message.kind === "failed") throw new Refused(message.reason);
      if (message.kind !== "progress") return message;
      onProgress(message.done);
    }
  }
}

async function send(path, body) {
  const answer = await fetch(`api/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Refused(await reasonOf(answer));
  return answer;
}

async function reasonOf(answer) {
  try {
    const found = await answer.json();
    return String(found.reason ?? found.detail ?? answer.status);
  } catch {
    return `the server answered ${answer.status}`;
  }
}

// Runs `work` whenever it is asked to, one at a time; what is asked meanwhile is done once, afterwards. The promise is
// kept when all of it is done.
export function oneAtATime(work) {
  let running = null;
  let again = false;
  async function runAll() {
    do {
      again = false;
      await work();
    } while (again);
    running = null;
  }
  return function ask() {
    again = running !== null;
    running ??= runAll();
    return running;
  };
}
