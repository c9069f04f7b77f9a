'use strict';

// One end of a channel, written from docs/reference/channel-protocol.md alone.
//
//   node channel.js PORT send CHANNEL QUEUE BATCH_SIZE TEXT…     a sender; a text that begins with "fast" travels fast
//   node channel.js PORT receive CHANNEL SEQUENCE LUWID          a requester that has come so far, for one batch
//
// Prints one line of JSON.

const rhea = require('rhea');
const message = require('rhea/lib/message.js');

const types = rhea.types;
const [port, role, channel, ...rest] = process.argv.slice(2);
const NAME = 'JAVASCRIPT';
const BATCH_END = 0x506F0001;
const IN_BATCH = 0, FAST = 1, CONTROL = 2;

function offer(more) {
    return {
        'postroom:protocol': types.wrap_uint(1),
        'postroom:channel': channel,
        'postroom:queue-manager': NAME,
        'postroom:ledger': 'one that is never forgotten',
        'postroom:batch-size': types.wrap_uint(50),
        'postroom:sequence-wrap': types.wrap_uint(999999999),
        'postroom:nonpersistent-speed': types.wrap_symbol('fast'),
        'postroom:max-message-bytes': types.wrap_ulong(1000000),
        ...more,
    };
}

function tag(kind, sequence) {
    const bytes = Buffer.alloc(17);
    bytes[0] = kind;
    bytes.writeBigUInt64BE(BigInt(sequence), 1);
    bytes.writeBigUInt64BE(BigInt(7000 + sequence), 9);
    return bytes;
}

function finish(connection, said) {
    console.log(JSON.stringify(said));
    connection.close();
}

function send(connection, [queue, size, ...texts]) {
    const sender = connection.open_sender({ name: 'js', target: { address: '$channel' }, properties: offer({}) });
    const unanswered = new Set();  // fast messages
    let sequence, count = 0, waiting = 0, begun;

    function put(text) {
        const fast = text.startsWith('fast');
        const transmission = types.wrap_list([queue, 'POSTROOM', types.wrap_uint(1)]);
        const annotations = { 'x-opt-transmission': transmission };
        const bytes = message.encode({ durable: !fast, message_annotations: annotations, body: text });
        if (!fast) {
            sequence += 1;
            count += 1;
        }
        const delivery = sender.send(bytes, tag(fast ? FAST : IN_BATCH, sequence), 0);
        if (fast) {
            waiting += 1;
            unanswered.add(delivery);
        } else {
            delivery.settled = true;
        }
        if (count === Number(size)) {
            end();
        }
    }

    function end() {
        if (count > 0) {
            const luwid = Buffer.alloc(16);
            luwid.writeUInt32BE(sequence, 12);
            const fields = [types.wrap_binary(luwid), types.wrap_ulong(sequence), types.wrap_uint(count)];
            const bytes = message.encode({ body: types.wrap_list(fields) });
            sender.send(bytes, tag(CONTROL, sequence), BATCH_END);
            waiting += 1;
            count = 0;
        }
    }

    sender.once('sendable', () => {
        begun = Number(sender.properties['postroom:last-sequence']);
        sequence = begun;
        texts.forEach(put);
        end();
    });
    let batches = 0;
    connection.on('accepted', ({ delivery }) => {
        batches += unanswered.delete(delivery) ? 0 : 1;
        waiting -= 1;
        if (waiting === 0) {
            finish(connection, { begun, sequence, batches, partner: sender.properties['postroom:queue-manager'] });
        }
    });
}

function receive(connection, [last, luwid]) {
    const more = {
        'postroom:last-sequence': types.wrap_ulong(Number(last)),
        'postroom:last-luwid': types.wrap_binary(Buffer.from(luwid || '', 'hex')),
    };
    const texts = [], sequences = [];
    // rhea decodes messages of format 0 only; the end of a batch is one, too, with a list for its body.
    connection.open_receiver({ name: 'js', source: { address: '$channel' }, properties: offer(more), autoaccept: false });
    connection.on('message', ({ message: came, delivery }) => {
        if (delivery.format === BATCH_END) {
            const [name, sequence, count] = message.decode(came).body;
            delivery.accept();
            const said = { texts, sequences, luwid: name.toString('hex'), sequence: Number(sequence), count };
            setImmediate(() => finish(connection, said));
        } else {
            if (delivery.tag[0] === FAST) {
                delivery.accept();
            }
            texts.push(came.body);
            sequences.push(Number(delivery.tag.readBigUInt64BE(1)));
        }
    });
}

const connection = rhea.connect({ host: '127.0.0.1', port, container_id: NAME, username: 'anonymous', reconnect: false });
for (const event of ['sender_error', 'receiver_error', 'connection_error', 'rejected', 'released']) {
    connection.on(event, ({ sender, receiver }) => {
        const error = (sender || receiver || connection).error;
        finish(connection, { failed: event, condition: error && error.condition, description: error && error.description });
    });
}
if (role === 'send') {
    send(connection, rest);
} else {
    receive(connection, rest);
}
