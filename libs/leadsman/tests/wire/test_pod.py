"""Pods are read as Kubernetes' own codec reads them."""

import pytest

from leadsman.wire.extender import BodyError, decode_filter
from leadsman.wire.pod import Pod, Volume


def pod(text: str) -> Pod:
    """The Pod of a filter call with `text` as Pod."""
    return decode_filter(b'{"Pod":' + text.encode() + b',"NodeNames":["a"]}').pod


@pytest.mark.parametrize(
    "text",
    [
        '{"metadata":null,"spec":null}',
        '{"metadata":{"name":null,"namespace":null,"uid":null,"labels":null},"spec":{"priorityClassName":null}}',
        '{"metadata":{"resourceVersion":null},"spec":{"volumes":null,"schedulerName":null}}',
    ],
)
def test_null_is_as_absent(text: str) -> None:
    """Go reads both as the zero value."""
    assert pod(text) == Pod()


def test_null_inside_lists_and_texts_is_the_zero_value() -> None:
    """As in Go: a nameless volume without a source, and an empty label that is there; the rest is not lost."""
    read = pod(
        '{"metadata":{"name":"db","labels":{"a":null,"b":"c"}},'
        '"spec":{"volumes":[null,{"name":null,"csi":{"driver":"nfs.csi.k8s.io","volumeAttributes":{"server":null}}}]}}'
    )
    none, csi = read.spec.volumes or []

    assert (read.metadata.name, read.metadata.labels) == ("db", {"a": "", "b": "c"})
    assert none == Volume()
    assert csi.csi is not None
    assert (csi.name, csi.csi.driver, csi.csi.volume_attributes) == ("", "nfs.csi.k8s.io", {"server": ""})


@pytest.mark.parametrize("text", ['{"metadata":{"name":7},"spec":null}', '{"spec":{"volumes":[null,7]}}'])
def test_wrong_types_beside_nulls_are_still_refused(text: str) -> None:
    """Only null is forgiven."""
    with pytest.raises(BodyError, match="Pod has a wrong type"):
        pod(text)
