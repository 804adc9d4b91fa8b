"""Documents of each kind, made by hand or by what people make them with: small, with headings, tables and umlauts."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from xml.sax.saxutils import escape

from tests.support.attached_files import pdf_of

CONTENT_TYPES = (
    '<?xml version="1.0" encoding="UTF-8"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/><Override PartName="/{part}" '
    'ContentType="application/vnd.openxmlformats-officedocument.{kind}.main+xml"/></Types>'
)
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
_RELATIONSHIPS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    "{entries}</Relationships>"
)
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_STYLE_NAMES = {
    **{f"Heading{level}": f"heading {level}" for level in range(1, 7)},
    "Title": "Title",
    "Caption": "caption",
    "Code": "Code",
}


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return made.getvalue()


def a_paragraph(text: str, style: str | None = None) -> str:
    head = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f'<w:p>{head}<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


def a_word_table(rows: Iterable[Sequence[str]]) -> str:
    made = "".join("<w:tr>" + "".join(f"<w:tc>{a_paragraph(cell)}</w:tc>" for cell in row) + "</w:tr>" for row in rows)
    return f"<w:tbl>{made}</w:tbl>"


def a_docx(*content: str, prolog: str = "", relationships: str = "", parts: Mapping[str, str] | None = None) -> bytes:
    """A document of Word; `content` are elements of its body."""
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{style}"><w:name w:val="{name}"/></w:style>'
        for style, name in _STYLE_NAMES.items()
    )
    main = f'<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="word/document.xml"/>'
    own = f'<Relationship Id="s1" Type="{_OFFICE}/styles" Target="styles.xml"/>{relationships}'
    head, body = '<?xml version="1.0" encoding="UTF-8"?>', "".join(content)
    return zipped(
        {
            "[Content_Types].xml": CONTENT_TYPES.format(part="word/document.xml", kind="wordprocessingml.document"),
            "_rels/.rels": _RELATIONSHIPS.format(entries=main),
            "word/_rels/document.xml.rels": _RELATIONSHIPS.format(entries=own),
            "word/styles.xml": f"{head}<w:styles {_W}>{styles}</w:styles>",
            "word/document.xml": f"{head}{prolog}<w:document {_W} {_R}><w:body>{body}</w:body></w:document>",
            **(parts or {}),
        }
    )


def an_xlsx(sheet: str, *, prolog: str = "", parts: Mapping[str, str] | None = None) -> bytes:
    """A workbook with a sheet whose XML, within its root, this is; as no library would write it."""
    namespace = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    book = f'<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
    sheets = f'<Relationship Id="s1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
    return zipped(
        {
            "[Content_Types].xml": CONTENT_TYPES.format(part="xl/workbook.xml", kind="spreadsheetml.sheet"),
            "_rels/.rels": _RELATIONSHIPS.format(entries=book),
            "xl/_rels/workbook.xml.rels": _RELATIONSHIPS.format(entries=sheets),
            "xl/workbook.xml": f'<workbook {namespace} {_R}><sheets><sheet name="One" sheetId="1" r:id="s1"/></sheets>'
            "</workbook>",
            "xl/worksheets/sheet1.xml": f"{prolog}<worksheet {namespace}>{sheet}</worksheet>",
            **(parts or {}),
        }
    )


def a_workbook(sheets: Mapping[str, Sequence[Sequence[object]]], hidden: Sequence[str] = ()) -> bytes:
    """A workbook as openpyxl writes it."""
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
        if name in hidden:
            sheet.sheet_state = "hidden"
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


def a_laid_out_pdf(
    *pages: Sequence[tuple[str, float, float, float, bool]], rotate: int = 0, password: bool = False
) -> bytes:
    """A PDF of 400 x 300 points; each page has lines: a text, its left and its base line from below, its size, bold."""
    kids = " ".join(f"{5 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
    ]
    for number, lines in enumerate(pages):
        content = b"".join(
            f"BT /{'F2' if bold else 'F1'} {size} Tf {left} {base} Td ({text}) Tj ET\n".encode("cp1252")
            for text, left, base, size, bold in lines
        )
        packed = zlib.compress(content)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 300] /Rotate {rotate} /Contents {6 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(packed), packed))
    more = b""
    if password:
        objects.append(b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <" + b"41" * 32 + b"> /U <" + b"42" * 32 + b"> >>")
        more = b"/Encrypt %d 0 R /ID [<00> <00>] " % len(objects)
    return pdf_of(objects, more)


def forged_zip(names: int) -> bytes:
    """An archive whose directory has so many entries, all of them the same few bytes."""
    name, data = b"a", b""
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 0, 0, 0, zlib.crc32(data), 0, 0, len(name), 0) + name
    entry = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 0, 0, 0, 0, 0, 0, len(name), 0, 0, 0, 0, 0, 0) + name
    directory = entry * names
    count = min(names, 0xFFFF)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(directory), len(local), 0)
    return local + directory + end
