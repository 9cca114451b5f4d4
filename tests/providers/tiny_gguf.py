"""A real GGUF model of two megabytes that says what a test wants, since after each token only one can follow.

Every token has a dimension of its own, attention and feed-forward add nothing, and the last matrix holds, for
each token, the one that comes next. The rest is what llama.cpp wants to find in such a file.
"""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

TEMPLATE = """{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}{% endfor %}
Call them as <tool_call>{"name": NAME, "arguments": ARGUMENTS}</tool_call><|im_end|>
{% endif %}{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}{% for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
UNKNOWN, CONTROL, TOLD, UNUSED, BYTE = 2, 3, 4, 5, 6
NEWLINE = 3 + ord("\n")
"""The token that every prompt ends with, after the three that every vocabulary starts with."""
HEAD = 32

Value = bool | int | float | str | list[str] | list[int] | list[float]


class Tensor(NamedTuple):
    shape: tuple[int, ...]
    raw: bytes


def write_model(
    path: Path, pieces: Sequence[str], *, endless: bool = False, architecture: str = "llama"
) -> None:
    """A model whose every reply is these pieces, each a token; an endless one says them again and again."""
    tokens = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "<|im_start|>",
        "<|im_end|>",
    ]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, CONTROL, CONTROL]
    end, first = len(tokens) - 1, len(tokens)
    tokens += pieces
    kinds += [TOLD] * len(pieces)
    while len(tokens) % HEAD:
        tokens.append(f"<|unused{len(tokens)}|>")
        kinds.append(UNUSED)
    places = range(first, first + len(pieces))
    follows = dict(zip([NEWLINE, *places], [*places, first if endless else end], strict=True))
    described = _described(architecture, tokens, kinds, end)
    path.write_bytes(_file(described, _tensors(len(tokens), follows, layers=8 if endless else 1)))


def _described(architecture: str, tokens: list[str], kinds: list[int], end: int) -> dict[str, Value]:
    size = len(tokens)
    return {
        "general.architecture": architecture,
        "llama.context_length": 65536,
        "llama.embedding_length": size,
        "llama.block_count": 1,
        "llama.feed_forward_length": HEAD,
        "llama.attention.head_count": size // HEAD,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": HEAD,
        "llama.vocab_size": size,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * size,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": end,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def _tensors(size: int, follows: Mapping[int, int], layers: int) -> dict[str, Tensor]:
    ones = Tensor((size,), struct.pack(f"<{size}f", *[1.0] * size))
    square, wide = _matrix(size, size, {}), _matrix(HEAD, size, {})
    tensors = {
        "token_embd.weight": _matrix(size, size, {(token, token): 1.0 for token in range(size)}),
        "output_norm.weight": ones,
        "output.weight": _matrix(size, size, {(after, token): 10.0 for token, after in follows.items()}),
    }
    for layer in range(layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensors[f"blk.{layer}.{name}.weight"] = square
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{name}.weight"] = ones
        for name in ("ffn_gate", "ffn_up"):
            tensors[f"blk.{layer}.{name}.weight"] = wide
        tensors[f"blk.{layer}.ffn_down.weight"] = _matrix(size, HEAD, {})
    return tensors


def _matrix(rows: int, columns: int, entries: Mapping[tuple[int, int], float]) -> Tensor:
    raw = bytearray(4 * rows * columns)
    for (row, column), value in entries.items():
        struct.pack_into("<f", raw, 4 * (row * columns + column), value)
    return Tensor((columns, rows), bytes(raw))


def _file(described: Mapping[str, Value], tensors: Mapping[str, Tensor]) -> bytes:
    layers = sum(name.endswith("attn_q.weight") for name in tensors)
    described = {**described, "llama.block_count": layers}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(described))
    head += b"".join(_text(key) + _value(value) for key, value in described.items())
    body = b""
    for name, (shape, raw) in tensors.items():
        head += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(body))
        body += raw + bytes(-len(raw) % 32)
    return head + bytes(-len(head) % 32) + body


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Value) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + _text(value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(_text(str(each)) for each in value)
        case [int(), *_]:
            return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
        case _:
            return struct.pack(f"<IIQ{len(value)}f", 9, 6, len(value), *value)
