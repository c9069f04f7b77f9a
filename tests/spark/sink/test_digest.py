"""Which batch a batch is: by the offsets of the checkpoint's log, and the files that a source names."""

from pathlib import Path

import pytest

from postroom.spark.sink.digest import CUT, MAX_OFFSETS_BYTES, offsets_of
from postroom.spark.sink.errors import SinkError


def log(folder: Path, batch_id: int, *offsets: str, at_ms: int = 1, version: str = "v1") -> None:
    path = folder / "offsets" / str(batch_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([version, f'{{"batchTimestampMs":{at_ms}}}', *offsets]))


def files(folder: Path, entry: int, *names: str, ending: str = "", source: str = "0") -> None:
    path = folder / "sources" / str(source) / f"{entry}{ending}"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f'{{"path":"{name}","timestamp":1,"batchId":{batch}}}' for batch, name in enumerate(names)]
    path.write_text("\n".join(["v1", *(lines if ending else [lines[-1].replace(":0}", f":{entry}}}")])]))


def test_times_of_planning_do_not_count(tmp_path: Path) -> None:
    log(tmp_path, 0, '{"x":1}', "-", at_ms=1)
    first = offsets_of(str(tmp_path), 0)
    log(tmp_path, 0, '{"x":1}', "-", at_ms=2)
    assert offsets_of(tmp_path.as_uri(), 0) == first
    assert first.text == '{"x":1}\n-'
    log(tmp_path, 0, '{"x":2}', "-")
    assert offsets_of(str(tmp_path), 0).digest != first.digest


def test_the_text_is_cut_and_the_digest_is_of_all(tmp_path: Path) -> None:
    long = "ä" * MAX_OFFSETS_BYTES
    log(tmp_path, 0, long)
    log(tmp_path, 1, long + "1")
    first, second = offsets_of(str(tmp_path), 0), offsets_of(str(tmp_path), 1)
    assert first.text == second.text
    assert first.text.endswith(CUT)
    assert len(first.text.encode()) <= MAX_OFFSETS_BYTES
    assert first.digest != second.digest


def test_of_a_source_of_files_the_files_count(tmp_path: Path) -> None:
    log(tmp_path, 0, '{"logOffset":0}')
    log(tmp_path, 1, '{"logOffset":1}')
    files(tmp_path, 0, "a")
    files(tmp_path, 1, "b")
    first = offsets_of(str(tmp_path), 1)
    files(tmp_path, 1, "c")
    assert offsets_of(str(tmp_path), 1).digest != first.digest
    files(tmp_path, 1, "b")
    assert offsets_of(str(tmp_path), 1) == first
    files(tmp_path, 1, "a", "b", ending=".compact")
    (tmp_path / "sources/0/1").unlink()
    assert offsets_of(str(tmp_path), 1) == first, "entries that were put together say the same"


def test_a_batch_may_have_several_entries_of_files(tmp_path: Path) -> None:
    """Those between it and the batch before."""
    log(tmp_path, 0, "-", '{"logOffset":0}')
    log(tmp_path, 1, "-", '{"logOffset":2}')
    for entry in range(3):
        files(tmp_path, entry, f"f{entry}", source="1")
    first = offsets_of(str(tmp_path), 1)
    files(tmp_path, 1, "other", source="1")
    assert offsets_of(str(tmp_path), 1).digest != first.digest
    files(tmp_path, 1, "f1", source="1")
    files(tmp_path, 0, "other", source="1")
    assert offsets_of(str(tmp_path), 1) == first, "that of the batch before doesn't count"


def test_of_a_source_with_a_name_the_files_count(tmp_path: Path) -> None:
    """Its folder has that name; `2` is no index."""
    log(tmp_path, 0, 'other:{"x":1}', '2:{"logOffset":0}', version="v2")
    files(tmp_path, 0, "a", source="2")
    first = offsets_of(str(tmp_path), 0)
    assert first.text == '{"x":1}\n{"logOffset":0}'
    files(tmp_path, 0, "b", source="2")
    assert offsets_of(str(tmp_path), 0).digest != first.digest


@pytest.mark.parametrize(
    ("checkpoint", "text"),
    [
        ("{folder}/nowhere", 'checkpoint .*nowhere has no offsets of batch 0.*option "checkpoint"'),
        ("nothing://x", 'checkpoint nothing://x can\'t be read.*option "checkpoint"'),
        ("{folder}/empty", "offsets/0 of checkpoint .* is cut off"),
    ],
)
def test_a_checkpoint_that_can_not_be_read(tmp_path: Path, checkpoint: str, text: str) -> None:
    log(tmp_path / "empty", 0)
    with pytest.raises(SinkError, match=text):
        offsets_of(checkpoint.format(folder=tmp_path), 0)
