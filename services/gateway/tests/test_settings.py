"""Options are checked before anything starts, and refused in plain words."""

import pytest
from click.testing import CliRunner

from leadsman_gateway.__main__ import main
from leadsman_gateway.settings import SizeType, parse_attributes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "where volumes are known from"),
        (("--manifests", ".", "--in-cluster"), "where volumes are known from"),
        (("--manifests", "no-such-folder"), "does not exist"),
        (("--manifests", ".", "--max-body", "lots"), "is not a size"),
        (("--manifests", ".", "--max-body", "0"), "more than 0"),
        (("--manifests", ".", "--deadline", "800"), "is not a duration"),
        (("--manifests", ".", "--deadline", "0s"), "more than 0s"),
        (("--manifests", ".", "--filter", "filter:0"), "cannot be connected to"),
        (("--manifests", ".", "--scorer", ":9301"), "cannot be connected to"),
        (("--manifests", ".", "--nats-url", "notaurl::::"), "not the address of a NATS server"),
        (("--manifests", ".", "--nats-creds", "nothing.creds"), "does not exist"),
        (("--manifests", ".", "--backend-attribute", "nfs"), "is not DRIVER=ATTRIBUTE"),
        (("--manifests", ".", "--filter", "filter"), "is not HOST:PORT"),
        (("--manifests", ".", "--on-failure", "panic"), "is not one of"),
    ],
)
def test_bad_options_are_refused_in_plain_words(options, words):
    """Exit code 2 and a sentence that shows what was expected."""
    done = CliRunner().invoke(main, options)

    assert done.exit_code == 2
    assert words in done.output


@pytest.mark.parametrize(
    ("text", "size"), [("512", 512), ("7B", 7), ("4KiB", 4096), ("64MiB", 64 << 20), ("1GiB", 1 << 30)]
)
def test_sizes_are_read_in_binary_units(text, size):
    """64MiB is what operators write; a bare number is bytes."""
    assert SizeType().convert(text, None, None) == size


def test_last_attribute_of_a_driver_counts():
    """As with every repeated option; `=` may stand in the attribute."""
    assert parse_attributes(["a.csi=server", "b.csi=x=y", "a.csi=share"]) == {"a.csi": "share", "b.csi": "x=y"}
