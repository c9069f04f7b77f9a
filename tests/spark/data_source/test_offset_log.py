"""What a checkpoint of Spark's says, wherever it lies, and whether its sources have names."""

from pathlib import Path

import pytest

from postroom.spark.data_source.offset_log import (
    Checkpoint,
    CheckpointUnreadable,
    SourceOffset,
    _as_pyarrow_calls_it,
)


@pytest.fixture
def batches(tmp_path: Path) -> Path:
    folder = tmp_path / "check point"
    (folder / "offsets").mkdir(parents=True)
    (folder / "offsets" / "3").write_text('v2\n{}\norders:{"a":1}\nother:-')
    (folder / "offsets" / "4").write_text('v1\n{}\n{"a":1}\n-')
    (folder / "offsets" / "6").write_text("v1\n{}")
    return folder


def test_offsets_of_sources_with_names_have_these_before_them(batches: Path) -> None:
    checkpoint = Checkpoint(str(batches))
    assert checkpoint.offsets(3) == [SourceOffset("orders", '{"a":1}'), SourceOffset("other", "-")]
    assert checkpoint.offsets(4) == [SourceOffset("0", '{"a":1}'), SourceOffset("1", "-")]
    assert checkpoint.offsets(5) is None
    with pytest.raises(CheckpointUnreadable, match=r"offsets/6 of checkpoint .* is cut off: restore"):
        checkpoint.offsets(6)


def test_a_checkpoint_is_named_as_spark_names_it(batches: Path) -> None:
    for location in (batches.as_uri(), f"file:{batches}"):
        assert Checkpoint(location).has("offsets/3")
    assert _as_pyarrow_calls_it("s3a://bucket/at") == "s3://bucket/at"
