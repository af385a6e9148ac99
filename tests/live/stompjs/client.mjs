// @stomp/stompjs over TCP as a process: requests on stdin, what the library reports on stdout, both JSON lines.
// It adds nothing to the library: every request is one call, every event one callback.

import { createInterface } from 'node:readline';
import { Client, Versions } from '@stomp/stompjs';
import { TCPWrapper } from '@stomp/tcp-wrapper';

const say = (event) => process.stdout.write(JSON.stringify(event) + '\n');
const base64 = (frame) => Buffer.from(frame.binaryBody).toString('base64');

let client;
const subscriptions = new Map();

const requests = {
  connect({ port, version, headers, outgoing, incoming }) {
    client = new Client({
      webSocketFactory: () => new TCPWrapper('127.0.0.1', port),
      stompVersions: new Versions([version]),
      connectHeaders: headers,
      heartbeatOutgoing: outgoing,
      heartbeatIncoming: incoming,
      reconnectDelay: 0,
      onConnect: (frame) => say({ event: 'connected', headers: frame.headers, version: client.connectedVersion }),
      onStompError: (frame) => say({ event: 'error', headers: frame.headers, body: base64(frame) }),
      onUnhandledReceipt: (frame) => say({ event: 'receipt', receipt: frame.headers['receipt-id'] }),
      onHeartbeatLost: () => say({ event: 'silent' }),
      onWebSocketClose: () => say({ event: 'closed' }),
    });
    client.activate();
  },
  send: ({ destination, headers, body }) =>
    client.publish({ destination, headers, binaryBody: new Uint8Array(Buffer.from(body, 'base64')) }),
  subscribe({ destination, headers }) {
    const heard = (message) => say({ event: 'message', headers: message.headers, body: base64(message) });
    subscriptions.set(headers.id, client.subscribe(destination, heard, headers));
  },
  unsubscribe: ({ id, headers }) => subscriptions.get(id).unsubscribe(headers),
  ack: ({ name, subscription, headers }) => client.ack(name, subscription, headers),
  nack: ({ name, subscription, headers }) => client.nack(name, subscription, headers),
  begin: ({ transaction }) => client.begin(transaction),
  commit: ({ transaction }) => client.commit(transaction),
  abort: ({ transaction }) => client.abort(transaction),
  disconnect: () => client.deactivate(),
};

createInterface({ input: process.stdin }).on('line', (line) => {
  const { request, ...fields } = JSON.parse(line);
  requests[request](fields);
});
