#!/usr/bin/env python3
"""Prints docs/job_conf.md: every message, field and enum of src/job/job.proto with its comments.

tools/job_page.py > docs/job_conf.md
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf import descriptor_pb2

ROOT = Path(__file__).resolve().parent.parent
HEAD = """# job.conf, field by field

Made from `src/job/job.proto` by `tools/job_page.py`. The text form is protobuf's: `field: value`, `message { ... }`, `#` begins a comment.
[docs/singa.md](singa.md) says what a job is and how it runs.
"""
TYPES = {number: name[5:].lower() for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()}


def described():
    """Returns the file, and its comments by path: {path: text}."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(
            [
                "protoc",
                f"-I{ROOT / 'src'}",
                "--include_source_info",
                f"--descriptor_set_out={out.name}",
                "job/job.proto",
            ],
            check=True,
        )
        file = descriptor_pb2.FileDescriptorSet.FromString(Path(out.name).read_bytes()).file[0]
    comments = {
        tuple(place.path): " ".join((place.trailing_comments or place.leading_comments).split())
        for place in file.source_code_info.location
    }
    return file, comments


def field_line(field, text):
    kind = field.type_name.rsplit(".", 1)[-1] or TYPES[field.type]
    if field.type == field.TYPE_MESSAGE:
        kind = f"[{kind}](#{kind.lower()})"
    if field.label == field.LABEL_REPEATED:
        kind += ", any number"
    default = f"`{field.default_value}`" if field.HasField("default_value") else ""
    return f"| `{field.name}` | {field.number} | {kind} | {default} | {text} |"


def main():
    file, comments = described()
    lines = [HEAD]
    for i, message in enumerate(file.message_type):
        lines += [f"## {message.name}", *([comments[4, i], ""] if comments.get((4, i)) else [])]
        lines += ["| field | number | type | default | |", "|---|---|---|---|---|"]
        lines += [field_line(field, comments.get((4, i, 2, k), "")) for k, field in enumerate(message.field)]
        lines.append("")
    for i, values in enumerate(file.enum_type):
        lines += [f"## {values.name}", "| value | number | |", "|---|---|---|"]
        lines += [f"| `{v.name}` | {v.number} | {comments.get((5, i, 2, k), '')} |" for k, v in enumerate(values.value)]
        lines.append("")
    sys.stdout.write("\n".join(lines))


if __name__ == "__main__":
    main()
