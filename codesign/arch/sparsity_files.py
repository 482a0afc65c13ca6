"""What a level does about zeros, read and written (docs/how-to/sparsity.md has examples).

```yaml
sparsity:
  metadata_bits: 4                    # of an entry whose rank names none
  formats: {weight: coordinates, input: flat_bitmask}
  actions: [{kind: skipping, follower: weight, leaders: [input]}]
```
"""

from typing import Any

from codesign.arch.sparsity import NO_SPARSITY, LevelSparsity, Rank, RankFormat, TensorFormat, ZeroAction, ZeroKind
from codesign.core.errors import UserError, unknown_name
from codesign.core.fields import Fields
from codesign.core.json_types import JsonObject


def sparsity_from_json(fields: Fields) -> LevelSparsity:
    """What stands under `sparsity:` of a level.

    Raises:
        UserError: A key, format or kind is unknown, or a width is none.
    """
    formats = fields.child("formats")
    names = list(fields.raw("formats", {}))
    actions = fields.items("actions", [])
    try:
        sparsity = LevelSparsity(
            tuple(_read_format(str(name), formats) for name in names),
            tuple(_read_action(item, fields.where) for item in actions),
            fields.integer("metadata_bits", NO_SPARSITY.metadata_bits, least=1),
            fields.integer("metadata_word_bits", None, least=1),
        )
    except UserError as error:
        raise (error if error.where else error.within(fields.where)) from None
    fields.finish()
    return sparsity


def _read_format(name: str, formats: Fields) -> TensorFormat:
    value = formats.raw(name)
    where = f"{formats.where} of {name!r}"
    if isinstance(value, str):
        if value == "csr":
            return TensorFormat(name, (Rank(RankFormat.OFFSETS, payload_bits=32), Rank(RankFormat.COORDINATES)))
        return TensorFormat(name, (Rank(_rank_format(value, where, extra="csr")),), flat=True)
    fields = Fields(value, where)
    ranks = tuple(_read_rank(item, where) for item in fields.items("ranks"))
    made = TensorFormat(
        name,
        ranks,
        fields.flag("inner_to_outer", True),
        fields.flag("flat", False),
        fields.flag("where_zeros", False),
    )
    fields.finish()
    return made


def _read_rank(value: Any, where: str) -> Rank:
    fields = Fields(value, where)
    rank = Rank(
        _rank_format(fields.text("format"), where),
        fields.integer("metadata_bits", None, least=0),
        fields.integer("payload_bits", None, least=0),
        frozenset(fields.names("dims", [])),
    )
    fields.finish()
    return rank


def _rank_format(name: str, where: str, extra: str | None = None) -> RankFormat:
    try:
        return RankFormat(name)
    except ValueError:
        known = [f.value for f in RankFormat] + ([extra] if extra else [])
        raise unknown_name("format", name, known, where=where) from None


def zero_kind(name: str, kinds: tuple[ZeroKind, ...], where: str) -> ZeroKind:
    """The kind of that name.

    Raises:
        UserError: There is none.
    """
    for kind in kinds:
        if kind.value == name:
            return kind
    raise unknown_name("kind", name, [kind.value for kind in kinds], where=where)


def _read_action(value: Any, where: str) -> ZeroAction:
    fields = Fields(value, f"{where}, an action")
    kind = zero_kind(fields.text("kind"), tuple(ZeroKind), fields.where)
    action = ZeroAction(kind, fields.text("follower"), tuple(fields.names("leaders", [])))
    fields.finish()
    return action


def sparsity_to_json(sparsity: LevelSparsity) -> JsonObject:
    """What stands under `sparsity:`; `sparsity_from_json` gives it back."""
    value: JsonObject = {"metadata_bits": sparsity.metadata_bits}
    if sparsity.metadata_word_bits is not None:
        value["metadata_word_bits"] = sparsity.metadata_word_bits
    if sparsity.formats:
        value["formats"] = {f.tensor: _write_format(f) for f in sparsity.formats}
    if sparsity.actions:
        value["actions"] = [
            {"kind": a.kind.value, "follower": a.follower, **({"leaders": list(a.leaders)} if a.leaders else {})}
            for a in sparsity.actions
        ]
    return value


def _write_format(kept: TensorFormat) -> JsonObject:
    ranks = []
    for rank in kept.ranks:
        one: JsonObject = {"format": rank.format.value}
        for name in ("metadata_bits", "payload_bits"):
            if getattr(rank, name) is not None:
                one[name] = getattr(rank, name)
        ranks.append(one | ({"dims": sorted(rank.dims)} if rank.dims else {}))
    value: JsonObject = {"ranks": ranks, "inner_to_outer": kept.inner_to_outer, "flat": kept.flat}
    if kept.where_zeros:
        value["where_zeros"] = True
    return value
