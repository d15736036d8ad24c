"""The smallest PDF that a reader opens: one page, lines of text."""

from __future__ import annotations

from collections.abc import Sequence

LINES = 44  # that the page has room for
CHARACTERS = 90  # of a line
TOP, LEFT, LEADING = 790, 56, 17
TITLE_POINTS, POINTS = 15, 10


def one_page(lines: Sequence[str]) -> bytes:
    """Return a document that shows ``lines``, the first as its title.

    What is too long for the page ends in dots; characters that Western European text does not
    have become question marks.
    """
    shown = [*lines[: LINES - 1], "..."] if len(lines) > LINES else lines
    return _document(_drawing([_fitted(line) for line in shown]))


def _fitted(line: str) -> bytes:
    text = line if len(line) <= CHARACTERS else line[: CHARACTERS - 3] + "..."
    printable = "".join(other_text if other_text.isprintable() else " " for other_text in text)
    escaped = printable.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return escaped.encode("cp1252", "replace")


def _drawing(lines: Sequence[bytes]) -> bytes:
    drawn = [b"BT %d TL %d %d Td /F1 %d Tf" % (LEADING, LEFT, TOP, TITLE_POINTS)]
    for place, line in enumerate(lines):
        if place == 1:
            drawn.append(b"/F1 %d Tf" % POINTS)
        drawn.append(b"(%s) Tj T*" % line)
    return b"\n".join([*drawn, b"ET"])


def _document(drawing: bytes) -> bytes:
    parts = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources 6 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawing), drawing),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Font << /F1 5 0 R >> >>",
    )
    document = b"%PDF-1.4\n"
    offsets = []
    for number, part in enumerate(parts, start=1):
        offsets.append(len(document))
        document += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return document + (
        b"xref\n0 %d\n0000000000 65535 f \n%s"
        b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
        % (len(parts) + 1, table, len(parts) + 1, len(document))
    )
