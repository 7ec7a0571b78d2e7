"""Strict loading of YAML documents."""

from typing import Annotated, Literal

import msgspec
import pytest

from leadsman.config import DocumentError, load_document, parse_document
from leadsman.domain.errors import ConfigError


class Endpoint(msgspec.Struct, frozen=True):
    driver: str
    backend: str
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 2049

    def __post_init__(self) -> None:
        if self.backend == "forbidden":
            raise ValueError("the backend 'forbidden' may not be used")


class Document(msgspec.Struct, frozen=True):
    kind: Literal["Example"]
    mode: Literal["enforce", "shadow"] = "enforce"
    endpoints: list[Endpoint] = []
    drivers: dict[str, Endpoint] = {}
    note: str | None = None
    weight: float = 1.0
    limit: int | msgspec.UnsetType = msgspec.UNSET


def problems(text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        parse_document(text, Document, "example.yaml")
    return str(caught.value)


def test_a_valid_document_becomes_its_struct():
    """Every value ends up where the struct says, dates and whole numbers included."""
    text = "kind: Example\nnote: 2026-01-01\nweight: 2\nendpoints:\n- {driver: d, backend: b}\n"
    assert parse_document(text, Document, "example.yaml") == Document(
        kind="Example", endpoints=[Endpoint("d", "b")], note="2026-01-01", weight=2.0
    )


def test_an_unknown_key_names_file_line_path_and_the_nearest_key():
    """The whole sentence that a person needs to mend the file."""
    text = "kind: Example\nendpoints:\n  - driver: d\n    backend: b\n    prot: 1\n"
    assert problems(text) == (
        "example.yaml:5: endpoints[0].prot: unknown key; did you mean 'port'? (known: backend, driver, port)"
    )


def test_an_unknown_key_that_is_like_none_lists_the_known_ones():
    """No guess is better than a bad one."""
    words = problems("kind: Example\nzzzzzzzz: 1\n")
    assert words.endswith("unknown key; known: drivers, endpoints, kind, limit, mode, note, weight")


def test_a_duplicate_key_is_refused_with_both_lines():
    """YAML would silently keep the last one."""
    text = "kind: Example\nmode: shadow\nmode: enforce\n"
    assert problems(text) == "example.yaml:3: mode: duplicate key; it is set on line 2 already"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: Example\nnote: 5\n", ":2: note: expected text, got a whole number (5); put it in quotes"),
        ("kind: Example\nnote: yes\n", ":2: note: expected text, got true or false (True); put it in quotes"),
        ("kind: Example\nweight: heavy\n", ":2: weight: expected a number, got the text 'heavy'"),
        ("kind: Example\nendpoints: {}\n", ":2: endpoints: expected a list, got a mapping of keys to values"),
        ("kind: Example\nendpoints: [a]\n", ":2: endpoints[0]: expected a mapping of keys to values, got the text 'a'"),
        ("kind: Example\ndrivers: []\n", ":2: drivers: expected a mapping of keys to values, got a list"),
        ("- kind\n", ":1: expected a mapping of keys to values, got a list"),
        ("mode: shadow\n", ":1: missing key kind"),
        ("kind: Exmple\n", ":1: kind: 'Exmple' is not possible here; did you mean 'Example'? (known: Example)"),
        ("kind: Example\nmode:\n", ":2: mode: expected one of enforce, shadow, got nothing"),
        ("kind: Example\nlimit:\n", ":2: limit: expected a whole number, got nothing"),
    ],
)
def test_a_wrong_type_is_named(text, expected):
    """What was expected, what was found, and where."""
    assert problems(text) == "example.yaml" + expected


def test_a_key_with_dots_is_quoted_in_paths():
    """Driver names contain dots; the path must still be readable."""
    text = "kind: Example\ndrivers:\n  nfs.csi.k8s.io:\n    driver: d\n    backnd: b\n"
    assert 'example.yaml:5: drivers."nfs.csi.k8s.io".backnd: unknown key' in problems(text)


def test_all_problems_are_reported_at_once_in_file_order():
    """Nobody should have to run the program once per mistake."""
    lines = problems("kind: Example\nmod: shadow\nnote: 5\nendpoints:\n- driver: d\n").splitlines()
    assert [line.split(":")[1] for line in lines] == ["2", "3", "5"]


def test_bounds_and_own_checks_of_a_struct_name_their_place():
    """What only the struct knows is still told with its line."""
    text = "kind: Example\nendpoints:\n- driver: d\n  backend: b\n  port: 0\n"
    assert problems(text) == "example.yaml:5: endpoints[0].port: Expected `int` >= 1"
    text = "kind: Example\nendpoints:\n- driver: d\n  backend: forbidden\n"
    assert problems(text) == "example.yaml:3: endpoints[0]: the backend 'forbidden' may not be used"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the file is empty"),
        ("a: [1\nb: 2\n", "not YAML"),
        ("kind: Example\n---\nkind: Example\n", "not YAML"),
        ("kind: &a Example\nnote: *a\n", "an alias (*name) is not supported"),
        ("kind: Example\n<<: {mode: shadow}\n", "a merge key (<<) is not supported"),
        ("kind: !!python/name:os.system x\n", "the tag"),
        ("kind: Example\n1: 2\n", "the key '1' is not read as text; put it in quotes"),
        ("kind: Example\n? [a]\n: 1\n", "a key must be text"),
        ("note: " + "[" * 200 + "]" * 200, "nested deeper than 32 levels"),
        ("note: " + "[" * 5000 + "]" * 5000, "nested deeper than 32 levels"),
        ("kind: Example\nnote: \x00\n", "not YAML"),
        ('kind: Example\nnote: "\\ud800"\n', r"'\ud800' has half of a surrogate pair"),
        ('kind: Example\n"\\ud800": 1\n', r"the key '\ud800' has half of a surrogate pair"),
        ("kind: Example\nweight: 0x" + "f" * 6000, "'" + "0x" + "f" * 38 + "' cannot be read as int"),
        ("kind: Example\nweight: 9223372036854775808", "'9223372036854775808' cannot be read as int"),
        ("kind: Example\nweight: !!int ''", "'' cannot be read as int"),
        ("kind: Example\nweight: !!bool maybe", "'maybe' cannot be read as bool"),
    ],
)
def test_yaml_that_reads_differently_than_it_looks_is_refused(text, expected):
    """Aliases, merges, tags, several documents and odd keys are errors, not surprises."""
    assert expected in problems(text)


def test_a_missing_or_binary_file_is_a_config_error(tmp_path):
    """The message names the file; no traceback reaches the user."""
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read: No such file"):
        load_document(tmp_path / "absent.yaml", Document)
    (tmp_path / "binary.yaml").write_bytes(b"kind: Example\nnote: \xff\n")
    with pytest.raises(ConfigError, match=r"binary\.yaml:2: not UTF-8 text"):
        load_document(tmp_path / "binary.yaml", Document)
    (tmp_path / "good.yaml").write_text("kind: Example\n")
    assert load_document(tmp_path / "good.yaml", Document) == Document(kind="Example")
