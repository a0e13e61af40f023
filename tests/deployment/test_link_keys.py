"""Keys of linked silos: made by the kit or by the silo, signed by the authority, checked."""

import json
import stat

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from feddep.deployment.operations import link_keys
from feddep.deployment.operations.config import SiloConfig
from feddep.deployment.operations.kit import add_silo, init, sign_link_keys
from feddep.errors import InputError


@pytest.fixture
def kit(tmp_path):
    return init(tmp_path / "kit", hosts=["localhost"], silos=["north", "south"])


def config(kit, name):
    return SiloConfig.read(kit.silos[name] / "silo.toml")


def test_every_silo_has_a_key_that_all_know_and_nobody_else_can_read(kit):
    rings = {name: link_keys.own_keyring(config(kit, name)) for name in ("north", "south")}
    assert rings["north"].public == rings["south"].public
    assert set(rings["north"].public) == {"north", "south"}
    there = rings["south"].for_run("run", 1, ("north", "south")).pair(0)
    assert rings["north"].for_run("run", 0, ("north", "south")).pair(1).tags == there.tags
    mode = (kit.silos["north"] / "north.link.key").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    assert not [*kit.server.rglob("*link*")]


def test_a_new_silo_is_on_everybodys_list(kit):
    before = (kit.silos["north"] / "north.link.key").read_bytes()
    kit = add_silo(kit.folder, "east")
    assert set(link_keys.own_keyring(config(kit, "north")).public) == {"east", "north", "south"}
    assert (kit.silos["north"] / "north.link.key").read_bytes() == before


def test_a_silo_may_make_its_key_itself(kit, tmp_path):
    own = X25519PrivateKey.generate()
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "own.pub").write_bytes(own.public_key().public_bytes(*form))
    sign_link_keys(kit.folder, {"north": tmp_path / "own.pub"})
    known = link_keys.own_keyring(config(kit, "south")).public
    assert known["north"] == own.public_key().public_bytes_raw()
    found = link_keys.check(config(kit, "north"))  # still has the kit's key
    assert found.ok is False and "another key of north" in found.found


@pytest.mark.parametrize("name", ["stranger", "../north"])
def test_keys_of_strangers_are_not_signed(kit, name):
    with pytest.raises(InputError, match="is no silo of this kit; known: north, south"):
        sign_link_keys(kit.folder, {name: kit.silos["north"] / "north.link.key"})


def test_a_key_of_another_kind_is_refused(kit):
    with pytest.raises(InputError, match=r"not what the kit wrote: expected an X25519 key"):
        sign_link_keys(kit.folder, {"north": kit.folder / "ca" / "ca.key"})


def test_without_the_authority_nothing_is_signed(kit):
    (kit.folder / "ca" / "ca.key").unlink()
    with pytest.raises(InputError, match="cannot read"):
        sign_link_keys(kit.folder)


class TestAChangedList:
    def path(self, kit):
        return kit.silos["north"] / "link_keys.json"

    def refusal(self, kit):
        with pytest.raises(InputError) as caught:
            link_keys.own_keyring(config(kit, "north"))
        assert link_keys.check(config(kit, "north")).ok is False
        return str(caught.value)

    @pytest.mark.parametrize("change", ["key", "name", "date", "left out"])
    def test_the_signature_covers_everything(self, kit, change):
        values = json.loads(self.path(kit).read_text())
        keys = values["silos"]
        if change == "key":
            keys["south"] = X25519PrivateKey.generate().public_key().public_bytes_raw().hex()
        elif change == "name":
            keys["west"] = keys.pop("south")
        elif change == "date":
            values["made"] = "2030-01-01"
        else:
            del keys["south"]
        self.path(kit).write_text(json.dumps(values))
        assert "was not signed by the authority" in self.refusal(kit)

    def test_a_list_of_another_kit(self, kit, tmp_path):
        other = init(tmp_path / "other", hosts=["localhost"], silos=["north", "south"])
        self.path(kit).write_bytes((other.folder / "link_keys.json").read_bytes())
        assert "was not signed by the authority" in self.refusal(kit)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            "{}",
            '{"format": "feddep-link-keys", "made": "", "silos": {"a": "00"}, "signature": ""}',
            '{"format": "feddep-link-keys", "made": "", "silos": {"../a": ""}, "signature": ""}',
            '{"format": "feddep-link-keys", "made": "", "silos": [], "signature": "x"}',
            "[" * 100_000,
        ],
    )
    def test_nonsense(self, kit, text):
        self.path(kit).write_text(text)
        assert "is not what the kit wrote" in self.refusal(kit)

    def test_a_missing_file(self, kit):
        self.path(kit).unlink()
        assert "copy it from the kit again" in self.refusal(kit)

    def test_a_silo_without_keys_is_told_so_and_nothing_is_wrong(self, kit):
        path = kit.silos["north"] / "silo.toml"
        lines = path.read_text().splitlines()
        path.write_text("\n".join(line for line in lines if not line.startswith("link_key")))
        assert link_keys.own_keyring(config(kit, "north")) is None
        assert link_keys.check(config(kit, "north")).ok is None
