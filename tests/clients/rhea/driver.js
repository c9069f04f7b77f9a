'use strict';

// Driver of rhea: commands and answers as in ../README.md.

const crypto = require('crypto');
const fs = require('fs');
const readline = require('readline');
const rhea = require('rhea');
const WebSocket = require('ws');
const codec = require('rhea/lib/message.js');

const types = rhea.types;
const COMMAND_MS = 15000;
const RECONNECT_MS = 50;
const BROWSE_CREDIT = 10000;
const PERIOD = 251;
const HEX_BYTES = 1024;

class DriverError extends Error {
    constructor(condition, description) {
        super(`${condition}: ${description}`);
        this.condition = condition;
        this.description = description;
    }
}

// rhea gives the application plain JavaScript values, in which an AMQP int and an AMQP long are both numbers. Its reader
// knows the types, so the driver keeps the bytes of each received message and reads them again with that reader.
const decode = codec.decode;
codec.decode = function (buffer) {
    const message = decode(buffer);
    Object.defineProperty(message, 'encoded', { value: buffer });
    return message;
};

// --- Typed values

function integer64(text, write) {
    const buffer = Buffer.alloc(8);
    buffer[write](BigInt(text), 0);
    return buffer;
}

function number(make) {
    return (value) => make(Number(value));
}

const TO_RHEA = {
    null: () => types.wrap(null),
    boolean: (value) => types.wrap_boolean(value),
    ubyte: number(types.wrap_ubyte),
    ushort: number(types.wrap_ushort),
    uint: number(types.wrap_uint),
    ulong: (value) => types.wrap_ulong(integer64(value, 'writeBigUInt64BE')),
    byte: number(types.wrap_byte),
    short: number(types.wrap_short),
    int: number(types.wrap_int),
    long: (value) => types.wrap_long(integer64(value, 'writeBigInt64BE')),
    float: (value) => types.wrap_float(Buffer.from(value, 'hex').readFloatBE(0)),
    double: (value) => types.wrap_double(Buffer.from(value, 'hex').readDoubleBE(0)),
    decimal32: (value) => types.Decimal32(Buffer.from(value, 'hex')),
    decimal64: (value) => types.Decimal64(Buffer.from(value, 'hex')),
    decimal128: (value) => types.Decimal128(Buffer.from(value, 'hex')),
    char: number(types.wrap_char),
    timestamp: (value) => types.wrap_timestamp(integer64(value, 'writeBigInt64BE')),
    uuid: (value) => types.wrap_uuid(Buffer.from(value.replace(/-/g, ''), 'hex')),
    binary: (value) => types.wrap_binary(Buffer.from(value, 'hex')),
    string: (value) => types.wrap_string(value),
    symbol: (value) => types.wrap_symbol(value),
    list: (value) => types.wrap_list(value.map(toRhea)),
    map: (value) => types.Map32(value.flat().map(toRhea)),
    array: arrayToRhea,
    described: ([descriptor, value]) => types.described(toRhea(descriptor), toRhea(value)),
};

// The one encoding of each type that an array of it has: its elements share a constructor.
const ARRAY_CODES = {
    boolean: 'Boolean', ubyte: 'Ubyte', ushort: 'Ushort', uint: 'Uint', ulong: 'Ulong', byte: 'Byte', short: 'Short',
    int: 'Int', long: 'Long', float: 'Float', double: 'Double', char: 'CharUTF32', timestamp: 'Timestamp',
    uuid: 'Uuid', binary: 'Vbin32', string: 'Str32', symbol: 'Sym32',
};

function toRhea(typed) {
    const [[name, value]] = Object.entries(typed);
    return TO_RHEA[name](value);
}

function arrayToRhea({ type, items }) {
    const code = ARRAY_CODES[type];
    if (!code) throw new DriverError('NotExpressible', `an array of ${type}`);
    const plain = items.map((item) => toRhea(item).value);
    return types.wrap_array(plain, types[code].typecode);
}

