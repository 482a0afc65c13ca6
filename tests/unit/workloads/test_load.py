import pytest

from codesign.core.errors import UserError
from codesign.workloads.load import load_network


def test_zoo_names_are_lenient() -> None:
    assert load_network("ResNet-50") == load_network("resnet_50") == load_network("resnet50")


@pytest.mark.parametrize(
    ("name", "near"), [("resnet5", "resnet50"), ("resnext-5", "resnext50"), ("no-such-thing-at-all", "known:")]
)
def test_unknown_name_offers_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UserError, match="unknown network") as caught:
        load_network(name)
    assert near in str(caught.value)
