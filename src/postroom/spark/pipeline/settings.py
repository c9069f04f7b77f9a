"""The settings that stay with the tables, held against what a run is told."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from postroom.spark.pipeline.errors import SettingsConflict
from postroom.spark.pipeline.options import PipelineOptions, Settings, load_settings
from postroom.spark.pipeline.root import Root
from postroom.spark.places.place import Seen
from postroom.spark.store.formats import DEFAULT_FORMAT, open_store
from postroom.spark.store.protocol import SETTINGS_FILE
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.policy import Policy


def settled_options(root: Root, options: PipelineOptions) -> PipelineOptions:
    """The options with what the tables were made with; writes it down. Raises ``SettingsConflict``."""
    before = load_settings(root)
    if before is not None:
        options = replace(
            options, format=options.format or before.format, only=options.only or _tables(before)
        )
        _check(root, before, options)
    options = replace(options, format=options.format or DEFAULT_FORMAT)
    now = settings_of(options)
    if now != before:
        root.note(SETTINGS_FILE, msgspec.to_builtins(now))
    return options


def _tables(before: Settings) -> tuple[str, ...]:
    """Those that there are; where these were all that the program knew, with those that it knows now."""
    new = set(DEFINITIONS) - set(before.known)
    return tuple(before.tables if set(before.known) - set(before.tables) else [*before.tables, *new])


def check_options(options: PipelineOptions) -> None:
    """Whether there are such tables, in such a format, at such a place. Raises ``TableError``,
    ``SettingsConflict``."""
    for name in options.names:
        open_store(options.tables, name, options.format)


LEDGERS_FILE: Final = "ledgers.json"


def note_ledgers(root: Root, seen: Mapping[str, Seen]) -> None:
    """Write down which ledger was read where, beside those noted before."""
    before = ledger_uris(root)
    now = before | {ledger_id: one.place.uri for ledger_id, one in seen.items()}
    if now != before:
        root.note(LEDGERS_FILE, {"ledgers": now})


def ledger_uris(root: Root) -> dict[str, str]:
    """Where each ledger of the tables was read last, by ledger id. Raises ``PipelineError``: what was noted
    is damaged."""
    noted = root.noted(LEDGERS_FILE)
    return {} if noted is None else dict(noted["ledgers"])


def ledger_names(tables: str) -> dict[str, str]:
    """What people call the ledgers of the tables, by ledger id: the last part of where they are read."""
    return {
        ledger_id: uri.rstrip("/").rsplit("/", 1)[-1] for ledger_id, uri in ledger_uris(Root(tables)).items()
    }


def settings_of(options: PipelineOptions) -> Settings:
    """What is written down of a run's options."""
    policy = options.policy
    names, data = list(options.names), list(options.data)
    return Settings(options.format, names, data, _actions(policy), policy.key_mark, tuple(DEFINITIONS))


def check_policy(root: Root, settings: Settings, policy: Policy) -> None:
    """Raises ``SettingsConflict`` if the tables were made with another policy or key."""
    before = _actions(Policy()) | settings.policy  # of columns that weren't yet, as by default
    if (before, settings.key_mark) != (_actions(policy), policy.key_mark):
        raise SettingsConflict(
            f"{root.uri}: these tables were made with another policy or key for personal data: what is"
            " written would not match. Give the same, or name another folder"
        )


def _actions(policy: Policy) -> dict[str, str]:
    return {name: str(action) for name, action in policy.actions.items()}


def _check(root: Root, before: Settings, options: PipelineOptions) -> None:
    if before.format != options.format:
        raise SettingsConflict(
            f"{root.uri}: these tables are of format {before.format}, not {options.format}; leave --format"
            " out, or name another folder"
        )
    check_policy(root, before, options.policy)
