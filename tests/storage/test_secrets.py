"""References to secrets: found, or one line that says what to do and shows no secret."""

import pytest

from memory.errors import ConfigError
from storage.secrets import read_secret


def test_from_the_environment_and_from_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("STRATA_SECRET_OF_A_TEST", " hush \n")
    assert read_secret("env:STRATA_SECRET_OF_A_TEST") == "hush"
    (tmp_path / "secret").write_text("秘密\n")
    assert read_secret(f"file:{tmp_path}/secret") == "秘密"


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("env:STRATA_NOT_SET_ANYWHERE", "is not set"),
        ("file:/nowhere/at/all", "cannot be read (No such file or directory)"),
        ("file:{folder}", "cannot be read"),
        ("file:{folder}/empty", "is empty"),
        ("file:{folder}/binary", "is not UTF-8"),
        ("file:{folder}/large", "is over 65536 bytes"),
        ("env:", "write a reference"),
        ("file:", "write a reference"),
        ("", "write a reference"),
        ("hunter2", "write a reference"),
        ("vault:hunter2", "write a reference"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_shown(tmp_path, reference, says):
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "binary").write_bytes(b"hunter2\xff")
    (tmp_path / "large").write_text("hunter2" * 10_000)
    with pytest.raises(ConfigError) as refused:
        read_secret(reference.format(folder=tmp_path), "secrets.pepper")
    assert says in str(refused.value)
    assert "hunter2" not in str(refused.value)
