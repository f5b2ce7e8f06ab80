# SPDX-License-Identifier: Apache-2.0
"""The server's layers: a file includes only what lies in its own layer or below it."""
import pathlib
import re
import unittest

SERVER = pathlib.Path(__file__).resolve().parent.parent
LAYERS = ["base", "net", "http", "grpc", "ops", "app"]  # from below
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def allowed(folder):
    """The folders that a file of `folder` may include from."""
    if folder == "baselines":  # what the server is compared with: any of what they are built on
        return {*LAYERS[:LAYERS.index("grpc") + 1], "baselines"}
    below = {*LAYERS[:LAYERS.index(folder) + 1]}
    return below | {"baselines"} if folder == "app" else below


def upward(path, text):
    """What a file includes and must not."""
    folder = path.split("/")[0]
    return [each for each in INCLUDE.findall(text)
            if "/" in each and each.split("/")[0] not in allowed(folder)]


class Layers(unittest.TestCase):
    def test_includes_go_down_only(self):
        read = 0
        for path in sorted(SERVER.rglob("*.[hc]pp")):
            relative = path.relative_to(SERVER).as_posix()
            if relative.startswith(("tests/", "bench/")):
                continue
            read += 1
            text = path.read_text()
            self.assertEqual(upward(relative, text), [], relative)
            for each in INCLUDE.findall(text):
                if each != "bwos_version.hpp":  # made by the build
                    self.assertTrue((SERVER / each).exists(), f"{relative} includes {each}")
        self.assertGreater(read, 100)

    def test_every_file_lies_in_a_layer(self):
        folders = {each.name for each in SERVER.iterdir() if each.is_dir()}
        self.assertEqual(folders, {*LAYERS, "baselines", "tests", "bench"})

    def test_what_goes_up_is_found(self):
        self.assertEqual(upward("net/a.hpp", '#include "http/b.hpp"\n#include "base/c.hpp"\n'),
                         ["http/b.hpp"])
        self.assertEqual(upward("grpc/a.cpp", '#include <x>\n#include "baselines/b.hpp"\n'),
                         ["baselines/b.hpp"])
        self.assertEqual(upward("baselines/a.cpp", '#include "ops/b.hpp"\n'), ["ops/b.hpp"])
        self.assertEqual(upward("app/main.cpp", '#include "baselines/b.hpp"\n'), [])


if __name__ == "__main__":
    unittest.main()
