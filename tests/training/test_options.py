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
