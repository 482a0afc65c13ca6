"""What a level does about zeros, read and written (docs/how-to/sparsity.md has examples).

```yaml
sparsity:
  metadata_bits: 4                    # of an entry whose rank names none
  formats: {weight: coordinates, input: flat_bitmask}
  actions: [{kind: skipping, follower: weight, leaders: [input]}]
```
"""

from codesign.arch.sparsity import LevelSparsity, Rank, RankFormat, TensorFormat, ZeroAction, ZeroKind
from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields
from codesign.core.json_types import JsonObject
from codesign.core.specs import changed


def sparsity_from_json(fields: Fields) -> LevelSparsity:
    """What stands under `sparsity:` of a level.

    Raises:
        UserError: A key, format or kind is unknown, or a width is none.
    """
    formats = fields.child("formats")
    try:
        read = tuple(_read_format(str(name), formats) for name in list(fields.raw("formats", {})))
    except UserError as error:
        raise (error if error.where else error.within(fields.where)) from None
    place = f"{fields.where}, an action"
    items = [Fields(item, place) for item in fields.items("actions", [])]
    actions = tuple(item.record(ZeroAction, leaders=tuple(item.names("leaders", []))) for item in items)
    return fields.record(LevelSparsity, formats=read, actions=actions)


def _read_format(name: str, formats: Fields) -> TensorFormat:
    value = formats.raw(name)
    where = f"{formats.where} of {name!r}"
    if isinstance(value, str):
        if value == "csr":
            return TensorFormat(name, (Rank(RankFormat.OFFSETS, payload_bits=32), Rank(RankFormat.COORDINATES)))
        if value not in {f.value for f in RankFormat}:
            raise unknown_name("format", value, [*(f.value for f in RankFormat), "csr"], where=where)
        return TensorFormat(name, (Rank(RankFormat(value)),), flat=True)
    fields = Fields(value, where)
    items = [Fields(item, where) for item in fields.items("ranks")]
    ranks = tuple(item.record(Rank, dims=frozenset(item.names("dims", []))) for item in items)
    return fields.record(TensorFormat, tensor=name, ranks=ranks)


def zero_kind(name: str, kinds: tuple[ZeroKind, ...], where: str) -> ZeroKind:
    """The kind of that name.

    Raises:
        UserError: There is none.
    """
    for kind in kinds:
        if kind.value == name:
            return kind
    raise unknown_name("kind", name, [kind.value for kind in kinds], where=where)


def sparsity_to_json(sparsity: LevelSparsity) -> JsonObject:
    """What stands under `sparsity:`; `sparsity_from_json` gives it back."""
    value: JsonObject = {"metadata_bits": sparsity.metadata_bits}
    if sparsity.metadata_word_bits is not None:
        value["metadata_word_bits"] = sparsity.metadata_word_bits
    if sparsity.formats:
        value["formats"] = {f.tensor: _write_format(f) for f in sparsity.formats}
    if sparsity.actions:
        value["actions"] = [changed(action) for action in sparsity.actions]
    return value


def _write_format(kept: TensorFormat) -> JsonObject:
    value: JsonObject = {
        "ranks": [changed(rank) for rank in kept.ranks],
        "inner_to_outer": kept.inner_to_outer,
        "flat": kept.flat,
    }
    if kept.where_zeros:
        value["where_zeros"] = True
    return value
