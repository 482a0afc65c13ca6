"""What `codesign verify` needs to check the mappings of a whole network (rules NW1 to NW4 of docs/explanation/certificates.md)."""

from codesign.core.errors import UserError
from codesign.core.json_types import JsonObject
from codesign.cost.arrays import Reuse
from codesign.evaluation.network import ConstraintsOf, EvaluationOptions, LayerResult
from codesign.evaluation.whole_network import NetworkResult
from codesign.verify import certificate
from codesign.verify.network import MappedOperator, certify_network
from codesign.workloads.traffic import TrafficRules


def refuse_options(options: EvaluationOptions, mapper: str) -> None:
    """Refuse what a network's certificate does not cover.

    Args:
        options: How the network is judged.
        mapper: Name of the search.

    Raises:
        UserError: The message names what.
    """
    without = {
        f"reuse '{options.reuse.name.lower()}'": options.reuse is not Reuse.TIMELOOP,
        "activations and weights that stay on the chip": options.rules != TrafficRules()
        or options.activation_bytes > 0,
        f"the mapper {mapper!r}, which proves nothing": mapper != "exact",
    }
    for what, present in without.items():
        if present:
            raise UserError(f"no certificate of a network covers {what}", hint="leave it out, or --certificate")


def network_certificate(result: NetworkResult, constraints_of: ConstraintsOf, *, uneven: bool = False) -> JsonObject:
    """The certificate of a network whose layers were mapped by the exact search.

    A layer whose search stopped with a gap is certified with the bound that the search ended with.

    Args:
        result: Of the search.
        constraints_of: The constraints under which a layer was searched.
        uneven: Whether uneven mappings were searched too.

    Raises:
        UserError: A layer has neither a proof nor a gap, or certificates do not cover the search.
    """
    refuse_options(result.options, result.mapper)
    found = [_mapped(layer, result.options) for layer in result.layers]
    return certificate(
        certify_network(
            result.network,
            result.architecture,
            result.options.objective,
            found,
            constraints_of,
            imperfect=result.options.imperfect,
            uneven=uneven,
        )
    )


def _mapped(layer: LayerResult, options: EvaluationOptions) -> MappedOperator:
    found = layer.result
    if found.mapping is None or found.cost is None or found.gap is None:
        raise UserError(
            f"no certificate is written: nothing is proven of layer {layer.name!r}",
            hint="give its search time enough, e.g. --option effort=1e9",
        )
    return MappedOperator(layer.name, layer.computation, found.mapping, found.shown(options.objective))
