"""The performatives, delivery states, termini and errors: fields, defaults, both kinds of descriptor."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.codec import decode_all, encode
from postroom.amqp.encoding.composite import Composite, Error, Performative
from postroom.amqp.encoding.field_writer import FieldWriter
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.types import (
    MAX_UINT,
    AmqpType,
    Array,
    Described,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
)
from postroom.amqp.errors import DecodeError, EncodeError
from postroom.amqp.frames import transfers as transfers_module
from postroom.amqp.frames.frames import write_disposition, write_transfer
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    Declare,
    Discharge,
    LastTransactionalState,
    Modified,
    Rejected,
    TransactionalState,
    decode_declare_or_discharge,
)
from postroom.amqp.frames.performatives import Attach, Begin, Close, Detach, End, Open
from postroom.amqp.frames.termini import Coordinator, Source, Target
from postroom.amqp.frames.transfers import RECEIVER, SENDER, SND_MIXED, Disposition, Flow, Transfer
from tests.amqp.encoded import decode_performative, encode_performative
from tests.amqp.fuzz_codec import make_input
from tests.amqp.strategies import dispositions, fields_of, performatives, transfers, uints


def performative(descriptor: int | str, fields: list[object]) -> bytes:
    code: object = Symbol(descriptor) if isinstance(descriptor, str) else ULong(descriptor)
    return encode(Described(code, fields))


@given(performatives)
def test_every_performative_comes_back(sent: Performative) -> None:
    encoded = encode_performative(sent)
    received, end = decode_performative(encoded)
    assert end == len(encoded)
    assert type(received) is type(sent)
    assert fields_of(received) == fields_of(sent)


EXAMPLES: list[tuple[Performative, str]] = [
    (Open(container_id="c"), "005310c00401a10163"),
    (
        Open(container_id="c", hostname="h", max_frame_size=1024, channel_max=9, idle_timeout=30_000),
        "005310c01405a10163a1016870000004006000097000007530",
    ),
    (Begin(next_outgoing_id=1, incoming_window=2, outgoing_window=3), "005311c0080440520152025203"),
    (Flow(2048, 0, 2048), "005313c00d04407000000800437000000800"),
    (Transfer(0, 1, b"\x01", message_format=0, settled=False), "005314c00905435201a001014342"),
    (Disposition(RECEIVER, 1, 1, True, ACCEPTED), "005315c00a05415201404100532445"),
    (Disposition(RECEIVER, 1, 2), "005315c006034152015202"),
    (Detach(handle=0, closed=True), "005316c003024341"),
    (End(), "00531745"),
    (
        Close(error=Error("amqp:internal-error")),
        "005318c01c01" + "00531dc01601" + "a313" + b"amqp:internal-error".hex(),
    ),
]


@pytest.mark.parametrize(("value", "encoded"), EXAMPLES)
def test_bytes_on_the_wire(value: Performative, encoded: str) -> None:
    assert encode_performative(value).hex() == encoded


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (Transfer(0, more=True), 6),
        (Transfer(0), 1),
        (Flow(1, 2, 3, handle=5), 5),
        (Attach(name="l", handle=0, role=SENDER, initial_delivery_count=0), 10),
    ],
)
def test_trailing_absent_fields_are_not_sent(value: Performative, count: int) -> None:
    assert encode_performative(value)[5] == count


def test_absent_fields_read_as_their_defaults() -> None:
    opened, _ = decode_performative(performative(d.OPEN, ["c"]))
    assert opened == Open(container_id="c", max_frame_size=MAX_UINT, channel_max=65_535)
    begun, _ = decode_performative(performative(d.BEGIN, [None, UInt(0), UInt(1), UInt(2)]))
    assert begun == Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=2, handle_max=MAX_UINT)
    attached, _ = decode_performative(performative(d.ATTACH, ["l", UInt(0), True]))
    assert attached == Attach(name="l", handle=0, role=RECEIVER, snd_settle_mode=SND_MIXED, rcv_settle_mode=0)
    transfer, _ = decode_performative(performative(d.TRANSFER, [UInt(3)]))
    assert fields_of(transfer) == fields_of(Transfer(3))
    disposition, _ = decode_performative(performative(d.DISPOSITION, [True, UInt(3)]))
    assert fields_of(disposition) == fields_of(Disposition(RECEIVER, 3, 3))
    flow, _ = decode_performative(performative(d.FLOW, [None, UInt(1), UInt(2), UInt(3)]))
    assert fields_of(flow) == fields_of(Flow(1, 2, 3))


@pytest.mark.parametrize(
    ("boolean", "expected"), [("41", True), ("42", False), ("5601", True), ("5600", False)]
)
def test_booleans_of_every_form(boolean: str, expected: bool) -> None:
    fields = bytes.fromhex("43" + boolean)
    encoded = b"\x00\x53\x16\xc0" + bytes([len(fields) + 1, 2]) + fields
    assert decode_performative(encoded)[0] == Detach(handle=0, closed=expected)


def test_nulls_read_as_absent_fields_even_beyond_the_last() -> None:
    ended, _ = decode_performative(performative(d.END, [None, None]))
    assert ended == End()
    opened, _ = decode_performative(performative(d.OPEN, ["c", None, None, None]))
    assert opened == Open(container_id="c")


def test_one_symbol_stands_for_an_array_of_one() -> None:
    fields: list[object] = ["c", None, None, None, None, None, None, Symbol("a")]
    opened, _ = decode_performative(performative(d.OPEN, fields))
    assert opened == Open(container_id="c", offered_capabilities=["a"])
    fields[-1] = Array(AmqpType.SYMBOL, [])
    opened, _ = decode_performative(performative(d.OPEN, fields))
    assert opened == Open(container_id="c")


@given(performatives)
def test_symbolic_descriptors_are_read_too(sent: Performative) -> None:
    encoded = encode_performative(sent)
    symbol = f"amqp:{type(sent).__name__.lower()}:list"
    received, _ = decode_performative(b"\x00" + encode(Symbol(symbol)) + encoded[3:])
    assert fields_of(received) == fields_of(sent)


def test_a_wide_descriptor_is_read_too() -> None:
    assert decode_performative(bytes.fromhex("0080000000000000001745"))[0] == End()


def test_termini_and_states_inside_an_attach() -> None:
    attach = Attach(
        name="l",
        handle=7,
        role=RECEIVER,
        source=Source(
            address="q", filter={Symbol("s"): Described(Symbol("apache.org:selector-filter:string"), "a=1")}
        ),
        target=Coordinator(capabilities=["amqp:local-transactions", "amqp:multi-txns-per-ssn"]),
        unsettled={
            b"1": None,
            b"2": TransactionalState(b"t", Modified(True)),
            b"3": Rejected(Error("amqp:x")),
        },
    )
    assert decode_performative(encode_performative(attach))[0] == attach


def test_a_target_is_told_from_a_coordinator() -> None:
    for target in (Target(address="q"), Coordinator(), None):
        attach = Attach(name="l", handle=0, role=SENDER, target=target)
        assert decode_performative(encode_performative(attach))[0] == attach


def test_codes_and_symbols_of_descriptors_agree() -> None:
    names = {name: value for name, value in vars(d).items() if name.isupper() and isinstance(value, int)}
    for symbol, code in d.CODE_OF_SYMBOL.items():
        name = symbol.split(":")[1].upper().replace("-", "_")
        assert names[name] == code, symbol
    assert len(d.CODE_OF_SYMBOL) == len(names)


@pytest.mark.parametrize("sent", [Declare(), Declare(b"xid"), Discharge(b"t"), Discharge(b"t", True)])
def test_declare_and_discharge(sent: Declare | Discharge) -> None:
    w = FieldWriter().content
    sent.write(w)
    assert decode_declare_or_discharge(b"\x00\x53\x77" + w.getvalue(), 3) == sent


def test_declares_compare_by_their_id() -> None:
    assert Declare(b"a") == Declare(b"a")
    assert Declare(b"a") != Declare(b"b")
    assert Declare() != Discharge(b"")
    assert len({Declare(b"a"), Declare(b"a"), Declare()}) == 2
    assert repr(Declare(b"a")) == "Declare(global_id=b'a')"


def test_a_coordinator_takes_nothing_else() -> None:
    with pytest.raises(DecodeError, match="declare and discharge only"):
        decode_declare_or_discharge(performative(d.ACCEPTED, []), 0)


# --- the short ways of reading agree with the long one

IN_TRANSACTION = TransactionalState(b"transaction", ACCEPTED)

common_transfers = st.builds(
    Transfer,
    uints,
    uints,
    st.binary(max_size=40),
    message_format=uints,
    settled=st.none() | st.booleans(),
    more=st.booleans(),
    state=st.sampled_from([None, IN_TRANSACTION, TransactionalState(b"another")]),
)
common_dispositions = st.builds(
    Disposition,
    st.booleans(),
    uints,
    uints,
    st.booleans(),
    st.sampled_from([ACCEPTED, IN_TRANSACTION, TransactionalState(b"another", ACCEPTED)]),
    st.booleans(),
)


@given(common_transfers | transfers, st.sampled_from(["", "42", "4040", "4040424242", "41", "5001"]))
def test_transfers_read_the_short_way(sent: Transfer, more_fields: str) -> None:
    encoded = encode_performative(sent)[3:]
    extra = bytes.fromhex(more_fields)
    fields = decode_all(encoded)
    if len(encoded) < 240 and encoded[0] == 0xC0 and isinstance(fields, list) and len(fields) in (5, 6):
        encoded = bytes([0xC0, encoded[1] + len(extra), len(fields) + len(extra)]) + encoded[3:] + extra
    _agree(transfers_module._common_transfer, transfers_module._any_transfer, encoded)


@given(common_dispositions | dispositions)
def test_dispositions_read_the_short_way(sent: Disposition) -> None:
    encoded = encode_performative(sent)[3:]
    _agree(transfers_module._common_disposition, transfers_module._any_disposition, encoded)


@pytest.mark.parametrize("seed", range(5))
def test_mutated_transfers_and_dispositions_agree(seed: int) -> None:
    rng = random.Random(seed)
    sent = [
        Transfer(1, 2, b"tag", message_format=0, settled=False, more=True),
        Transfer(300, 2, b"", message_format=0),
        Disposition(True, 1, 300, True, ACCEPTED),
        Transfer(1, 2, b"tag", message_format=0, settled=False, state=IN_TRANSACTION),
        Disposition(True, 1, 300, True, IN_TRANSACTION),
    ]
    inputs = [encode_performative(performative)[3:] for performative in sent]
    for _ in range(2000):
        data = make_input(rng, inputs)
        _agree(transfers_module._common_transfer, transfers_module._any_transfer, data)
        _agree(transfers_module._common_disposition, transfers_module._any_disposition, data)


def test_the_usual_forms_are_read_the_short_way() -> None:
    w = BytesWriter()
    write_transfer(w, 0, 1, 2, b"t", 0, False, False, b"payload")
    write_disposition(w, 0, RECEIVER, 1, 300, True, ACCEPTED)
    data = w.getvalue()
    last = LastTransactionalState()
    assert transfers_module._common_transfer(Reader(data, 11, len(data)), last) is not None
    assert transfers_module._common_disposition(Reader(data, data[3] + 11, len(data)), last) is not None
    without_settled = encode_performative(Transfer(1, 2, b"t", message_format=0))[3:]  # as Proton sends it
    assert without_settled[2] == 4
    assert (
        transfers_module._common_transfer(Reader(without_settled, 0, len(without_settled)), last) is not None
    )


@pytest.mark.parametrize(
    "sent",
    [
        Transfer(1, 2, b"tag", message_format=0, settled=False, state=IN_TRANSACTION),
        Transfer(1, 2, b"tag", message_format=0, settled=True, more=True, state=IN_TRANSACTION),
        Disposition(True, 1, 1, True, IN_TRANSACTION),
    ],
)
def test_the_state_of_a_transaction_is_read_once(sent: Transfer | Disposition) -> None:
    encoded, last = encode_performative(sent), LastTransactionalState()
    first, again = (decode_performative(encoded, 0, last)[0] for _ in range(2))
    assert isinstance(first, Transfer | Disposition)
    assert isinstance(again, Transfer | Disposition)
    assert first.state == IN_TRANSACTION
    assert again.state is first.state
    assert fields_of(again) == fields_of(first)


def test_a_long_state_is_read_each_time() -> None:
    sent, last = (
        Disposition(True, 1, 1, True, TransactionalState(b"x" * 60, ACCEPTED)),
        LastTransactionalState(),
    )
    first, again = (decode_performative(encode_performative(sent), 0, last)[0] for _ in range(2))
    assert fields_of(again) == fields_of(first) == fields_of(sent)
    assert last.data == b""


def _agree(
    common: Callable[[Reader, LastTransactionalState], Performative | None],
    every: Callable[[Reader, LastTransactionalState], Performative],
    data: bytes,
) -> None:
    """Where a state in the transaction IN_TRANSACTION was read before."""
    last = LastTransactionalState()
    decode_performative(encode_performative(Disposition(True, 0, 0, True, IN_TRANSACTION)), 0, last)
    short, long = Reader(data, 0, len(data)), Reader(data, 0, len(data))
    found = common(short, last)
    if found is None:
        assert short.pos == 0
        return
    assert fields_of(found) == fields_of(every(long, last))
    assert short.pos == long.pos


# --- what can't be sent


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Transfer(2**32), "4294967296 is out of the range of uint"),
        (Begin(remote_channel=70_000, next_outgoing_id=0, incoming_window=0, outgoing_window=0), "of ushort"),
        (Attach(name="l", handle=0, role=True, snd_settle_mode=-1), "-1 is out of the range of ubyte"),
        (Attach(name="l", handle=0, role=True, max_message_size=-1), "range of ulong"),
        (Open(container_id="c", offered_capabilities=["é"]), "ASCII only"),
        (Open(container_id="c", properties={1: 2}), "keys here are symbols, not int"),
        (Open(container_id="c", properties={"a": object()}), "no AMQP encoding for object"),
    ],
)
def test_fields_out_of_range_are_refused(value: Performative, text: str) -> None:
    with pytest.raises(EncodeError, match=text):
        encode_performative(value)


def test_the_base_class_has_no_encoding() -> None:
    with pytest.raises(NotImplementedError):
        Composite().write(FieldWriter().content)


# --- what can't be read


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (performative(d.OPEN, []), "open: the mandatory field container-id is absent"),
        (performative(d.OPEN, [None]), "open: the mandatory field container-id is absent"),
        (performative(d.OPEN, [Symbol("c")]), "open: container-id: string expected, found constructor 0xa3"),
        (performative(d.OPEN, ["c", None, ULong(512)]), "max-frame-size: uint expected"),
        (performative(d.OPEN, ["c", None, None, UInt(5)]), "channel-max: ushort expected"),
        (performative(d.OPEN, ["c"] + [None] * 6 + [["a"]]), "offered-capabilities: one symbol or an array"),
        (performative(d.OPEN, ["c"] + [None] * 8 + [[]]), "properties: a map with symbols as keys expected"),
        (performative(d.OPEN, ["c"] + [None] * 8 + [{1: 1}]), "properties: a key that is not a symbol"),
        (performative(d.OPEN, ["c"] + [None] * 8 + [{"é": 1}]), "properties: a key that is not a symbol"),
        (performative(d.OPEN, ["c"] + [None] * 9 + [1]), "open: more fields than the type has"),
        (performative(d.BEGIN, [UShort(1)]), "begin: the mandatory field next-outgoing-id is absent"),
        (
            performative(d.ATTACH, ["l", UInt(0), True, UByte(3)]),
            "snd-settle-mode is 3, at most 2 is defined",
        ),
        (performative(d.ATTACH, ["l", UInt(0), True, None, UByte(2)]), "rcv-settle-mode is 2, at most 1"),
        (performative(d.ATTACH, ["l", UInt(0), UInt(1)]), "role: boolean expected"),
        (
            performative(d.ATTACH, ["l", UInt(0), True, None, None, Described(ULong(d.TARGET), [])]),
            "source: descriptor 0x29 is not that of a source",
        ),
        (
            performative(d.ATTACH, ["l", UInt(0), True, None, None, None, Described(ULong(d.SOURCE), [])]),
            "target: descriptor 0x28 is not that of a target or coordinator",
        ),
        (
            performative(
                d.ATTACH, ["l", UInt(0), True, None, None, Described(ULong(d.SOURCE), ["q", UInt(3)])]
            ),
            "durable is 3, at most 2 is defined",
        ),
        (
            performative(
                d.ATTACH,
                ["l", UInt(0), True, None, None, Described(ULong(d.SOURCE), ["q", None, Symbol("soon")])],
            ),
            "expiry-policy is 'soon', not one of link-detach",
        ),
        (
            performative(d.ATTACH, ["l", UInt(0), True, None, None, None, None, {"tag": None}]),
            "unsettled: a key that is not a delivery-tag",
        ),
        (
            performative(
                d.ATTACH, ["l", UInt(0), True, None, None, None, None, {b"1": Described(ULong(1), [])}]
            ),
            "descriptor 0x1 is not that of a delivery state",
        ),
        (performative(d.DISPOSITION, [True]), "disposition: the mandatory field first is absent"),
        (
            performative(d.DISPOSITION, [True, UInt(0), None, None, Described(ULong(d.SOURCE), [])]),
            "not that of a delivery state that may stand here",
        ),
        (
            performative(
                d.DISPOSITION,
                [
                    True,
                    UInt(0),
                    None,
                    None,
                    Described(
                        ULong(d.TRANSACTIONAL_STATE),
                        [b"t", Described(ULong(d.TRANSACTIONAL_STATE), [b"t"])],
                    ),
                ],
            ),
            "not that of a delivery state that may stand here",
        ),
        (performative(d.DETACH, [UInt(0), None, "broken"]), "a described value expected"),
        (performative(d.DETACH, [UInt(0), None, Described(ULong(d.END), [])]), "is not that of an error"),
        (
            performative(d.END, [Described(ULong(d.ERROR), [])]),
            "error: the mandatory field condition is absent",
        ),
        (performative(d.SASL_INIT, [Symbol("PLAIN")]), "descriptor 0x41 is not that of a performative"),
        (performative("amqp:unknown:list", []), "an unknown descriptor"),
        (encode(Described(ULong(2**63), [])), "an unknown descriptor"),
        (encode(Described("amqp:open:list", [])), "an unknown descriptor"),
        (encode(Described(ULong(d.OPEN), {})), "a list of fields expected"),
        (encode([]), "a described value expected"),
    ],
)
def test_malformed_performatives_are_refused(encoded: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        decode_performative(encoded)
