"""Planted bugs in what makes a ledger's verdict true, and in what heals a full disk; found by their tests."""

from tests.simulation.mutation import Mutation

DAMAGE = "tests/damage/test_ledgers.py"
ACTS = "tests/ledger/retention/test_acts.py"
FULL_DISK = "tests/ledger/test_full_disk.py"
UNITS = "tests/manager/queues/test_units_of_order.py"


def _found_by(test: str, path: str, old: str, new: str) -> Mutation:
    return Mutation(path, old, new, (test,))


INTEGRITY_MUTATIONS: dict[str, Mutation] = {
    "drop-of-history-not-recorded": _found_by(
        "tests/ledger/retention/test_retention.py",
        "ledger/upkeep/maintenance.py",
        "        self._acts.drops_history(last_position)\n",
        "",
    ),
    "acts-go-with-their-history": _found_by(
        ACTS,
        "ledger/upkeep/kept_acts.py",
        "                self._append(chunk)\n",
        "                pass\n",
    ),
    "acts-go-before-they-are-durable": _found_by(
        ACTS,
        "ledger/upkeep/kept_acts.py",
        "        handle.sync()\n",
        "",
    ),
    "end-of-acts-not-checked": _found_by(
        ACTS,
        "ledger/storage/acts_files.py",
        "if through < superblock.acts_through:",
        "if False:",
    ),
    "newest-file-not-vouched-for": _found_by(
        f"{DAMAGE}::test_damaged_files_are_refused_by_all_or_excused[newest journal]",
        "ledger/storage/superblock.py",
        "replace(self.current, newest_file=end.file_number, end=end, is_closed=True)",
        "replace(self.current, end=end, is_closed=True)",
    ),
    "end-of-the-ledger-not-checked": _found_by(
        f"{DAMAGE}::test_damaged_files_are_refused_by_all_or_excused[newest journal]",
        "ledger/storage/completeness.py",
        "if end.file_number == newest and not has(end):",
        "if False:",
    ),
    "missing-history-taken-for-dropped": _found_by(
        f"{DAMAGE}::test_the_three_that_were_seen_are_refused_by_all",
        "ledger/storage/completeness.py",
        "if first_position > superblock.first_position:",
        "if first_position < superblock.first_position:",
    ),
    "history-read-unchecked": _found_by(
        f"{DAMAGE}::test_the_three_that_were_seen_are_refused_by_all",
        "ledger/storage/events_image.py",
        "check = identity is None or identity not in _VERIFIED",
        "check = False",
    ),
    "missing-bodies-not-noticed": _found_by(
        f"{DAMAGE}::test_the_three_that_were_seen_are_refused_by_all",
        "ledger/recovery/recovery.py",
        "    check_bodies(disk, found.bodies, pieces, images.number_of)\n",
        "",
    ),
    "audit-without-the-check": _found_by(
        f"{DAMAGE}::test_the_three_that_were_seen_are_refused_by_all",
        "spark/places/folder.py",
        "        return check(self.folder)",
        '        return Covered("", 0, 0, 0, 0, 0)',
    ),
    "full-journal-never-sealed": _found_by(
        f"{FULL_DISK}::test_what_was_consumed_makes_room_by_itself",
        "ledger/storage/journal.py",
        "return (over or self._is_early(idle)) and self._has_room_for_next()",
        "return False",
    ),
    "history-fills-the-disk": _found_by(
        f"{FULL_DISK}::test_it_goes_on_for_ever",
        "ledger/upkeep/maintenance.py",
        "return self._is_thrifty and self._disk.free_bytes() < room",
        "return False",
    ),
    "failed-sealing-not-taken-up": _found_by(
        f"{FULL_DISK}::test_no_space_at_any_operation_harms_nothing",
        "ledger/upkeep/maintenance.py",
        "if name not in self._disk.names():",
        "if False:",
    ),
    "delayed-child-in-no-unit": _found_by(
        f"{UNITS}::test_a_delayed_member_that_is_moved_is_a_member_there",
        "manager/undeliverable/child_entries.py",
        "    if queue.units is not None:\n        queue.units.come(child)\n    if causes != 0:\n"
        "        add_delayed(core, child, causes, due_us)\n        return\n",
        "    if causes != 0:\n        add_delayed(core, child, causes, due_us)\n        return\n"
        "    if queue.units is not None:\n        queue.units.come(child)\n",
    ),
    "locked-members-not-asked-about": _found_by(
        f"{UNITS}::test_members_that_a_lock_held_when_units_were_read_after_a_restart_keep_their_order",
        "manager/consuming/unit_turns.py",
        "for index in range(chunk.count):",
        "for index in [at for at in range(chunk.head, chunk.count) if not chunk.is_dead(at)]:",
    ),
    "checkpoint-waits-for-room": _found_by(
        f"{FULL_DISK}::test_a_checkpoint_without_room_takes_the_place_of_the_spare_one",
        "ledger/upkeep/maintenance.py",
        "if not self.space_short or not self._gives_up_spare():",
        "if True:",
    ),
    "member-keeps-its-time-of-birth": _found_by(
        f"{UNITS}::test_a_member_that_was_born_and_waits_for_its_turn_waits_for_no_time_after_a_restart",
        "manager/queues/placement.py",
        "    entry.due_us = 0\n    step(core, entry, n.EVENT_DELAY, 0, 0, None, n.ORDERED)\n",
        "    step(core, entry, n.EVENT_DELAY, 0, 0, None, n.ORDERED)\n    entry.due_us = 0\n",
    ),
    "unreadable-body-taken-for-damaged": _found_by(
        "tests/manager/queues/test_backlog.py::test_an_entry_whose_body_the_disk_does_not_give_waits_and_is_asked_for_again",
        "manager/undeliverable/unreadable_bodies.py",
        "if not isinstance(damage, BodyUnreadable):",
        "if True:",
    ),
    "removed-lock-not-noticed": _found_by(
        "tests/crash/test_vanished_folder.py",
        "ledger/ledger.py",
        "        self._guarded(self._disk.check_hold)\n",
        "",
    ),
    "time-stands-still": _found_by(
        "tests/server/test_clock.py",
        "server/clock.py",
        "        return wall_us + self.ahead_us\n",
        "        return wall_us\n",
    ),
    "events-of-tables-not-summed": _found_by(
        "tests/spark/damage/test_table_damages.py",
        "spark/audit/tables.py",
        "if has != had:",
        "if False:",
    ),
    "tables-have-no-floor": _found_by(
        "tests/spark/damage/test_table_damages.py",
        "spark/audit/tables.py",
        "            if at < position:\n",
        "            if at < 0:\n",
    ),
    "cut-off-audit-leaves-a-verdict": _found_by(
        "tests/cli/spark/test_audit.py::test_an_audit_that_is_cut_off_leaves_no_verdict_of_the_one_before",
        "spark/audit/command.py",
        "(options.out / RESULT_FILE).unlink(missing_ok=True)",
        "pass",
    ),
    "gone-back-taken-for-held": _found_by(
        "tests/simulation/test_simulation.py::test_seeds_that_once_failed[3268]",
        "server/links/xa_context.py",
        "return isinstance(entry.owner, Consumer) and int(entry.held_since) == since",
        "return isinstance(entry.owner, Consumer)",
    ),
    "outcome-on-a-detached-link-dropped": Mutation(
        "server/connection/binding.py",
        "                link.context = bound  # while its session lives, outcomes are still said on it\n",
        "                pass\n",
        ("tests/server/links/test_detached_links.py",),
    ),
    "resumed-outcome-not-applied": Mutation(
        "server/links/outgoing_link.py",
        "                self._settle_safely(resumed.outcome, resumed.entry, now_us)\n",
        "                pass\n",
    ),
    "only-whole-superblock-written-first": _found_by(
        "tests/ledger/storage/test_superblock.py",
        "ledger/storage/superblock.py",
        "return sorted(sequences, key=lambda at: sequences[at])",
        "return list(COPY_OFFSETS)",
    ),
    "late-outcome-spoils-nothing": _found_by(
        "tests/server/links/test_detached_links.py",
        "server/kernel/connection_state.py",
        "            self.broker.manager.spoil(transaction, what, now_us)\n",
        "            pass\n",
    ),
}