const TYPE_NAMES = {
    Null: 'null', Boolean: 'boolean', True: 'boolean', False: 'boolean', Ubyte: 'ubyte', Ushort: 'ushort',
    Uint: 'uint', SmallUint: 'uint', Uint0: 'uint', Ulong: 'ulong', SmallUlong: 'ulong', Ulong0: 'ulong', Byte: 'byte',
    Short: 'short', Int: 'int', SmallInt: 'int', Long: 'long', SmallLong: 'long', Float: 'float', Double: 'double',
    Decimal32: 'decimal32', Decimal64: 'decimal64', Decimal128: 'decimal128', CharUTF32: 'char',
    Timestamp: 'timestamp', Uuid: 'uuid', Vbin8: 'binary', Vbin32: 'binary', Str8: 'string', Str32: 'string',
    Sym8: 'symbol', Sym32: 'symbol', List0: 'list', List8: 'list', List32: 'list', Map8: 'map', Map32: 'map',
    Array8: 'array', Array32: 'array',
};

function bits(size, write, value) {
    const buffer = Buffer.alloc(size);
    buffer[write](value, 0);
    return buffer.toString('hex');
}

function timestampText(value) {
    const ms = value.getTime();
    if (Number.isNaN(ms)) throw new DriverError('NotExpressible', 'a timestamp outside the range of Date');
    return String(ms);
}

