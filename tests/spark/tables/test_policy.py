"""Personal data: what is kept, hashed and dropped, and that nothing else gets into tables."""

import json

import pyarrow as pa
import pytest

from postroom.spark.ledger_source.columns import EVENTS_SCHEMA
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.policy import (
    ACT_WORDS,
    ACTOR,
    DEFAULT,
    Policy,
    PolicyError,
    apply,
    derived,
    personal_columns,
    without_actor,
)

KEY = b"0123456789abcdef"


def column(policy: Policy, name: str, values: list[str | None]) -> list[str | None]:
    """What becomes of a column of plain texts, and the same of one that is dictionary-encoded."""
    plain = pa.table({name: pa.chunked_array([values, [None]], pa.string())})
    coded = pa.table({name: plain.column(name).dictionary_encode()})
    found = apply(policy, plain)
    assert found.column(name).num_chunks == 2
    assert apply(policy, coded).column(name).cast(pa.string()).to_pylist() == found.column(name).to_pylist()
    replaced: list[str | None] = found.column(name).to_pylist()[:-1]
    return replaced


def test_kept_dropped_hashed() -> None:
    values = ["a", None, "b", "a"]
    assert column(Policy(), "message_id", values) == values
    assert column(Policy(), "user", values) == [None] * 4
    hashed = column(Policy({"message_id": "hash"}, KEY), "message_id", values)
    assert hashed[1] is None and hashed[0] == hashed[3] != hashed[2]
    assert hashed[0] == Policy({"message_id": "hash"}, KEY).written("message_id", "a")
    assert len(hashed[0] or "") == 32
    other = Policy({"message_id": "hash"}, b"another key of 16")
    assert column(other, "message_id", values)[0] != hashed[0]


def test_the_same_text_is_the_same_in_all_columns() -> None:
    policy = Policy({"message_id": "hash", "correlation_id": "hash"}, KEY)
    assert column(policy, "message_id", ["x"]) == column(policy, "correlation_id", ["x"])


def test_what_a_column_holds_that_is_made_of_a_personal_one() -> None:
    assert derived("last_holder", "clerk") == "clerk"
    assert (
        derived("description", json.dumps({"condition": "app:bad", "description": "no house 7"}))
        == "no house 7"
    )
    assert derived("description", json.dumps({"condition": "app:bad"})) is None
    assert derived("description", "not JSON") is None


def test_of_a_reason_only_the_words_are_withheld() -> None:
    reason = json.dumps({"condition": "c", "description": "Mrs Smith said no", "report": 7})
    dropped = column(Policy({"reason": "drop"}), "reason", [reason])[0]
    assert json.loads(dropped or "") == {"condition": "c", "report": 7}
    hashed = json.loads(column(Policy({"reason": "hash"}, KEY), "reason", [reason])[0] or "")
    assert hashed["report"] == 7 and hashed["description"] not in ("Mrs Smith said no", None)
    assert column(Policy({"reason": "drop"}), "reason", ["not JSON"]) == [None]


def test_every_column_of_text_is_decided_on() -> None:
    """A new column of events is either named in the policy or is known to be nobody's."""
    nobodys = {
        "ledger_id", "record", "queue", "event", "from_state", "to_state", "outcome", "causes", "holder_kind",
        "channel", "luwid", "origin_ledger_id",
    }  # fmt: skip
    texts = {field.name for field in EVENTS_SCHEMA if pa.types.is_string(field.type)}
    assert texts - nobodys == set(DEFAULT)


def test_every_text_of_every_table_is_decided_on() -> None:
    """What tables have under names of their own is personal, too, if it is made of what is."""
    nobodys = {
        "ledger_id", "record", "queue", "event", "from_state", "to_state", "outcome", "causes", "holder_kind",
        "channel", "luwid", "origin_ledger_id", "state", "delay_causes", "arrival_event", "last_event",
        "decision", "began_event", "ended_event", "ended_state", "last_holder_kind", "rule", "condition",
        "queue_manager", "direction", "last_luwid",
    }  # fmt: skip
    schemas = [definition.schema for definition in DEFINITIONS.values() if definition.personal is None]
    texts = {field.name for schema in schemas for field in schema if pa.types.is_string(field.type)}
    assert texts - nobodys == set(personal_columns(texts))
    acts = DEFINITIONS["acts"]
    texts = {field.name for field in acts.schema if pa.types.is_string(field.type)}
    things = {"ledger_id", "operation", "type", "name"}
    assert texts - things == {*ACTOR, *ACT_WORDS}, "who, and what is dropped where that is withheld"
    assert acts.personal == dict.fromkeys(ACTOR, "act")
    assert personal_columns(["description", "queue", "user"]) == {"description": "reason", "user": "user"}


def test_mistakes_are_told() -> None:
    with pytest.raises(PolicyError, match="no column"):
        Policy({"queue": "drop"})
    with pytest.raises(PolicyError, match="none of keep, hash, drop"):
        Policy({"user": "burn"})
    with pytest.raises(PolicyError, match="needs a key of at least 16 bytes"):
        Policy({"user": "hash"}, b"short")


def test_the_mark_tells_keys_apart_and_a_key_is_never_shown() -> None:
    assert Policy().key_mark == ""
    assert Policy({}, KEY).key_mark != Policy({}, KEY + b"x").key_mark
    assert "0123" not in repr(Policy({}, KEY))


@pytest.mark.parametrize("name", ["alice", "jürgen", 'a "b" \\ c', "名前"])
def test_an_act_is_cleared_of_whoever_it_was(name: str) -> None:
    act = json.dumps({"user": name, "container": "c", "status": 403}, ensure_ascii=False)
    cleared = without_actor(act, name)
    assert cleared is not None and json.loads(cleared) == {"user": None, "container": "c", "status": 403}
    assert without_actor(act, "bob") == act
