"""What an audit found, as a section of a statement to be filed."""

import json
from pathlib import Path

from feddep.audit.findings import HEADINGS, rows, sentences
from feddep.errors import DataError
from feddep.reports.filing import Section
from feddep.reports.table import Table


def audit_section(file: Path | None) -> Section:
    """The section about the audit in an ``audit.json``; without one it says so.

    Raises:
        DataError: the file is no audit.
    """
    if file is None:
        return Section("Audit", ["No audit is attached to this statement."])
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        table, told = Table(HEADINGS, rows(found)), " ".join(sentences(found))
        title = str(found["title"])
    except OSError as error:
        raise DataError(f"cannot read the audit {file}: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise DataError(f"{file} is not an audit.json as `feddep audit` writes it") from None
    low = "A low bound proves no privacy: it says that these attacks found no more."
    return Section("Audit", [f"Of {title}. {told} {low}", table])
