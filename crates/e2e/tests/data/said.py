"""What a program of Ceph prints, without the lines of librados' own log."""

import re


def lines(text):
    # The log's begin with a time. It may also say that a connection came in while the program left.
    return [line for line in text.splitlines() if not re.match(r"\d{4}-\d\d-\d\dT", line)]
