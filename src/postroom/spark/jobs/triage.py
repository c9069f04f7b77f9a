"""Triage: the messages of a queue, decided by rules in Spark SQL."""

import re
from typing import Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import BooleanType, StructType

from postroom.manager.administration.message_jobs import DISCARD
from postroom.spark.jobs.contents import CONTENT_COLUMNS, with_contents
from postroom.spark.jobs.errors import RulesInvalid
from postroom.spark.jobs.plan_builder import KEPT_COLUMNS, RULE_COLUMN
from postroom.spark.jobs.queued_messages import (
    REASON_COLUMNS,
    STATE_COLUMNS,
    LedgerAtPosition,
    fields_of,
    queued_messages,
)
from postroom.spark.jobs.rules import Rule, Rules
from postroom.spark.messages.schema import EVENT_COLUMNS, FULL_SCHEMA, messages_struct

_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w+.*$", re.DOTALL)


def check_rules(spark: SparkSession, rules: Rules) -> None:
    """Whether Spark can make sense of every rule. Raises ``RulesInvalid``, with a line for each that it
    can't. They can speak of the columns of messages, and of how and why a message is there.
    """
    columns = {**STATE_COLUMNS, **REASON_COLUMNS}
    own = [field for field in messages_struct(FULL_SCHEMA).fields if field.name not in columns]
    empty = spark.createDataFrame([], StructType([*own, *fields_of(columns)]))
    wrong = [rules.line(rule, why) for rule in rules.rules if (why := _why_not(empty, rule))]
    if wrong:
        raise RulesInvalid("\n".join(wrong))


def _why_not(empty: DataFrame, rule: Rule) -> str:
    """Why Spark can make no sense of a rule; "" if it can."""
    try:
        kind = empty.select(F.expr(rule.when)).schema.fields[0].dataType
        if not isinstance(kind, BooleanType):
            return f"`when` is {kind.simpleString()}, must be boolean: {rule.when}"
        _ = empty.where(F.expr(rule.when)).schema
    except (AnalysisException, ParseException) as error:
        text = _SQL_STATE.sub("", str(error)).strip()
        return " ".join(text.split("\n== SQL", 1)[0].split())  # without the plan that it says it about
    return ""


def decided(
    spark: SparkSession, ledger: LedgerAtPosition, queue: str, rules: Rules, keeps: bool
) -> DataFrame:
    """The free messages of a queue, each with its rule, in the order of their places; `keeps`: with all that
    is kept of those that are discarded."""
    names = names_in(rules.rules)
    rows = queued_messages(spark, ledger, queue, bool(names & REASON_COLUMNS.keys())).where("is_free")
    rows = rows.drop("is_free").orderBy("position", "ordinal", "serial")
    contents = contents_for(names, keeps and DISCARD in rules.actions())
    rows = with_contents(rows, ledger.place(), ledger.ledger_id, contents)
    rows = rows.withColumns({"ledger_id": F.lit(ledger.ledger_id), "queue": F.lit(queue)})
    cases = [F.when(F.expr(rule.when), F.lit(number)) for number, rule in enumerate(rules.rules)]
    return rows.withColumn(RULE_COLUMN, F.coalesce(*cases).cast("int"))


def contents_for(names: set[str], keeps: bool) -> list[str]:
    """Which columns of messages must be read; `body_state` wherever any is."""
    wanted = names | set(KEPT_COLUMNS if keeps else ())
    found = [name for name in CONTENT_COLUMNS if name in wanted]
    if found and "body_state" not in found:
        found.append("body_state")
    return found


def names_in(rules: tuple[Rule, ...]) -> set[str]:
    """The columns that rules may speak of: every one whose name is a word in them."""
    words = {word.lower() for rule in rules for word in re.findall(r"\w+", rule.when)}
    known = {*CONTENT_COLUMNS, *EVENT_COLUMNS, *STATE_COLUMNS, *REASON_COLUMNS}
    return {name for name in known if name.lower() in words}
