"""The silo daemon for users that are numbers without names."""

from types import SimpleNamespace

from two_users import NODE

from feddep.deployment.operations import silo_daemon, silo_socket


def main() -> None:
    def user(name: str) -> SimpleNamespace:
        return SimpleNamespace(pw_uid=NODE, pw_gid=NODE)

    silo_daemon.user = silo_socket.user = user
    silo_daemon.main()
