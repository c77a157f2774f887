"""Options check themselves and record what decides how a run is carried out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from signwise.errors import SignwiseError
from signwise.training import Options


@pytest.mark.parametrize(("name", "value"), [("threads", 0), ("checkpoint_minutes", -1.0)])
def test_an_option_outside_its_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(SignwiseError, match=f"{name} must be .*, got {value}"):
        Options(**{name: value})


def test_the_record_is_json_without_resume() -> None:
    record = json.loads(json.dumps(Options(data=Path("data"), resume=True, watch=("conv*",)).to_json()))
    assert record["data"] == "data" and record["watch"] == ["conv*"] and "resume" not in record


def test_a_resumed_run_keeps_the_recorded_arithmetic_and_names_each_setting_given_otherwise() -> None:
    recorded = {"threads": 3, "options": Options(bfloat16=True, compiled=True, deterministic=True).to_json()}
    options, notes = Options(resume=True, device="cpu").as_begun(recorded)
    assert (options.threads, options.bfloat16, options.compiled, options.deterministic) == (3, True, True, True)
    assert options.sync_batch_norm is False and options.device == "cpu" and not notes

    options, notes = Options(threads=2, bfloat16=False, compiled=True).as_begun(recorded)
    assert (options.threads, options.bfloat16, options.compiled) == (2, False, True)
    assert [note.partition(":")[0] for note in notes] == [
        "threads was 3 and is 2 now",
        "bfloat16 was True and is False now",
    ]
