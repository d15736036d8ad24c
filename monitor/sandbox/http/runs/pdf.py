"""The smallest PDF that a reader opens: one page, one line of text."""

from __future__ import annotations


def one_page(text: str) -> bytes:
    """Return a document that shows ``text``; characters outside ASCII become question marks."""
    escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    drawing = b"BT /F1 14 Tf 56 780 Td (" + escaped.encode("ascii", "replace") + b") Tj ET"
    parts = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources 6 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawing), drawing),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
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
