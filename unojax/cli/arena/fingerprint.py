"""What tells an agent from another one of the same name: one with other defaults, or with another network in its file."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress

from unojax.agents import Agent
from unojax.device.kept import describe
from unojax.files.own import is_own
from unojax.specs import files_of, format_value, settings_of
from unojax.value.pretrained import PRETRAINED, digest_network, load_pretrained


def fingerprint(spec: str, agent: Agent | None = None) -> str:
    """Digest what an agent's spec stands for: the values of all its keys, defaults too, and the files that it names.

    What such a file uses in its turn, a module that it imports say, does not count; which files are meant, `files_of` says.
    Of the `agent` that the spec made the numbers behind names count, too: weights of policies, and of types of opponents.
    """
    settings = {key: format_value(value) for key, value in settings_of(spec).items()}
    digest = hashlib.sha256(json.dumps([spec if is_own(spec) else spec.partition(":")[0], settings]).encode())
    if PRETRAINED in settings.values():
        digest.update(digest_network(load_pretrained()).encode())
    for file in files_of(spec):
        if os.path.isfile(file):
            digest.update(file.read_bytes())
    for part in (agent, *(getattr(agent, name, None) for name in ("updater", "policies"))):
        with suppress(TypeError):  # It holds what can't be described, such as a network, which counts already.
            digest.update(describe(part).encode())
    return digest.hexdigest()[:16]
