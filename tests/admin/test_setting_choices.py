"""Settings whose values can be listed."""

from __future__ import annotations

import pytest

from kshare.admin.setting_choices import choices_of
from kshare.broker.settings import GROUP_SETTINGS, Setting, SettingType


@pytest.mark.parametrize("setting", GROUP_SETTINGS, ids=lambda setting: setting.name)
def test_all_that_have_few_values_are_listed(setting: Setting) -> None:
    expected = ("true", "false") if setting.kind is SettingType.BOOLEAN else setting.choices
    if setting.name != "share.auto.offset.reset":
        assert choices_of(setting.name, setting.default) == expected


@pytest.mark.parametrize(
    ("name", "value", "choices"),
    [
        ("share.auto.offset.reset", "by_duration:PT1H", ("earliest", "latest")),
        ("share.some.day", "false", ("true", "false")),
        ("share.isolation.level", "of_a_newer_kind", ()),
    ],
)
def test_what_newer_brokers_have_is_not_left_out(name: str, value: str, choices: tuple[str, ...]) -> None:
    assert choices_of(name, value) == choices
