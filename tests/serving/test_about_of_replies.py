"""What a reply says of its origin."""

import json

from labeltree.serving.service_replies import About


def test_the_mapping_of_a_model_on_another_version_is_said() -> None:
    given = {"model": "a", "labeltree": "1", "date": "", "asked": "", "taxonomy": "b"}
    assert json.loads(About(**given).model_dump_json()) == given
    on_new = given | {"mapping": "c"}
    assert json.loads(About.model_validate(on_new).model_dump_json()) == on_new
