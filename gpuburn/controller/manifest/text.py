"""The text of a vendor's file: encodings that can be told are read, every other is refused. Knows no column's meaning.

UTF-8 with or without its mark, UTF-16 with its mark, and GB18030. Nearly any bytes are GB18030 of something, so that
it is told by what it says: characters of a Chinese list, most of them common ones. Korean or Cyrillic bytes read as
GB18030 are hanzi, too, but rare ones.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter, deque

from gpuburn.strict import Refused

SAVE = "wanted is UTF-8 (with or without its mark), UTF-16 with its mark, or GB18030"
FAR = 1_000_000  # characters that are looked through for where a record stops being CSV
LINE = re.compile(r"\r\n|\r|\n")
DELIMITERS = ",;\t"
MARKS = frozenset("\xb7\u2014\u2018\u2019\u201c\u201d\u2026\xd7\u2103\u2116")  # dot, dash, quotes, dots, times, C, No
# What lists of machines are written with, cities of data centres, and the most frequent characters of modern Chinese.
COMMON = frozenset(
    "主机柜架序列号型数量服务器节点内存硬盘网卡显处理板槽位置电源功率房楼层区域排交换端口固件版本容厂商供应订单批次"
    "合同项目备注说明资产编标签管理地址带外业集群计算训练推存储英伟达浪潮华为新联想超微戴尔惠普曙光中科第一二三四五"
    "六七八九十百千万零甲乙丙丁戊己庚辛东西南北上下左右前后大小旧高低正常状态是否有无可用已未使据心园座栋室厅年月日"
    "时公司团技术信息移动通云阿里腾讯度字京海广州深圳杭成都武汉安重庆天津苏贵阳张家口怀来乌兰察布呼和浩特廊坊宁夏卫"
    "香港台湾条根个块台套片颗插接线缆光模组件系统盘卷速缓冲控制频核热冷风扇液温力质保期货到验收测试人员名称类别规格"
    "参配要求单价总金额税率的不了在我他这们地出会也你对生能而子那得于着自之过发作道行所然种事成方多经么去法学如现当"
    "没面起看定分还进好部其些样实本开但因只从者意它与长把民此工情明性知全又关由问很最并物手应向头文体相见被利什等"
    "或身果加回代表化给世任先教原提立及比解水真论走义各入几认平气题活更打变何安少报结反受目再感建做必场直指许统社"
    "便空决展马基书非则界放强即像难且完设式色路记品住告程北边该交规取格确清今切院让识导争运"
)


def text(data: bytes, where: str) -> str:
    """The file's text. Raises Refused with the place of the first byte that fits none."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        found = _decoded(data, "utf-16", where)
    elif data.startswith(codecs.BOM_UTF8):
        found = _decoded(data.removeprefix(codecs.BOM_UTF8), "utf-8", where)
    else:
        found = _unmarked(data, where)
    if "\0" in found:
        at = place(found[: found.index("\0")])
        raise Refused(f"{where}: {at}: a NUL byte, as of UTF-16 without its mark; {SAVE}")
    return found


def delimiter(text: str) -> str:
    """What stands between cells: of the three that there may be, the one that the first line has most of."""
    return max(DELIMITERS, key=text.partition("\n")[0].count)


def place(before: str) -> str:
    """Line and column of what comes after this text of a file; the line alone where the text is no CSV."""
    reader = csv.reader(io.StringIO(f"{before}x", newline=""), delimiter=delimiter(before))
    try:
        [cells] = deque(reader, maxlen=1)
    except csv.Error:  # a cell of more than 128 KiB
        return f"line {len(LINE.findall(before)) + 1}"
    return f"line {reader.line_num}, column {len(cells)}"


def fault(text: str, line: int, delimiter: str) -> str:
    """Where the record that begins in this line stops being CSV: at text after a closing quote, or at a quote that
    nothing closes; the line alone where it is neither."""
    start = next((found.end() for at, found in enumerate(LINE.finditer(text), 2) if at == line), 0)
    opened, closed = -1, False
    for at in range(start, min(start + FAR, len(text))):
        char = text[at]
        if opened >= 0 and not closed:
            closed = char == '"'
        elif closed and char not in f'{delimiter}"\r\n':
            return place(text[:at])
        elif closed:
            opened, closed = (opened, False) if char == '"' else (-1, False)
        elif char == '"' and (at == start or text[at - 1] in f"{delimiter}\r\n"):
            opened = at
    return place(text[:opened]) if opened >= 0 and not closed else f"line {line}"


def _decoded(data: bytes, encoding: str, where: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        at = place(data[: error.start].decode(encoding, "replace"))
        raise Refused(f"{where}: {at}: no {encoding.upper()}, which its mark says it is; {SAVE}") from None


def _unmarked(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
    try:
        found = data.decode("gb18030")
    except UnicodeDecodeError:
        found = ""
    if not found or not _chinese(found):
        raise Refused(f"{where}: {place(before.decode('latin-1'))}: its encoding cannot be told; {SAVE}")
    return found


def _chinese(found: str) -> bool:
    """Whether every character beyond ASCII may stand in a Chinese list, and most of its hanzi are common."""
    hanzi = Counter(one for one in found if not one.isascii() and not _mark(one))
    common = sum(count for one, count in hanzi.items() if one in COMMON)
    return all(map(_hanzi, hanzi)) and (not hanzi or 2 * common > hanzi.total())


def _mark(one: str) -> bool:
    """CJK punctuation (U+3000 to U+303F), full-width forms (U+FF01 to U+FF5E), and a few others."""
    return "\u3000" <= one <= "\u303f" or "\uff01" <= one <= "\uff5e" or one in MARKS


def _hanzi(one: str) -> bool:
    """Whether it is one of GB 2312's hanzi, level 1 or 2 (rows 16 to 87)."""
    try:
        return 0xB0 <= one.encode("gb2312")[0] <= 0xF7
    except UnicodeEncodeError:
        return False
