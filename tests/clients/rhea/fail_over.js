'use strict';

// Sends one message after the other, then takes them, whatever becomes of the brokers meanwhile:
// node fail_over.js COUNT PORT… prints "sent N" for each, then "received N different in order" or not.

const rhea = require('rhea');

const RECONNECT_MS = 50;
const QUIET_MS = 2000;

const count = Number(process.argv[2]);
const ports = process.argv.slice(3).map(Number);
const container = rhea.create_container();
const seen = new Set();
let attempts = 0;
let sent = 0;
let unanswered = null; // the delivery that is on its way
let quiet;

// rhea's own words for fail-over: it calls this before each attempt.
function connection_details() {
    const port = ports[attempts++ % ports.length];
    return { host: '127.0.0.1', port };
}

const connection = container.connect({
    connection_details,
    initial_reconnect_delay: RECONNECT_MS,
    max_reconnect_delay: RECONNECT_MS,
});
const sender = connection.open_sender('q');

function sendNext() {
    if (sent < count && unanswered === null && sender.sendable()) {
        unanswered = sender.send({ message_id: sent, body: String(sent), durable: true });
    }
}

function answered({ delivery }) {
    if (delivery !== unanswered) return;
    unanswered = null;
    console.log(`sent ${sent++}`);
    if (sent === count) connection.open_receiver({ source: 'q', autoaccept: false });
    else sendNext();
}

function finish() {
    const inOrder = [...seen].every((number, place) => number === place);
    console.log(`received ${seen.size} different${inOrder ? ' in order' : ''}`);
    connection.close();
}

container.on('sendable', sendNext);
container.on('accepted', answered);
container.on('disconnected', () => {
    unanswered = null; // nobody answers it any more: it goes again
});
container.on('message', ({ message, delivery }) => {
    seen.add(Number(message.body));
    delivery.accept();
    clearTimeout(quiet);
    quiet = setTimeout(finish, QUIET_MS);
});