function uuidText(value) {
    return value.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

const FROM_RHEA = {
    null: () => true,
    boolean: Boolean,
    ulong: (value) => String(Buffer.isBuffer(value) ? value.readBigUInt64BE(0) : value),
    long: (value) => String(Buffer.isBuffer(value) ? value.readBigInt64BE(0) : value),
    float: (value) => bits(4, 'writeFloatBE', value),
    double: (value) => bits(8, 'writeDoubleBE', value),
    decimal32: (value) => value.toString('hex'),
    decimal64: (value) => value.toString('hex'),
    decimal128: (value) => value.toString('hex'),
    timestamp: timestampText,
    uuid: uuidText,
    binary: (value) => value.toString('hex'),
    string: String,
    symbol: String,
    list: (value) => value.map(fromRhea),
    map: pairs,
};

function pairs(items) {
    const told = [];
    for (let i = 0; i < items.length; i += 2) told.push([fromRhea(items[i]), fromRhea(items[i + 1])]);
    return told;
}

function arrayFromRhea(typed) {
    const type = TYPE_NAMES[types.by_code[typed.array_constructor.typecode].name];
    return { array: { type, items: typed.value.map(fromRhea) } };
}

function fromRhea(typed) {
    if (typed.descriptor) {
        return { described: [fromRhea(typed.descriptor), plainFromRhea(typed)] };
    }
    return plainFromRhea(typed);
}

function plainFromRhea(typed) {
    const name = TYPE_NAMES[typed.type.name];
    if (name === 'array') return arrayFromRhea(typed);
    const convert = FROM_RHEA[name] || String;
    return { [name]: convert(typed.value) };
}

// --- Messages

const SAME_NAME = [
    'durable', 'priority', 'delivery_count', 'first_acquirer', 'to', 'subject', 'reply_to', 'content_type',
    'content_encoding', 'group_id', 'group_sequence', 'reply_to_group_id',
];

function toMessage(spec) {
    const message = {};
    for (const name of SAME_NAME) {
        if (name in spec) message[name] = spec[name];
    }
    if ('ttl_ms' in spec) message.ttl = spec.ttl_ms;
    if ('absolute_expiry_time_ms' in spec) message.absolute_expiry_time = new Date(spec.absolute_expiry_time_ms);
    if ('creation_time_ms' in spec) message.creation_time = new Date(spec.creation_time_ms);
    if ('user_id' in spec) message.user_id = Buffer.from(spec.user_id, 'hex');
    if ('message_id' in spec) message.message_id = toRhea(spec.message_id);
    if ('correlation_id' in spec) message.correlation_id = toRhea(spec.correlation_id);
    if ('properties' in spec) message.application_properties = toObject(spec.properties);
    if ('annotations' in spec) message.message_annotations = toObject(spec.annotations);
    message.body = toBody(spec.body || { value: { null: true } });
    return message;
}

function toObject(named) {
    return Object.fromEntries(named.map(([name, value]) => [name, toRhea(value)]));
}

function toBody(body) {
    if ('data' in body) return codec.data_section(dataFromSpec(body.data));
    if ('sequence' in body) return codec.sequence_section(body.sequence.map(toRhea));
    if ('described' in body.value) throw new DriverError('NotExpressible', 'a described body value');
    return toRhea(body.value);
}

function dataFromSpec(spec) {
    if ('hex' in spec) return Buffer.from(spec.hex, 'hex');
    const period = Buffer.from(Array.from({ length: PERIOD }, (_, i) => (i * 31 + spec.seed) % PERIOD));
    return Buffer.alloc(spec.size, period);
}

function toldData(data) {
    const told = { size: data.length, sha256: crypto.createHash('sha256').update(data).digest('hex') };
    if (data.length <= HEX_BYTES) told.hex = data.toString('hex');
    return told;
}

function sections(buffer) {
    const reader = new types.Reader(buffer);
    const found = {};
    while (reader.remaining()) {
        const section = reader.read();
        found[Number(section.descriptor.value)] = section;
    }
    return found;
}

const MESSAGE_ANNOTATIONS = 0x72;
const PROPERTIES = 0x73;
const APPLICATION_PROPERTIES = 0x74;
const DATA = 0x75;
const SEQUENCE = 0x76;
const VALUE = 0x77;
const MESSAGE_ID_FIELD = 0;
const CORRELATION_ID_FIELD = 5;

function fromMessage(message) {
    const told = {};
    for (const name of SAME_NAME) {
        if (message[name] !== undefined && message[name] !== null) told[name] = message[name];
    }
    if (message.ttl !== undefined) told.ttl_ms = message.ttl;
    if (message.absolute_expiry_time) told.absolute_expiry_time_ms = message.absolute_expiry_time.getTime();
    if (message.creation_time) told.creation_time_ms = message.creation_time.getTime();
    if (message.user_id) told.user_id = message.user_id.toString('hex');
    return { ...told, ...typedParts(sections(message.encoded)) };
}

function typedParts(found) {
    const told = { body: toldBody(found) };
    const fields = found[PROPERTIES] ? found[PROPERTIES].value : [];
    addTyped(told, 'message_id', fields[MESSAGE_ID_FIELD]);
    addTyped(told, 'correlation_id', fields[CORRELATION_ID_FIELD]);
    if (found[APPLICATION_PROPERTIES]) told.properties = named(found[APPLICATION_PROPERTIES]);
    if (found[MESSAGE_ANNOTATIONS]) told.annotations = named(found[MESSAGE_ANNOTATIONS]);
    return told;
}

function addTyped(told, name, field) {
    if (field && TYPE_NAMES[field.type.name] !== 'null') told[name] = fromRhea(field);
}

function named(section) {
    return pairs(section.value).map(([key, value]) => [Object.values(key)[0], value]);
}

function toldBody(found) {
    if (found[DATA]) return { data: toldData(found[DATA].value) };
    if (found[SEQUENCE]) return { sequence: found[SEQUENCE].value.map(fromRhea) };
    if (!found[VALUE]) return { value: { null: true } };
    return { value: plainFromRhea(found[VALUE]) };
}

// --- The client

const container = rhea.create_container();
let connection;
let reconnecting = false;
const senders = new Map();
const failures = new Set(); // functions that end the command under way with an error

function fail(condition, description) {
    for (const reject of failures) reject(new DriverError(condition, description));
}

function failWith(endpoint) {
    const error = endpoint.error || { condition: 'closed', description: 'closed by the peer' };
    fail(error.condition, error.description);
}

container.on('connection_error', (context) => failWith(context.connection));
container.on('session_error', (context) => failWith(context.session));
container.on('sender_error', (context) => failWith(context.sender));
container.on('receiver_error', (context) => failWith(context.receiver));
container.on('disconnected', (context) => {
    if (!reconnecting && context.error) fail('disconnected', String(context.error.message || context.error));
    else if (!reconnecting) fail('disconnected', 'the connection broke');
});
container.on('error', (error) => fail(error.condition || error.name, error.message));

function until(start, timeoutMs, onTimeout) {
    return new Promise((resolve, reject) => {
        const finish = (settle) => (value) => {
            clearTimeout(timer);
            failures.delete(onError);
            settle(value);
        };
        const onError = finish(reject);
        const timer = setTimeout(() => {
            if (onTimeout) finish(resolve)(onTimeout());
            else onError(new DriverError('timeout', `nothing came for ${timeoutMs} ms`));
        }, timeoutMs);
        failures.add(onError);
        start(finish(resolve));
    });
}

function overWebSocket({ host, port, websocket, ca }) {
    const url = `${ca ? 'wss' : 'ws'}://${host}:${port}${websocket}`;
    return container.websocket_connect(WebSocket)(url, ['binary', 'AMQPWSB10', 'amqp'], ca ? { ca: fs.readFileSync(ca) } : {});
}

function overTls({ ca, certificate, key }) {
    const options = { transport: 'tls', ca: fs.readFileSync(ca) };
    if (!certificate) return options;
    return { ...options, enable_sasl_external: true, cert: fs.readFileSync(certificate), key: fs.readFileSync(key) };
}

async function connect(command) {
    reconnecting = Boolean(command.reconnect);
    const options = { host: command.host, port: command.port, reconnect: reconnecting ? RECONNECT_MS : false };
    if (command.user) Object.assign(options, { username: command.user, password: command.password });
    if (command.token) Object.assign(options, { username: command.user, token: command.token });
    if (command.container) options.container_id = command.container;
    if (command.ca && !command.websocket) Object.assign(options, overTls(command));
    if (command.websocket) options.connection_details = overWebSocket(command);
    await until((resolve) => {
        connection = container.connect(options);
        connection.once('connection_open', resolve);
    }, COMMAND_MS);
    return {};
}

async function senderTo(address, settled) {
    if (!settled && senders.has(address)) return senders.get(address);
    const sender = connection.open_sender({ target: { address }, snd_settle_mode: settled ? 1 : 0 });
    await until((resolve) => sender.once('sender_open', resolve), COMMAND_MS);
    // A refusal is an attach with the detach right behind it: rhea reports the link open first.
    if (sender.error) throw new DriverError(sender.error.condition, sender.error.description);
    if (!settled) senders.set(address, sender);
    return sender;
}

// Each message waits for the outcome of its delivery; after a reconnect, what has none is sent again.
class Sending {
    constructor(sender, messages, settled, resolve) {
        this.sender = sender;
        this.messages = messages;
        this.settled = settled;
        this.resolve = resolve;
        this.outcomes = new Array(messages.length).fill(null);
        this.unsent = messages.map((_, index) => index);
        this.inFlight = new Map();
        this.listeners = { sendable: () => this.put(), settled: (context) => this.outcome(context.delivery) };
        for (const [name, listener] of Object.entries(this.listeners)) sender.on(name, listener);
        this.onDisconnect = () => this.lost();
        connection.on('disconnected', this.onDisconnect);
    }

    put() {
        while (this.unsent.length && this.sender.sendable()) {
            const index = this.unsent.shift();
            const delivery = this.sender.send(this.messages[index]);
            if (this.settled) this.outcomes[index] = { state: 'settled' };
            else this.inFlight.set(delivery, index);
        }
        this.finish();
    }

    outcome(delivery) {
        const state = delivery.remote_state;
        const told = { state: state ? state.constructor.composite_type : 'none' };
        if (state && state.error) Object.assign(told, describeError(state.error));
        this.outcomes[this.inFlight.get(delivery)] = told;
        this.inFlight.delete(delivery);
        this.finish();
    }

    lost() {
        this.unsent = [...this.inFlight.values(), ...this.unsent].sort((a, b) => a - b);
        this.inFlight.clear();
    }

    finish() {
        if (this.unsent.length || this.inFlight.size) return;
        for (const [name, listener] of Object.entries(this.listeners)) this.sender.removeListener(name, listener);
        connection.removeListener('disconnected', this.onDisconnect);
        this.resolve({ outcomes: this.outcomes });
    }
}

function describeError(error) {
    return { condition: error.condition, description: error.description };
}

async function send(command) {
    const messages = command.messages.map(toMessage);
    const settled = Boolean(command.settled);
    const sender = await senderTo(command.address, settled);
    const answer = await until((resolve) => new Sending(sender, messages, settled, resolve).put(), COMMAND_MS);
    // The peer answers the detach when it has read every settled message before it.
    if (settled) await closed(sender, 'sender_close');
    return answer;
}

async function closed(link, event) {
    await until((resolve) => {
        link.once(event, resolve);
        link.close();
    }, COMMAND_MS);
}

const OUTCOMES = {
    accept: () => codec.accepted().described(),
    release: () => codec.released().described(),
    reject: (detail) => codec.rejected(detail.condition ? { error: detail } : {}).described(),
    modify: (detail) => codec.modified({
        delivery_failed: detail.failed, undeliverable_here: detail.undeliverable_here,
    }).described(),
};

function settler(outcome, second) {
    const [[name, detail]] = typeof outcome === 'object' ? Object.entries(outcome) : [[outcome, {}]];
    if (name === 'none') return () => {};
    return (delivery) => delivery.update(!second, OUTCOMES[name](detail));
}

async function receive(command) {
    const options = {
        source: { address: command.address },
        snd_settle_mode: command.presettled ? 1 : 0,
        rcv_settle_mode: command.second ? 1 : 0,
    };
    const settle = settler(command.outcome || 'accept', command.second);
    return collect(command, options, command.count, settle);
}

async function browse(command) {
    const options = { source: { address: command.address, distribution_mode: 'copy' } };
    return collect(command, options, Infinity, settler('accept', false));
}

async function collect(command, options, count, settle) {
    const receiver = connection.open_receiver({ ...options, credit_window: 0, autoaccept: false, autosettle: true });
    const messages = [];
    let unsettled = 0;
    let drained = false;
    const answer = await until((resolve) => {
        const finish = () => {
            if ((messages.length >= count || drained) && !unsettled) resolve({ messages });
        };
        receiver.on('receiver_open', () => {
            receiver.add_credit(Math.min(count - messages.length, BROWSE_CREDIT));
            if (!command.wait) receiver.drain_credit();
        });
        receiver.on('message', (context) => {
            messages.push(fromMessage(context.message));
            if (!context.delivery.remote_settled) {
                unsettled += command.second ? 1 : 0;
                settle(context.delivery);
            }
            finish();
        });
        receiver.on('settled', () => { unsettled -= 1; finish(); });
        receiver.on('receiver_drained', () => { drained = true; finish(); });
    }, command.timeout_ms || 10000, () => ({ messages }));
    if (!command.keep) await closed(receiver, 'receiver_close');
    return answer;
}

async function close() {
    reconnecting = false;
    senders.clear();
    await until((resolve) => {
        connection.once('connection_close', resolve);
        connection.close();
    }, COMMAND_MS);
    return {};
}

const COMMANDS = { connect, send, receive, browse, close };

async function answer(line) {
    try {
        const command = JSON.parse(line);
        return await COMMANDS[command.op](command);
    } catch (error) {
        const told = { type: error.constructor.name, condition: error.condition || null, description: error.message };
        return { error: told };
    }
}

async function main() {
    for await (const line of readline.createInterface({ input: process.stdin })) {
        process.stdout.write(`${JSON.stringify(await answer(line))}\n`);
    }
    process.exit(0);
}

main();
