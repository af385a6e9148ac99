#!/usr/bin/env node
// A template of an agent (docs/agents.md): one host that speaks STOMP 1.2, on Node's standard library alone.
// brokerproof agent check node docs/agents/agent.js
"use strict";
const net = require("node:net");
const zlib = require("node:zlib");

const CAPABILITIES = ["ttl", "delay", "prefetch", "nack", "transactions", "groups", "selectors"];
// What each request may say; anything else is refused rather than passed over.
const KNOWN = {
  hello: [], quit: [], counters: ["dest"], leave: ["consumer", "how"],
  connect: ["url", "heartbeat_ms", "login", "passcode", "virtual_host", "versions"],
  send: ["dest", "message", "ttl_ms", "delay_ms", "persistent", "priority", "size", "stamp", "kind", "group", "tx"],
  subscribe: ["dest", "consumer", "prefetch", "dispatch", "ack", "selector"],
  ack: ["consumer", "messages", "mode", "tx"], nack: ["consumer", "messages"],
  begin: ["tx"], commit: ["tx"], abort: ["tx"],
};
const ACKS = { auto: "auto", client: "client", individual: "client-individual" };
const now = () => Number(process.hrtime.bigint()); // the machine's monotonic clock: nobody fakes it
let socket = null, buffer = Buffer.alloc(0), waiting = new Map(), held = new Map(), receipts = 0;
// The loop had read all that was there after the tick before the last one: what is read now came later than that.
let ticks = [now(), now()];
setInterval(() => { ticks = [ticks[1], now()]; }, 1).unref();

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
function reply(request, answer) {
  const before = now(), wall_ms = Date.now();
  say({ id: request.id, t0: request.t0, t1: now(), wall_ms, wall_at: [before, now()], ...answer });
}
const fail = (request, code, text) => reply(request, { fail: { code, text } });
const escaped = (text) => String(text).replace(/[\\\r\n:]/g, (one) => ({ "\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c" })[one]);
const plain = (text) => text.replace(/\\([\\rnc])/g, (_, one) => ({ "\\": "\\", r: "\r", n: "\n", c: ":" })[one]);
const address = (dest) => dest.replace(/^(queue|topic):\/\//, "/$1/");

function write(command, headers, body = "") {
  const quote = command === "CONNECT" ? String : escaped; // STOMP 1.2: CONNECT alone is not escaped
  const lines = Object.entries(headers).map(([name, value]) => `${quote(name)}:${quote(value)}\n`);
  socket.write(`${command}\n${lines.join("")}\n${body}\0`);
}
// Writes frames of which the last one asks for a receipt; the request is answered when that comes.
function ask(request, frames, stamps = null) {
  if (!socket) return fail(request, "not-connected", "there is no connection");
  const receipt = `r${(receipts += 1)}`;
  await_(request, receipt, stamps);
  frames.forEach(([command, headers, body], at) => write(command, at + 1 < frames.length ? headers : { ...headers, receipt }, body));
}
function await_(request, name, stamps) {
  const timer = setTimeout(() => settle(name, { unknown: "no answer in time" }), request.deadline_ms);
  waiting.set(name, { request, stamps, timer });
}
function settle(name, answer) {
  const one = waiting.get(name);
  if (!one) return;
  waiting.delete(name);
  clearTimeout(one.timer);
  if (answer.ok && one.stamps) answer = { ok: one.stamps };
  reply(one.request, answer.unknown && one.stamps ? { ...answer, stamps: one.stamps } : answer);
}
function forget() {
  const gone = socket;
  socket = null;
  buffer = Buffer.alloc(0);
  held = new Map();
  for (const name of [...waiting.keys()]) settle(name, { unknown: "the connection ended" });
  return gone;
}

function hear(chunk) {
  buffer = Buffer.concat([buffer, chunk]);
  for (;;) {
    let start = 0;
    while (start < buffer.length && (buffer[start] === 10 || buffer[start] === 13)) start += 1; // heart-beats
    buffer = buffer.subarray(start);
    const blank = /\r?\n\r?\n/.exec(buffer.toString("latin1"));
    if (!blank) return;
    const [command, ...lines] = buffer.toString("utf8", 0, blank.index).split(/\r?\n/);
    const headers = {};
    for (const line of lines) {
      const colon = line.indexOf(":"), name = plain(line.slice(0, colon));
      if (!(name in headers)) headers[name] = plain(line.slice(colon + 1));
    }
    const from = blank.index + blank[0].length;
    const to = headers["content-length"] ? from + Number(headers["content-length"]) : buffer.indexOf(0, from);
    if (to < from || buffer.length <= to) return; // the rest is on its way
    const body = Buffer.from(buffer.subarray(from, to));
    buffer = buffer.subarray(to + 1);
    frame(command, headers, body);
  }
}
function frame(command, headers, body) {
  if (command === "CONNECTED") settle("connect", { ok: {} });
  else if (command === "RECEIPT") settle(headers["receipt-id"], { ok: {} });
  else if (command === "ERROR") {
    const refused = { fail: { code: headers.code || "refused", text: headers.message || body.toString() } };
    settle(headers["receipt-id"] || "connect", refused);
  } else if (command === "MESSAGE") {
    const token = /^(\S+)\n\.*$/.exec(body.toString()), message = token ? token[1] : "", consumer = headers.subscription;
    held.set(`${consumer} ${message}`, headers.ack || headers["message-id"]);
    say({
      event: "arrive", consumer, message, t0: ticks[0], t1: now(), redelivered: headers.redelivered === "true",
      expiration_ms: Number(headers.expires || 0), timestamp_ms: Number(headers.timestamp || 0),
      priority: Number(headers.priority || 4), persistent: headers.persistent === "true",
      kind: headers.kind || null, group: headers.JMSXGroupID || null, body: zlib.crc32(body),
    });
  }
}

const doing = {
  hello: (request) => reply(request, { ok: { agent: "stomp-js/1", protocol: 1, capabilities: CAPABILITIES } }),
  quit(request) {
    if (socket) write("DISCONNECT", {});
    forget()?.end();
    reply(request, { ok: {} });
    process.stdin.destroy();
  },
  counters: (request) => reply(request, { ok: {} }),
  connect(request) {
    if (socket) return fail(request, "connected", "there is a connection");
    const url = new URL(request.url), mine = net.connect(Number(url.port), url.hostname);
    socket = mine;
    mine.setNoDelay(true);
    await_(request, "connect", null);
    mine.on("connect", () => {
      const headers = { "accept-version": "1.2", host: request.virtual_host || "localhost" };
      if (request.login) Object.assign(headers, { login: request.login, passcode: request.passcode || "" });
      write("CONNECT", headers);
    });
    mine.on("data", (chunk) => mine === socket && hear(chunk));
    mine.on("error", (error) => mine === socket && settle("connect", { fail: { code: "refused", text: error.message } }));
    mine.on("close", () => {
      if (mine !== socket) return; // this end closed it
      const connecting = waiting.has("connect");
      forget();
      if (!connecting) say({ event: "closed", who: "broker", reason: "the connection ended", t0: ticks[0], t1: now() });
    });
  },
  send(request) {
    const { message, ttl_ms = 0, stamp = "client", size = 0 } = request, wall_ms = Date.now();
    const body = message + "\n" + ".".repeat(Math.max(0, size - message.length - 1));
    const stamps = { expiration_ms: ttl_ms ? wall_ms + ttl_ms : 0, timestamp_ms: { client: wall_ms, zero: 0, none: null }[stamp], body: zlib.crc32(body) };
    const headers = { destination: address(request.dest), "content-length": Buffer.byteLength(body), persistent: request.persistent !== false, priority: request.priority ?? 4 };
    if (stamps.expiration_ms) headers.expires = stamps.expiration_ms;
    if (stamps.timestamp_ms !== null) headers.timestamp = stamps.timestamp_ms;
    if (request.delay_ms) headers.AMQ_SCHEDULED_DELAY = request.delay_ms;
    if (request.kind) headers.kind = request.kind;
    if (request.group) headers.JMSXGroupID = request.group;
    if (request.tx) headers.transaction = request.tx;
    ask(request, [["SEND", headers, body]], stamps);
  },
  subscribe(request) {
    const headers = { id: request.consumer, destination: address(request.dest), ack: ACKS[request.ack || "client"] };
    if (request.prefetch != null) headers["activemq.prefetchSize"] = request.prefetch;
    if (request.dispatch === "sync") headers["activemq.dispatchAsync"] = false;
    if (request.selector) headers.selector = request.selector;
    ask(request, [["SUBSCRIBE", headers]]);
  },
  ack: (request) => settlement(request, "ACK", request.mode === "individual" ? request.messages : request.messages.slice(-1)),
  nack: (request) => settlement(request, "NACK", request.messages),
  begin: (request) => ask(request, [["BEGIN", { transaction: request.tx }]]),
  commit: (request) => ask(request, [["COMMIT", { transaction: request.tx }]]),
  abort: (request) => ask(request, [["ABORT", { transaction: request.tx }]]),
  leave(request) {
    if (!socket) return fail(request, "not-connected", "there is no connection");
    if (request.consumer != null) write("UNSUBSCRIBE", { id: request.consumer });
    else {
      if (request.how === "close") write("DISCONNECT", {});
      const gone = forget();
      if (request.how === "close") gone.end();
      else gone.resetAndDestroy();
    }
    reply(request, { ok: {} });
  },
};
function settlement(request, command, messages) {
  const ids = messages.map((message) => held.get(`${request.consumer} ${message}`));
  if (!ids.length || ids.includes(undefined)) return fail(request, "unknown-message", `not all of ${messages} came to ${request.consumer}`);
  const transaction = request.tx ? { transaction: request.tx } : {};
  ask(request, ids.map((id) => [command, { id, ...transaction }]));
}

let text = "";
process.stdin.setEncoding("utf8").on("data", (part) => {
  const lines = (text += part).split("\n");
  text = lines.pop();
  for (const line of lines) {
    const request = { ...JSON.parse(line), t0: now() }, known = KNOWN[request.do];
    const strange = Object.keys(request).filter((name) => !["id", "do", "t0", "deadline_ms", ...(known || [])].includes(name) && request[name]);
    if (!known) fail(request, "unsupported", `this agent cannot ${request.do}`);
    else if (strange.length) fail(request, "unsupported", `this agent knows no ${strange.join(", ")}`);
    else doing[request.do](request);
  }
});
process.stdin.on("end", () => process.exit(0));
