"""Hypothesis strategies for everything the codec carries."""

import math

from hypothesis import strategies as st

from postroom.amqp.encoding.composite import Error, Performative
from postroom.amqp.encoding.types import (
    AmqpType,
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from postroom.amqp.frames.outcomes import (
    Accepted,
    Declared,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from postroom.amqp.frames.performatives import Attach, Begin, Close, Detach, End, Open
from postroom.amqp.frames.termini import EXPIRY_POLICIES, Coordinator, Source, Target
from postroom.amqp.frames.transfers import Disposition, Flow, Transfer
from postroom.amqp.message.sections import Data, Header, Message, Properties, Sequence, Value

ubytes = st.integers(0, 2**8 - 1)
ushorts = st.integers(0, 2**16 - 1)
uints = st.integers(0, 2**32 - 1)
ulongs = st.integers(0, 2**64 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ascii_texts = st.text(st.characters(max_codepoint=127), max_size=40)
symbols = ascii_texts.map(Symbol)
binaries = st.binary(max_size=40)
doubles = st.floats(allow_nan=False)

SCALARS: dict[AmqpType, st.SearchStrategy[object]] = {
    AmqpType.NULL: st.none(),
    AmqpType.BOOLEAN: st.booleans(),
    AmqpType.UBYTE: ubytes.map(UByte),
    AmqpType.USHORT: ushorts.map(UShort),
    AmqpType.UINT: uints.map(UInt),
    AmqpType.ULONG: ulongs.map(ULong),
    AmqpType.BYTE: st.integers(-(2**7), 2**7 - 1).map(Byte),
    AmqpType.SHORT: st.integers(-(2**15), 2**15 - 1).map(Short),
    AmqpType.INT: st.integers(-(2**31), 2**31 - 1).map(Int),
    AmqpType.LONG: longs,
    AmqpType.FLOAT: st.floats(width=32, allow_nan=False).map(Float32),
    AmqpType.DOUBLE: doubles,
    AmqpType.DECIMAL32: st.binary(min_size=4, max_size=4).map(Decimal32),
    AmqpType.DECIMAL64: st.binary(min_size=8, max_size=8).map(Decimal64),
    AmqpType.DECIMAL128: st.binary(min_size=16, max_size=16).map(Decimal128),
    AmqpType.CHAR: st.characters(exclude_categories=["Cs"]).map(Char),
    AmqpType.TIMESTAMP: longs.map(Timestamp),
    AmqpType.UUID: st.uuids(),
    AmqpType.BINARY: binaries | st.binary(min_size=250, max_size=260),
    AmqpType.STRING: texts,
    AmqpType.SYMBOL: symbols,
}
scalars = st.one_of(*SCALARS.values())
"""One value of each type that holds no others."""

keys = st.one_of(texts, symbols, binaries)
"""Map keys that a dict tells apart (a string and an equal symbol it doesn't: those make a PairMap)."""


def _unique_maps(values: st.SearchStrategy[object]) -> st.SearchStrategy[dict[object, object]]:
    return st.dictionaries(keys, values, max_size=5)


def _containers(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(
        st.lists(values, max_size=5),
        _unique_maps(values),
        st.builds(Described, st.one_of(symbols, ulongs.map(ULong)), values),
        _arrays(values),
    )


def _arrays(values: st.SearchStrategy[object]) -> st.SearchStrategy[Array]:
    descriptors = st.lists(ulongs.map(ULong), max_size=2)
    plain = [
        st.builds(Array, st.just(kind), st.lists(items, max_size=5), descriptors)
        for kind, items in SCALARS.items()
    ]
    lists = st.builds(Array, st.just(AmqpType.LIST), st.lists(st.lists(values, max_size=3), max_size=3))
    maps = st.builds(Array, st.just(AmqpType.MAP), st.lists(_unique_maps(values), max_size=3))
    return st.one_of(*plain, lists, maps)


def _nested_arrays() -> st.SearchStrategy[Array]:
    inner = _arrays(scalars)
    return st.builds(Array, st.just(AmqpType.ARRAY), st.lists(inner, max_size=3))


values: st.SearchStrategy[object] = st.one_of(
    st.recursive(scalars, _containers, max_leaves=12), _nested_arrays()
)
"""Any AMQP value."""


def same(a: object, b: object) -> bool:
    """Equal in value and in every type inside, also where Python calls different types equal (0.0 and -0.0
    too).
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, float) and isinstance(b, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return same([*a.keys(), *a.values()], [*b.keys(), *b.values()])
    if isinstance(a, Described) and isinstance(b, Described):
        return same(a.descriptor, b.descriptor) and same(a.value, b.value)
    if isinstance(a, Array) and isinstance(b, Array):
        return a.type == b.type and same(a.items, b.items) and same(a.descriptors, b.descriptors)
    return a == b


# --- composites

maps = st.none() | st.dictionaries(symbols, scalars, max_size=3)
symbol_lists = st.lists(ascii_texts, max_size=3)
errors = st.builds(Error, ascii_texts, st.none() | texts, maps)
outcomes = st.one_of(
    st.builds(Accepted),
    st.builds(Released),
    st.builds(Rejected, st.none() | errors),
    st.builds(Modified, st.booleans(), st.booleans(), maps),
)
states = st.one_of(
    outcomes,
    st.builds(Received, uints, ulongs),
    st.builds(Declared, binaries),
    st.builds(TransactionalState, binaries, st.none() | outcomes),
)
optional_states = st.none() | states
sources = st.builds(
    Source,
    address=st.none() | texts,
    durable=st.integers(0, 2),
    expiry_policy=st.sampled_from(EXPIRY_POLICIES),
    timeout=uints,
    dynamic=st.booleans(),
    dynamic_node_properties=maps,
    distribution_mode=st.none() | ascii_texts,
    filter=maps,
    default_outcome=optional_states,
    outcomes=symbol_lists,
    capabilities=symbol_lists,
)
targets = st.builds(
    Target,
    address=st.none() | texts,
    durable=st.integers(0, 2),
    expiry_policy=st.sampled_from(EXPIRY_POLICIES),
    timeout=uints,
    dynamic=st.booleans(),
    dynamic_node_properties=maps,
    capabilities=symbol_lists,
)
coordinators = st.builds(Coordinator, capabilities=symbol_lists)

transfers = st.builds(
    Transfer,
    uints,
    st.none() | uints,
    st.none() | binaries,
    message_format=st.none() | uints,
    settled=st.none() | st.booleans(),
    more=st.booleans(),
    rcv_settle_mode=st.none() | st.integers(0, 1),
    state=optional_states,
    resume=st.booleans(),
    aborted=st.booleans(),
    batchable=st.booleans(),
)
dispositions = st.builds(
    Disposition, st.booleans(), uints, uints, st.booleans(), optional_states, st.booleans()
)
flows = st.builds(
    Flow,
    uints,
    uints,
    uints,
    next_incoming_id=st.none() | uints,
    handle=st.none() | uints,
    delivery_count=st.none() | uints,
    link_credit=st.none() | uints,
    available=st.none() | uints,
    drain=st.booleans(),
    echo=st.booleans(),
    properties=maps,
)
PERFORMATIVES: dict[str, st.SearchStrategy[Performative]] = {
    "open": st.builds(
        Open,
        container_id=texts,
        hostname=st.none() | texts,
        max_frame_size=uints,
        channel_max=ushorts,
        idle_timeout=st.none() | uints,
        outgoing_locales=symbol_lists,
        incoming_locales=symbol_lists,
        offered_capabilities=symbol_lists,
        desired_capabilities=symbol_lists,
        properties=maps,
    ),
    "begin": st.builds(
        Begin,
        remote_channel=st.none() | ushorts,
        next_outgoing_id=uints,
        incoming_window=uints,
        outgoing_window=uints,
        handle_max=uints,
        offered_capabilities=symbol_lists,
        desired_capabilities=symbol_lists,
        properties=maps,
    ),
    "attach": st.builds(
        Attach,
        name=texts,
        handle=uints,
        role=st.booleans(),
        snd_settle_mode=st.integers(0, 2),
        rcv_settle_mode=st.integers(0, 1),
        source=st.none() | sources,
        target=st.none() | targets | coordinators,
        unsettled=st.none() | st.dictionaries(binaries, optional_states, max_size=3),
        incomplete_unsettled=st.booleans(),
        initial_delivery_count=st.none() | uints,
        max_message_size=st.none() | ulongs,
        offered_capabilities=symbol_lists,
        desired_capabilities=symbol_lists,
        properties=maps,
    ),
    "flow": flows,
    "transfer": transfers,
    "disposition": dispositions,
    "detach": st.builds(Detach, handle=uints, closed=st.booleans(), error=st.none() | errors),
    "end": st.builds(End, error=st.none() | errors),
    "close": st.builds(Close, error=st.none() | errors),
}
performatives = st.one_of(*PERFORMATIVES.values())

# --- messages

ids = st.none() | texts | binaries | st.uuids() | ulongs
headers = st.builds(
    Header,
    durable=st.booleans(),
    priority=ubytes,
    ttl=st.none() | uints,
    first_acquirer=st.booleans(),
    delivery_count=uints,
)
properties = st.builds(
    Properties,
    message_id=ids,
    user_id=st.none() | binaries,
    to=st.none() | texts,
    subject=st.none() | texts,
    reply_to=st.none() | texts,
    correlation_id=ids,
    content_type=st.none() | ascii_texts,
    content_encoding=st.none() | ascii_texts,
    absolute_expiry_time=st.none() | longs,
    creation_time=st.none() | longs,
    group_id=st.none() | texts,
    group_sequence=st.none() | uints,
    reply_to_group_id=st.none() | texts,
)
annotation_names = symbols.filter(lambda name: not name.startswith("x-opt-"))
"""Without those that the broker reads: it refuses values that they can't have."""
annotations = st.dictionaries(annotation_names, values, max_size=3)
bodies = st.one_of(
    st.none(),
    st.builds(Data, st.lists(binaries, min_size=1, max_size=3)),
    st.builds(Sequence, st.lists(st.lists(scalars, max_size=3), min_size=1, max_size=3)),
    st.builds(Value, values),
)
messages = st.builds(
    Message,
    header=st.none() | headers,
    delivery_annotations=annotations,
    message_annotations=annotations,
    properties=st.none() | properties,
    application_properties=st.dictionaries(texts, scalars, max_size=3),
    body=bodies,
    footer=annotations,
)


def fields_of(composite: object) -> dict[str, object]:
    """The fields of a composite by name, for comparing those that have no equality of their own."""
    names = [name for name in dir(composite) if not name.startswith("_") and name != "write"]
    return {name: getattr(composite, name) for name in names}
