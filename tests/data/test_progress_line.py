"""The progress line on a terminal and elsewhere."""

import io

from labeltree.data import ProgressLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_elsewhere_each_message_is_one_line():
    stream = io.StringIO()
    line = ProgressLine(stream)
    for done in range(5):
        line("downloading", done, 4)
    line("checking", 0, 0)
    line.close()
    assert stream.getvalue() == "downloading\nchecking\n"


def test_on_a_terminal_the_line_is_written_over():
    stream = Terminal()
    line = ProgressLine(stream)
    line("downloading", 0, 4)
    line("downloading", 4, 4)
    line("checking", 0, 0)
    line("done", 0, 0)
    line.close()
    assert stream.getvalue() == "\rdownloading:   0%\rdownloading: 100%\n\rchecking\n\rdone\n"
