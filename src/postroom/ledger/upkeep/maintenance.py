"""What the ledger does beside the broker: sealing, checkpoints, compaction, letting history go.

Each `Maintenance.step` is one piece of work that leaves the folder in a state from which recovery goes on,
whenever the process ends. A thread runs the steps, or the owner does (``maintenance="manual"``).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from postroom.ledger.errors import LedgerCorrupt, LedgerFailed
from postroom.ledger.fold.carried_arrivals import carry, forget_unneeded, live_count
from postroom.ledger.fold.checkpoint import load_checkpoint, write_checkpoint
from postroom.ledger.fold.fold import fold_image, prune_chunks
from postroom.ledger.fold.retained_bodies import NOTHING_RETAINED
from postroom.ledger.fold.state import FileSpan, FoldState
from postroom.ledger.format.file_names import bodies_name, checkpoint_name, events_name, journal_name
from postroom.ledger.format.headers import Seal
from postroom.ledger.options import LedgerOptions
from postroom.ledger.recovery.recovery import Images
from postroom.ledger.retention.kept_history import Held, Keep, whole_since
from postroom.ledger.storage.acts_files import ActsFile
from postroom.ledger.storage.bodies import BodyStore
from postroom.ledger.storage.body_file import BodyFile, JournalBodies, PackedBodies, SealedBodies
from postroom.ledger.storage.disk import Disk, is_no_space
from postroom.ledger.storage.events_image import (
    EventsImage,
    build_image,
    encode_image,
    load_image,
    write_durably,
)
from postroom.ledger.storage.journal_scan import scan_journal
from postroom.ledger.storage.superblock import SuperblockFile
from postroom.ledger.upkeep.compaction import (
    Inspected,
    LiveBodies,
    Run,
    held_by_leases,
    note_rewritten,
    plan,
    rewrite,
    was_let_go,
)
from postroom.ledger.upkeep.kept_acts import KeptActs

KEPT_CHECKPOINTS: Final = 2
"""The newest, and the one before in case it is damaged."""

THRIFTY_BELOW: Final = 0.9
"""While the disk runs short, a file of bodies is rewritten when less than this share of it is live."""

RETRY_US: Final = 1_000_000
"""While the disk runs short, what found no space is tried again so often."""

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
"""What has failed by anything but a full disk is tried again after pauses that double."""

BATCH_ROWS_BESIDE: Final = 1 << 15
"""Changes folded at a time beside the broker: numpy keeps the interpreter for a step, so steps are short."""

_LOG: Final = logging.getLogger(__name__)


class Pending(NamedTuple):
    """A journal that has a successor and is to be sealed."""

    number: int
    seal: Seal


class Sealed(NamedTuple):
    """An events file of the history."""

    span: FileSpan
    size_bytes: int
    last_time_us: int


class Kept(NamedTuple):
    """A durable checkpoint and what depends on it."""

    position: int
    file_number: int
    needs: frozenset[int]
    size_bytes: int


class Written(NamedTuple):
    """A checkpoint that has become durable, as the ledger records it."""

    position: int
    size_bytes: int
    header_crc: int


class Round(NamedTuple):
    """A fold whose checkpoint is durable, for as long as its compaction goes on."""

    state: FoldState
    images: Images
    live: LiveBodies


class Maintenance:
    """The ledger's background work, for one runner; `roll` and `stop` may be called by other threads."""

    def __init__(
        self,
        disk: Disk,
        options: LedgerOptions,
        store: BodyStore,
        keep: Keep,
        superblock: SuperblockFile,
        on_fold: Callable[[FoldState], None] | None = None,
    ) -> None:
        """`on_fold` sees the state of each checkpoint before anything goes by it."""
        self._disk = disk
        self._on_fold: Final = on_fold
        self._options = options
        self._store = store
        self._keep = keep
        self._superblock = superblock
        self._ledger_id = superblock.current.ledger_id
        self._acts: Final = KeptActs(disk, options, superblock)
        self._pending: list[Pending] = []
        self._history: list[Sealed] = []
        self._checkpoints: list[Kept] = []
        self._round: Round | None = None
        self._inspected: dict[str, Inspected] = {}
        self._replaced: list[str] = []
        """Files of bodies that are to be removed."""
        self._wake = threading.Event()
        self._stopping = False
        self._working = False
        """A journal is being sealed, or what follows from that is not done."""
        self._thread: threading.Thread | None = None
        self._journal_waits = False
        self._is_thrifty = False
        """The disk runs short: no body stays that no live entry has, and no history that isn't needed."""
        self._recount_due = False
        """The disk has begun to run short: files that were dense enough before may be rewritten now."""
        self._retried_us = 0
        self._retains = False
        """By the last round bodies stay that no live entry has."""
        self.error: Exception | None = None
        """What the last piece of work failed by, which is tried again; no full disk."""
        self._failing_since_s = 0.0
        self._pause_s = FIRST_PAUSE_S
        self.failure: Exception | None = None
        """Why there is no background work any more: the process must end."""
        self.space_short = False
        """The last piece of work found no space."""
        self.written: deque[Written] = deque()
        """Checkpoints that are durable and not yet recorded; taken by the ledger."""

    def begin(
        self, history: list[int], checkpoints: list[int], acts: list[ActsFile], history_end: int
    ) -> None:
        """Take up the folder as recovery found it: sealed files, valid checkpoints, and files of acts.

        `history_end` is the first position that is in no sealed file.
        """
        for number in history:
            self._remember(load_image(self._disk, number))
        self._acts.begin(acts)
        for position in checkpoints:
            try:
                state = load_checkpoint(self._disk, position, self._ledger_id)
            except LedgerCorrupt:
                continue
            self._learn(state, self._disk.open(checkpoint_name(position)).size_bytes())
            self._retains = len(state.retained) > 0
        self._keep.reaches(self._events_gone(history_end), self._bodies_gone(history_end))

    def _events_gone(self, history_end: int) -> int:
        """The last position before the history that reaches to the end without a gap."""
        spans = [one.span for one in sorted(self._history)]
        joined = bool(spans) and spans[-1].last_position + 1 == history_end
        runs = [(span.number, span.number, span.first_position) for span in spans] if joined else []
        return whole_since(runs, history_end) - 1

    def _bodies_gone(self, history_end: int) -> int:
        """The last position before the bodies that are all there, dead ones too."""
        files = self._store.files()
        packed = [at for at, file in enumerate(files) if isinstance(file, PackedBodies)]
        files = files[packed[-1] + 1 :] if packed else files
        runs = [(file.first_file, file.last_file, file.first_position) for file in files]
        return whole_since(runs, history_end) - 1

    def roll(self, number: int, seal: Seal) -> None:
        """A journal has a successor: it can be sealed."""
        self._pending.append(Pending(number, seal))
        self._wake.set()

    def behind(self) -> bool:
        """Whether a journal waits while the one before isn't done with: writing outruns this."""
        return len(self._pending) > 1 or (len(self._pending) == 1 and self._working)

    def be_thrifty(self, thrifty: bool, journal_waits: bool, now_us: int) -> None:
        """The disk runs short: bodies of what has ended go soon, whatever their queues say, and history, the
        oldest first; or it does so no longer. ``journal_waits``: the journal can't be sealed before there is
        more room."""
        self._journal_waits = journal_waits
        if thrifty != self._is_thrifty:
            self._is_thrifty = self._recount_due = thrifty
            self._wake.set()
        if thrifty and not 0 <= now_us - self._retried_us < RETRY_US:
            self._retried_us = now_us
            self._wake.set()

    def _is_pressed(self) -> bool:
        """Whether what can go must go now: there isn't room for the reserve and for this work."""
        room = self._options.reserve_bytes + self._options.upkeep_bytes
        return self._is_thrifty and self._disk.free_bytes() < room

    def wake(self) -> None:
        """More may go than before."""
        self._wake.set()

    def start(self) -> None:
        """Run the steps in a thread of their own."""
        self._thread = threading.Thread(target=self._run, name="ledger-maintenance", daemon=True)
        self._wake.set()
        self._thread.start()

    def stop(self) -> None:
        """Let the step that runs end, and no other begin."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping and self.failure is None:
            self._wake.wait(None if self.error is None else self._pause_s)
            self._wake.clear()
            try:
                while not self._stopping and self.step():
                    self._succeeded()
                self._succeeded()
            except OSError as error:
                if is_no_space(error):
                    _LOG.warning("ledger maintenance waits for space: %s", error)
                else:
                    self._failed(error)
            except Exception as error:
                self.failure = error

    def _succeeded(self) -> None:
        if self.error is not None:
            self.error, self._pause_s = None, FIRST_PAUSE_S
            _LOG.warning("ledger maintenance goes on")

    def _failed(self, error: OSError) -> None:
        """A fault that may pass; not for ever, where files wait that nothing can follow."""
        now_s = time.monotonic()
        if self.error is None:
            self._failing_since_s = now_s
            _LOG.error("ledger maintenance has failed and is tried again: %s", error, exc_info=error)
        else:
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        self.error = error
        failing_s = now_s - self._failing_since_s
        if self.behind() and failing_s >= self._options.maintenance_failing_s:
            self.failure = LedgerFailed(f"background work has failed for {failing_s:.0f} s: {error}")

    def step(self) -> bool:
        """Do the next piece of work; whether there was any. A file is done with before the next is sealed."""
        try:
            found = self._step()
        except OSError as error:
            self.space_short = is_no_space(error)
            if not self.space_short or not self._gives_up_spare():
                raise
            return True
        self.space_short = False
        return found

    def _gives_up_spare(self) -> bool:
        """Whether there was a spare checkpoint, whose place what found no room may take, the journal's
        successor too: without the next checkpoint nothing that has ended gives its room back."""
        if len(self._checkpoints) < KEPT_CHECKPOINTS:
            return False
        self._remove_oldest_checkpoint()
        return True

    def _step(self) -> bool:
        if self._pending:
            self._superblock.rolled(self._pending[-1].seal)
        if self._remove_one():
            return True
        if self._round is not None:
            self._compact(self._round)
        elif self._checkpoint_due():
            self._make_checkpoint()
        elif self._checkpoints and self._more_may_go():
            self._round = self._newest_round()
        elif self._pending:
            self._seal_next()
        else:
            self._working = False
            return self._journal_waits and self._gives_up_spare()
        return True

    def _more_may_go(self) -> bool:
        """Whether a lease has let files go, or the disk has run short, since the last round."""
        has_retained = self._is_thrifty and self._retains
        return was_let_go(self._inspected, self._keep) or has_retained or self._recount_due

    def _seal_next(self) -> None:
        pending = self._pending.pop(0)
        self._working = True
        try:
            self._seal(pending)
        except OSError:  # tried again
            self._pending.insert(0, pending)
            raise

    def _seal(self, pending: Pending) -> None:
        name = journal_name(pending.number)
        if name not in self._disk.names():  # it was renamed, and then something failed
            self._take_sealed(pending.number)
            return
        data = memoryview(self._disk.open(name).view())
        scan = scan_journal(self._disk.describe(name), data, pending.seal)
        if scan is None:
            raise LedgerCorrupt(self._disk.describe(name), 0, "the file's header or dictionary is damaged")
        self.seal_image(build_image(scan, data))

    def seal_image(self, image: EventsImage) -> EventsImage:
        """Turn a journal into `.events` and `.bodies`; returns the image as read back."""
        number = image.file_number
        self._disk.trim(journal_name(number))
        write_durably(self._disk, events_name(number), encode_image(image))
        self._disk.rename(journal_name(number), bodies_name(number))
        return self._take_sealed(number)

    def _take_sealed(self, number: int) -> EventsImage:
        """A journal is `.events` and `.bodies` by now: make that durable, and know it so."""
        self._disk.sync_names()
        image = load_image(self._disk, number)
        old: list[BodyFile] = [
            file
            for file in self._store.files()
            if isinstance(file, JournalBodies) and file.first_file == number
        ]
        sealed = SealedBodies(self._disk, number, image.first_position, image.last_position)
        self._store.replace(old, [sealed])
        self._remember(image)
        return image

    def _remember(self, image: EventsImage) -> None:
        span = FileSpan(image.file_number, image.first_position, image.last_position)
        size = self._disk.open(events_name(image.file_number)).size_bytes()
        self._history.append(Sealed(span, size, image.last_time_us))

    def _learn(self, state: FoldState, size_bytes: int) -> None:
        needs = frozenset(span.number for span in state.needs)
        self._checkpoints.append(Kept(state.position, state.file_number, needs, size_bytes))

    def _checkpoint_due(self) -> bool:
        """Whether more bytes of events came than the last checkpoint has: it at most doubles the writing."""
        newest = self._checkpoints[-1] if self._checkpoints else Kept(0, 0, frozenset(), 0)
        since = sum(one.size_bytes for one in self._history if one.span.number > newest.file_number)
        return since > (0 if self._is_thrifty else newest.size_bytes)

    def _make_checkpoint(self) -> None:
        """The newest checkpoint and the files sealed since make the next."""
        state = FoldState()
        if self._checkpoints:
            state = load_checkpoint(self._disk, self._checkpoints[-1].position, self._ledger_id)
        images = Images(self._disk, state)
        for number in sorted(one.span.number for one in self._history):
            if number > state.file_number:
                fold_image(state, images.image(number), images.arrivals, BATCH_ROWS_BESIDE)
        forget_unneeded(state)
        prune_chunks(state, images.arrivals)
        if self._on_fold is not None:
            self._on_fold(state)
        self._retire(state, images)
        size_bytes, header_crc = write_checkpoint(self._disk, state, self._ledger_id)
        self._learn(state, size_bytes)
        self.written.append(Written(state.position, size_bytes, header_crc))
        self._round = self._round_of(state, images)

    def _newest_round(self) -> Round:
        """Compaction under the newest checkpoint once more: leases have let files go since."""
        state = load_checkpoint(self._disk, self._checkpoints[-1].position, self._ledger_id)
        return self._round_of(state, Images(self._disk, state))

    def _round_of(self, state: FoldState, images: Images) -> Round:
        if self._recount_due:
            self._recount_due = False
            self._inspected.clear()
        retained = NOTHING_RETAINED if self._is_thrifty else state.retained
        self._retains = len(retained) > 0
        source = partial(self._images_within, images)
        return Round(state, images, LiveBodies(state, images.arrivals, self._store, source, retained))

    def _images_within(self, images: Images, first: int, last: int) -> Iterator[EventsImage]:
        """The events files, as far as they are still there, with any of the positions first to last."""
        for one in sorted(self._history):
            if one.span.first_position <= last and first <= one.span.last_position:
                yield images.image(one.span.number)

    def _retire(self, state: FoldState, images: Images) -> None:
        """Take over the live arrivals of sparse files that the bound on history wants gone."""
        excess = self._excess(state.time_us)
        needed = {span.number for span in state.needs}
        retired = []
        for one in excess:
            image = images.image(one.span.number)
            live = live_count(state, one.span.number)
            if one.span.number in needed and live < self._options.carry_below * len(image.arrivals):
                retired.append(image)
        carry(state, retired)

    def _excess(self, now_us: int) -> list[Sealed]:
        """History beyond its bounds, oldest first."""
        over = sum(one.size_bytes for one in self._history) - self._options.retention_bytes
        if self._is_pressed():
            return sorted(self._history)
        horizon_us = now_us - self._options.retention_s * 1_000_000 if self._options.retention_s else 0
        excess = []
        for one in sorted(self._history):
            if over <= 0 and one.last_time_us >= horizon_us:
                break
            excess.append(one)
            over -= one.size_bytes
        return excess

    def _compact(self, round_: Round) -> None:
        """One rewrite or removal; ends the round when there is no more."""
        options, most = self._options, self._options.journal_file_bytes
        if self._is_thrifty:  # what is rewritten needs room beside it
            options = replace(options, compact_below=THRIFTY_BELOW)
            most = min(most, self._disk.free_bytes() // 2)
        through = round_.state.position
        run = plan(self._store, round_.live, through, options, self._inspected, self._keep, most)
        if run is None:
            self._round = None
            self._keep.count_bodies(held_by_leases(self._store, self._inspected))
            return
        new: list[BodyFile] = []
        if len(run.wants):
            new.append(rewrite(self._disk, self._ledger_id, run))
            note_rewritten(run, new[0], round_.live, self._inspected)
        self._replace(run, new)

    def _replace(self, run: Run, new: list[BodyFile]) -> None:
        self._store.replace(run.files, new)
        for file in run.files:
            self._inspected.pop(file.name(), None)
            self._replaced.append(file.name())
        self._remove_replaced()

    def _remove_replaced(self) -> None:
        """Files of bodies that others have taken the place of."""
        while self._replaced:
            self._disk.remove(self._replaced[-1])
            self._replaced.pop()
        self._disk.sync_names()

    def _remove_one(self) -> bool:
        """Remove a superseded checkpoint, files of old acts, or an events file that no kept checkpoint
        needs."""
        if self._replaced:  # something failed before they were gone
            self._remove_replaced()
            return True
        if len(self._checkpoints) > KEPT_CHECKPOINTS:
            self._remove_oldest_checkpoint()
            return True
        if self._acts.drop_old(self._now_us()):
            return True
        one = self._removable()
        if one is None:
            return False
        self._keep_acts(one.span.last_position)
        self._disk.remove(events_name(one.span.number))
        self._history.remove(one)
        self._disk.sync_names()
        return True

    def _keep_acts(self, last_position: int) -> None:
        """Put by the acts of history that goes, and of what is older and must stay: readers don't look behind
        a gap."""
        for one in sorted(self._history):
            if self._acts.through < one.span.last_position <= last_position:
                self._acts.keep(load_image(self._disk, one.span.number))
        self._acts.drops_history(last_position)

    def _now_us(self) -> int:
        """As far as the history tells."""
        return max((one.last_time_us for one in self._history), default=time.time_ns() // 1000)

    def _remove_oldest_checkpoint(self) -> None:
        self._disk.remove(checkpoint_name(self._checkpoints[0].position))
        self._checkpoints.pop(0)
        self._disk.sync_names()

    def _removable(self) -> Sealed | None:
        if len(self._checkpoints) < KEPT_CHECKPOINTS:
            return None
        covered = min(kept.file_number for kept in self._checkpoints)
        needed = frozenset().union(*(kept.needs for kept in self._checkpoints))
        held = []
        for one in self._excess(self._now_us()):
            if one.span.number <= covered and one.span.number not in needed:
                if self._keep.may_drop_events(one.span.last_position):
                    return one
                held.append(Held(one.span.last_position, one.size_bytes))
        self._keep.count_events(held)
        return None
