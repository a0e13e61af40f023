"""The text files of a kit: configurations, the reverse proxy, systemd units.

``$name`` is filled in by :mod:`feddep.deployment.operations.kit`.
"""

from string import Template

SERVER_CONFIG = Template("""\
# The server's part of the federation: `feddep server server.toml`, `feddep doctor server.toml`.
# Paths are relative to this file.

# Where the program listens.
# $exposure
host = "$host"
port = $port

# The server's certificate, its private key, and the authority that signed it (the silos' ca.crt).
certificate = "server.pem"
key = "server.key"
ca = "ca.crt"

# The silos that may take part: one public key each, NAME.pub.
silos = "silos"

# Database and run folders.
state = "state"
""")

BEHIND_PROXY = Template("""\
Only this machine reaches it, because Flower's control API is on the same port and asks nobody
# who they are. The silos come in through nginx.conf on port $public.""")

WITHOUT_PROXY = Template("""\
Flower's control API is on the same port and asks nobody who they are:
# whoever reaches the port can start runs. For a trial among machines that trust each other.""")

SILO_CONFIG = Template("""\
# This silo's part of the federation: `feddep silo silo.toml`, `feddep doctor silo.toml`.
# Paths are relative to this file.

name = "$name"
server = "$server"

# The authority that vouches for the server, and this silo's private key: it never leaves the silo.
ca = "ca.crt"
key = "$name.key"

# This silo's graph folder (nodes.csv, edges.csv, features, manifest.json).
data = "data"

# What the silo remembers: memory between rounds, the ledger of what left, its secret.
state = "state"

# What may leave: see there.
consent = "consent.toml"

# true: random draws come from a secret of this silo's own, kept in the state folder, so nobody
# else can repeat its noise. false only for reproducing a run.
secret = true
""")

CONSENT = """\
# What this silo consents to. A request beyond it is refused by name, whatever the server says.

# Methods that may be run; `feddep methods` lists them.
methods = ["feddep", "fedavg"]

# Groups of arrays that may leave the silo; `feddep methods` says what each method discloses.
messages = ["classifier", "prototypes"]

# Rounds that one run may take.
rounds = 100

# A prototype is the mean of at least this many nodes; smaller clusters are not shared.
smallest_cluster = 5

# The highest privacy loss ε of a run that this silo takes part in: a number, or "unbounded", with
# which runs without a formal guarantee are accepted too.
highest_epsilon = "unbounded"
"""

NGINX = Template("""\
# The only way in for the silos: the fleet API and the health check of the server, over TLS.
# Everything else on Flower's port (control, runtime, documentation) is refused here, because
# Flower's control API asks nobody who they are.
#
#   cp $home/server/nginx.conf /etc/nginx/conf.d/feddep.conf
#   nginx -t && systemctl reload nginx

upstream feddep_superlink {
    server 127.0.0.1:$inner;
    keepalive 16;
    keepalive_timeout 4s;  # the server closes an idle connection after 5
}

server {
    listen $public ssl;
    ${six}listen [::]:$public ssl;

    ssl_certificate $home/server/server.pem;
    ssl_certificate_key $home/server/server.key;
    ssl_protocols TLSv1.2 TLSv1.3;
    server_tokens off;

    # Arrays travel in pieces of 5 MB. Nothing of them is to touch this machine's disk on the way.
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

    # The path is passed on as it was matched, never as it was sent: no /v1/control/..%2ffleet/.
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

UNIT = Template("""\
# $what
#
#   useradd --system --home-dir $home --shell /usr/sbin/nologin feddep
#   python3 -m venv $home/venv && $home/venv/bin/pip install 'feddep[flower]'
#   (put this folder at $folder)
#   chown -R feddep: $folder
#   cp $folder/$unit.service /etc/systemd/system/
#   systemctl daemon-reload && systemctl enable --now $unit

[Unit]
Description=$what
Wants=network-online.target
After=network-online.target

[Service]
User=feddep
WorkingDirectory=$folder
ExecStart=$home/venv/bin/feddep $command $folder/$command.toml
Restart=on-failure
RestartSec=10

# Flower starts its parts by bare name; it reports and fetches nothing.
Environment=PATH=$home/venv/bin:/usr/local/bin:/usr/bin:/bin
Environment=FLWR_TELEMETRY_ENABLED=0
Environment=FLWR_DISABLE_UPDATE_CHECK=1
Environment=FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
# What is written goes into the state folder, the only one that is writable.
Environment=HOME=$folder/state
Environment=FLWR_HOME=$folder/state/flwr
Environment=NUMBA_CACHE_DIR=$folder/state/numba

UMask=0077
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=$folder/state
ProtectHome=read-only
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
CapabilityBoundingSet=
SystemCallArchitectures=native
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
""")
