"""The text files of a kit: configuration, consent, reverse proxy and systemd units.

:mod:`feddep.deployment.operations.kit` fills in each ``$name``.
"""

from string import Template

SERVER_CONFIG = Template("""\
# Configuration of the federation's server.
#   check:  feddep doctor server.toml
#   start:  feddep server server.toml
# Paths are relative to this file.

# Where the server listens.
# $exposure
host = "$host"
port = $port

# The server's certificate, its private key, and the certificate of the authority that signed it
# (every silo has the same ca.crt).
certificate = "server.pem"
key = "server.key"
ca = "ca.crt"

# The silos that may take part: one public key each, NAME.pub. The server reads them at start-up.
silos = "silos"

# The server's database and run folders.
state = "state"
""")

BEHIND_PROXY = Template("""\
Only this machine can reach it, because Flower's control API listens on the same port and does not
# authenticate anybody. The silos connect through nginx (nginx.conf) on port $public.""")

WITHOUT_PROXY = Template("""\
Flower's control API listens on the same port and does not authenticate anybody: whoever
# reaches the port can start runs. Use this only for a trial among machines that you trust.""")

SILO_CONFIG = Template("""\
# Configuration of this silo.
#   check:  feddep doctor silo.toml
#   start:  feddep silo silo.toml
# Paths are relative to this file.

name = "$name"
server = "$server"

# The certificate of the authority that signed the server's, and this silo's private key. The key
# must never leave this machine.
ca = "ca.crt"
key = "$name.key"

# This silo's graph folder (nodes.csv, edges.csv, features, manifest.json).
data = "data"

# What this silo stores: its memory of runs under way, the results of finished ones, the log of
# everything that left it (disclosures.jsonl), and its secret. Keep it private.
state = "state"

# What may leave this silo. Read this file and edit it.
consent = "consent.toml"

# true: random draws come from a secret of this silo's own, in the state folder, so that nobody else
# can reproduce its noise. false: they come from the run's seed, which the server knows; use that
# only to reproduce a run.
secret = true

# For methods over links between silos: this silo's key for sealed messages to the others, which
# must never leave this machine, and the list of everybody's public ones, signed by the authority.
link_key = "$name.link.key"
link_keys = "link_keys.json"
""")

CONSENT = """\
# What this silo consents to. The silo refuses everything else, whatever the server asks for.
# Restart the silo after a change.

# Methods that may run. `feddep methods` lists them.
methods = ["feddep", "fedavg"]

# Groups of arrays that may leave the silo. `feddep methods` shows what each method discloses.
messages = ["classifier", "prototypes"]

# The highest number of training rounds in one run.
rounds = 100

# The fewest nodes that a prototype may stand for. A run that would share smaller clusters is
# refused.
smallest_cluster = 5

# The highest privacy loss ε for one edge in one run: a number, or "unbounded", which also accepts
# runs without any formal guarantee. What a number means for a graph of this size is told by
# `feddep privacy --mechanism randomised-response --epsilon 2 --nodes 542 --edges 945`.
highest_epsilon = "unbounded"

# The highest chance δ that this promise fails. Without this line an ε that is bounded holds up to
# δ = 1e-5, and in a silo with many nodes up to one tenth of one over the number of their pairs. A
# line with a smaller number is stricter.
# highest_delta = 1e-7

# The highest ε for one edge in all runs together, counted from this silo's disclosure log, and the
# chance δ that it fails; DP-SGD needs a δ. Without these lines no budget is kept, and a server that
# asks often enough learns everything. `feddep disclosures budget silo.toml` tells what is left.
# budget_epsilon = 4.0
# budget_delta = 1e-7

# What silos at the other end of a link may be told of a node at this end: "scores" of the
# classifier, "labels" (confirmed classes too) or "everything" (features too); the highest ε of the
# noise on it in one run; and of all runs together. Without these lines no links are looked for.
# Another ε is another question with noise of its own, so that a server which asks often learns
# everything unless links_budget is set.
# links = "labels"
# links_epsilon = 4.0
# links_budget = 8.0

# For how many nodes another silo is answered although this one does not have the link itself.
# links_one_sided = 0

# Plain numbers (scores, counts, losses) that may leave. Without this line all that the method
# declares may.
# numbers = ["loss", "training_nodes", "val_correct", "val_total", "test_correct", "test_total"]

# How often one group of arrays may leave in a run. Without this line: rounds + 1.
# releases = 101

# All runs together: how many there may be, how often one group of arrays may leave in them, for how
# many seconds this silo may work in them, and of which share of its nodes rows may leave in groups
# about single nodes, such as "features" or "hidden". Each line that is not there sets no limit.
# all_runs = 20
# all_releases = 1000
# all_seconds = 36000
# share_of_nodes = 0.1
"""

NGINX = Template("""\
# The silos' only way to the server: its fleet API and its health check, over TLS. Everything else
# on Flower's port (control, runtime, documentation) is refused here, because Flower's control API
# does not authenticate anybody.
#
#   cp $home/server/nginx.conf /etc/nginx/conf.d/feddep.conf
#   nginx -t && systemctl reload nginx

upstream feddep_superlink {
    server 127.0.0.1:$inner;
    keepalive 16;
    keepalive_timeout 4s;  # the server closes idle connections after 5 s
}

server {
    listen $public ssl;
    ${six}listen [::]:$public ssl;

    ssl_certificate $home/server/server.pem;
    ssl_certificate_key $home/server/server.key;
    ssl_protocols TLSv1.2 TLSv1.3;
    server_tokens off;

    # Arrays arrive in chunks of 5 MB. They must not touch this machine's disk on the way.
    client_max_body_size 32m;
    proxy_request_buffering off;
    proxy_buffering off;

    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_connect_timeout 5s;
    proxy_read_timeout 120s;
    proxy_ssl_verify on;
    proxy_ssl_trusted_certificate $home/server/ca.crt;
    proxy_ssl_name localhost;

    # Pass on the path that was matched, never the raw one: no /v1/control/..%2ffleet/.
    location ~ ^/v1/fleet/[a-z-]+$$ {
        limit_except POST { deny all; }
        proxy_pass https://feddep_superlink$$uri;
    }

    location = /health {
        limit_except GET { deny all; }
        proxy_pass https://feddep_superlink/health;
    }

    location / {
        return 403;
    }
}
""")

