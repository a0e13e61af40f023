"""Tables as a bank has them, small enough to be read."""

import numpy as np

ACCOUNTS = """id,kind,age,balance,vip,code,label,split
a1,person,41,1020.5,yes,0471,0,train
a2,firm,,88000,no,0471,1,train
a3,person,33,12,no,0123,0,train
a4,,58,0.5,,0123,1,train
a5,firm,29,400,yes,0471,0,val
a6,person,71,77,no,0123,NA,
"""

PAYMENTS = """source,target,amount,time,source_bank,target_bank
a1,a2,10,1,north,north
a2,a1,30,2,north,north
a2,a3,5,2,north,north
a3,a4,1,3,north,north
a5,a1,2.5,4,north,north
a6,a6,9,4,north,north
x9,a1,100,5,south,north
a2,x9,50,6,north,south
a2,x9,50,7,north,south
a4,y1,8,8,north,west
"""


def write_bank(folder, accounts=ACCOUNTS, payments=PAYMENTS, settings=""):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "accounts.csv").write_text(accounts)
    (folder / "transactions.csv").write_text(payments)
    if settings:
        (folder / "tables.toml").write_text(settings)
    return folder


def write_numbered_bank(folder, seed, kinds=("person", "firm"), columns="id,kind,age,label"):
    """Forty accounts, numbered alike at every bank, whose age tells the label."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    rows = [
        {"id": i, "kind": kinds[i % len(kinds)], "age": 20 + 30 * (i % 2), "label": "ab"[i % 2]}
        for i in range(40)
    ]
    names = columns.split(",")
    lines = [",".join(str(row[name]) for name in names) for row in rows]
    (folder / "nodes.csv").write_text("\n".join([columns, *lines]) + "\n")
    ends = rng.integers(0, 40, (80, 2))
    edges = "\n".join(f"{a},{b}" for a, b in ends)
    (folder / "edges.csv").write_text(f"source,target\n{edges}\n")
    return folder
