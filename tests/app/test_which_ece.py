"""The Guide's section "Which ECE?": the loaded set's ECE by each convention."""

from __future__ import annotations

import sample_logits
import smart_core as sc
from smart_core.evaluation import DETAILS, metric_value
from smart_core.metrics.conventions import CONVENTIONS
from tests.app.driver import open_page


def test_every_convention_has_its_value() -> None:
    app = open_page("guide", topic="Which ECE")
    assert not app.exception
    assert "Which ECE?" in [header.value for header in app.header]
    (shown,) = [table.value for table in app.table if "its convention" in table.value]
    data = sc.load(sample_logits.path("digits"))
    model = sc.evaluate(sc.Vanilla().fit(data.validation.logits, data.validation.labels), data.test)
    assert shown["ECE"].to_dict() == {each.package: metric_value("ece", each.of(model, 10)) for each in CONVENTIONS}
    assert shown["ECE"]["this project"] == metric_value("ece", model.metric("ece"))
    (details,) = [table.value for table in app.table if list(table.value.index) == [d.label for d in DETAILS.values()]]
    assert details["what it means"].str.endswith(".").all()
