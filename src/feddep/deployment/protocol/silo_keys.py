"""The keys with which a silo seals messages for others in a run."""

from typing import Protocol

from feddep.deployment.protocol.agreement import Agreement
from feddep.deployment.protocol.link_consent import LinkConsent
from feddep.errors import InputError
from feddep.privacy.pair_keys import Keyring, LinkKeys


class _Silo(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def link_keys(self) -> Keyring | None: ...
    @property
    def consent(self) -> LinkConsent | None: ...


def link_keys_in(silo: _Silo, agreement: Agreement, client: int) -> LinkKeys:
    """A silo's keys in a run. Another agreement has others, even under the same name.

    Args:
        silo: the silo; one without a consent is simulated, and its keys follow from the seed.
        agreement: what was agreed on.
        client: the silo's number.

    Raises:
        InputError: it has no key, another silo has none that the authority vouches for, or the
            server calls it by another name.
    """
    names, run = agreement.silos, f"{agreement.run} {agreement.digest}"
    if silo.link_keys is None and silo.consent is None:
        return LinkKeys.simulated(agreement.spec.seed, run, client, names)
    if silo.link_keys is None:
        raise InputError(
            f"{silo.name} has no key for messages to other silos, which {agreement.method.name} "
            "needs; get link_key and link_keys from the kit (`feddep deploy link-keys`) and name "
            "them in silo.toml"
        )
    if client >= len(names) or names[client] != silo.name:
        raise InputError(
            f"the server calls client {client}, which is {silo.name}, by another name "
            f"(got {', '.join(names)})"
        )
    one_sided = silo.consent.links_one_sided if silo.consent else 0
    return silo.link_keys.for_run(run, client, names, one_sided)
