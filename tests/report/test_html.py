from __future__ import annotations

import json
import re

from drawn_runs import EVIL
from hloop.report.html import data_block, element, file_href, page, text, visible


def test_a_text_is_escaped():
    assert text("<b>&\"'") == "&lt;b&gt;&amp;&quot;&#x27;"


def test_markup_is_not_escaped_again():
    assert element("p", element("b", "x")) == "<p><b>x</b></p>"


def test_an_attribute_cannot_end_early():
    assert element("a", "x", href='"><script>') == '<a href="&quot;&gt;&lt;script&gt;">x</a>'


def test_what_cannot_be_seen_is_shown_by_its_escape():
    assert visible("a\x00b\u202ec\ud800\nd") == "a\\x00b\\u202ec\\ud800\nd"


def test_no_text_ends_a_block_of_data():
    assert data_block("data", [EVIL]).count("</script>") == 1


def test_a_block_of_data_is_read_back():
    block = data_block("data", {"name": "</script>&<!--"})
    assert json.loads(block.split(">", 1)[1].removesuffix("</script>")) == {
        "name": "</script>&<!--"
    }


def test_a_link_leads_to_a_file_below_the_page_and_nowhere_else():
    assert file_href("javascript:alert(1)") == "./javascript%3Aalert%281%29"


def test_a_page_allows_nothing_but_what_is_in_it():
    policy = re.search(r'content="(default-src[^"]*)"', page("t", text("")))
    assert policy and policy[1].startswith("default-src 'none'; script-src 'none'; style-src 'sha")


def test_a_page_can_be_written_whatever_its_title_holds():
    assert b"\\ud800" in page("\ud800", text("\ud800")).encode()
