// Reads server-sent events with fetch. Unlike EventSource, this gives the status of a refusal and accepts any event name.

export class Refused extends Error {
  constructor(status) {
    super(`The stream was refused with status ${status}.`);
    this.status = status;
  }
}

/**
 * Yields "open" once the server has accepted the request, then {event, data} for each named event and {} for each ping.
 * Ends when the server ends the stream. Throws Refused, or fetch's error.
 */
export async function* events(url, signal) {
  const answer = await fetch(url, { headers: { Accept: "text/event-stream" }, cache: "no-store", signal });
  if (answer.redirected) throw new Refused(401); // only the sign-in page redirects
  if (!answer.ok) throw new Refused(answer.status);
  yield "open";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", name = "", data = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split(/\r?\n/);
    rest = lines.pop();
    yield {};
    for (const line of lines) {
      if (line.startsWith("event:")) name = line.slice(6).trim();
      if (line.startsWith("data:")) data = line.slice(5).trim();
      if (line !== "") continue;
      if (name) yield { event: name, data };
      name = data = "";
    }
  }
}