_SERVICE = """\
Restart=on-failure
RestartSec=10

# Flower finds its own programs on the PATH. No telemetry, update checks or run-time installs.
Environment=PATH=$home/venv/bin:/usr/local/bin:/usr/bin:/bin
Environment=FLWR_TELEMETRY_ENABLED=0
Environment=FLWR_DISABLE_UPDATE_CHECK=1
Environment=FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
"""

_HARDENING = """\
UMask=0077
NoNewPrivileges=yes
ProtectSystem=strict
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
CapabilityBoundingSet=
SystemCallArchitectures=native
# The last three are for the sandbox that feddep puts around Flower's programs.
SystemCallFilter=@system-service
SystemCallFilter=landlock_create_ruleset landlock_add_rule landlock_restrict_self
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""

_OWN_STATE = """\
# Everything is written to the state folder, the only writable one.
Environment=HOME=$folder/state
Environment=FLWR_HOME=$folder/state/flwr
Environment=NUMBA_CACHE_DIR=$folder/state/numba
ReadWritePaths=$folder/state
ProtectHome=read-only
"""

SERVER_UNIT = Template(
    """\
# feddep server
#
#   useradd --system --home-dir $home --shell /usr/sbin/nologin feddep
#   python3 -m venv $home/venv && $home/venv/bin/pip install 'feddep[flower]'
#   (copy this folder to $folder)
#   chown -R feddep: $folder
#   cp $folder/feddep-server.service /etc/systemd/system/
#   systemctl daemon-reload && systemctl enable --now feddep-server

[Unit]
Description=feddep server
Wants=network-online.target
After=network-online.target

[Service]
User=feddep
WorkingDirectory=$folder
ExecStart=$home/venv/bin/feddep server $folder/server.toml
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
"""
    + _SERVICE
    + _OWN_STATE
    + _HARDENING
)

SILO_UNIT = Template(
    """\
# feddep silo: holds the data, the secret and the disclosure log, and has no network. Flower's
# programs, which speak with the server, run as another user: feddep-node.service.
#
#   useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin feddep-silo
#   useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin feddep-node
#   python3 -m venv $home/venv && $home/venv/bin/pip install 'feddep[flower]'
#   (copy this folder to $folder)
#   chown -R feddep-silo: $folder
#   cp $folder/feddep-silo.service $folder/feddep-node.service /etc/systemd/system/
#   systemctl daemon-reload && systemctl enable --now feddep-silo feddep-node

[Unit]
Description=feddep silo

[Service]
User=feddep-silo
# To let feddep-node, and nobody else, use the socket.
SupplementaryGroups=feddep-node
RuntimeDirectory=feddep-silo
RuntimeDirectoryMode=0711
WorkingDirectory=$folder
ExecStart=$home/venv/bin/feddep silo $folder/silo.toml
PrivateNetwork=yes
RestrictAddressFamilies=AF_UNIX
"""
    + _SERVICE
    + _OWN_STATE
    + _HARDENING
)

NODE_UNIT = Template(
    """\
# feddep node: Flower's programs of a silo. They see neither its data nor its folder; systemd hands
# them the node key, with which the silo signs in at the server. How to install it stands in
# feddep-silo.service.

[Unit]
Description=feddep node
Wants=network-online.target
After=network-online.target feddep-silo.service
Requires=feddep-silo.service

[Service]
User=feddep-node
LoadCredential=node.toml:$folder/node.toml
LoadCredential=ca.crt:$folder/ca.crt
LoadCredential=$name.key:$folder/$name.key
StateDirectory=feddep-node
StateDirectoryMode=0700
WorkingDirectory=/var/lib/feddep-node
ExecStart=$home/venv/bin/feddep node $${CREDENTIALS_DIRECTORY}/node.toml
InaccessiblePaths=$folder
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
MemoryMax=4G
TasksMax=256
Environment=HOME=/var/lib/feddep-node
ProtectHome=yes
PrivateDevices=yes
"""
    + _SERVICE
    + _HARDENING
)

NODE_CONFIG = Template("""\
# Configuration of this silo's node: Flower's programs, which run as another user than the silo.
#   start:  feddep node node.toml
# Paths are relative to this file. systemd hands this file, the key and the certificate to the node
# (feddep-node.service); without systemd, copy the three to a folder of the node's user.

name = "$name"
server = "$server"
ca = "ca.crt"
key = "$name.key"

# Where `feddep silo` listens: the same as in silo.toml.
socket = "/run/feddep-silo/socket"

# For what Flower's programs write.
state = "/var/lib/feddep-node"
""")

APART = """\

# The user that runs Flower's programs (`feddep node node.toml`), and where that user's programs and
# this silo meet. Only this user is let in. Without the two lines `feddep silo` starts Flower's
# programs itself, as the user that holds the data: use that for a trial only.
node_user = "feddep-node"
socket = "/run/feddep-silo/socket"
"""
