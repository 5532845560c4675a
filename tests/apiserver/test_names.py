"""Generated names and template hashes."""

import random
import re

from mooring.apiserver.names import generated_name, template_hash


def test_a_generated_name_is_a_dns_label() -> None:
    name = generated_name("p" * 70, random.Random(1))
    assert re.fullmatch(r"p{58}[bcdfghjklmnpqrstvwxz2456789]{5}", name)


def test_the_hash_is_fnv_in_the_alphabet_of_kubernetes() -> None:
    """FNV-1a of `{}` is 1415952421, and each digit becomes the letter at its code modulo 27."""
    assert template_hash({}) == "5859f96865"


def test_the_hash_depends_on_content_and_collisions_only() -> None:
    assert template_hash({"a": 1, "b": 2}) == template_hash({"b": 2, "a": 1}) == template_hash({"a": 1, "b": 2}, 0)
    assert len({template_hash({"a": 1}), template_hash({"a": 2}), template_hash({"a": 1}, 1)}) == 3
