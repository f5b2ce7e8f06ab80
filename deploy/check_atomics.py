#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every atomic access says which it is, what its order does, and with whom it pairs; this script fails otherwise.

The comment stands directly above the statement with the access, or above the function that contains it:

    // [area.name] order: reason, over as many lines as it takes. Partner: [area.other].
    flag_.store(true, release);

- area.name: lower case, with one dot or more, unique in the whole tree. order: relaxed, acquire, release, acq_rel or
  seq_cst, the one written in the access; of a compare-exchange the one of success, or both: `acq_rel/relaxed`.
- reason: at least three words, for relaxed too.
- Partner: one or more tags that exist, or `none (why)`, e.g. `Partner: none (statistics).` or `none, why`.
- Several accesses below one comment: the comment carries one `[tag] order: ... Partner: ...` for each, in the
  order of their evaluation.
- At most 12 lines of code lie between the comment and its last access.
- An access names its order literally, either `relaxed` or `std::memory_order_relaxed`; where it is wrapped in
  order_of("area.name", release), the name is its own tag.

Seen as accesses: .load .store .exchange .compare_exchange_* .fetch_* .test_and_set, the fences, and the free functions
std::atomic_load and so on. Refused: ++, --, assignment and implicit loads of a variable declared as std::atomic in the
same file (or in its .hpp/.cpp twin); std::atomic_flag, whose clear() looks like a container's; compiler builtins.

Usage: check_atomics.py FOLDER_OR_FILE...        exit 0: all well; 1: complaints on stderr, or no access found at all
       check_atomics.py --self-test
"""
import pathlib
import re
import sys

ORDERS = r"(?:relaxed|acquire|release|acq_rel|seq_cst)"
TAG = r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+"
DECLARATION = re.compile(rf"\[({TAG})\]\s+({ORDERS}(?:/{ORDERS})?):")
PARTNER = re.compile(rf"\bPartners?:\s*(none(?:\s*\(|,\s*)\w[^)]+|\[{TAG}\](?:(?:,| and|, and)?\s*\[{TAG}\])*)")
MEMBER = (r"(?:\.|->)\s*(?:load|store|exchange|compare_exchange_(?:weak|strong)|fetch_(?:add|sub|and|or|xor)"
          r"|test_and_set)\s*\(")
FREE = (r"\batomic_(?:thread_fence|signal_fence|(?:load|store|exchange|compare_exchange_(?:weak|strong)"
        r"|fetch_(?:add|sub|and|or|xor))(?:_explicit)?)\s*\(")
ACCESS = re.compile(f"{MEMBER}|{FREE}")
FORBIDDEN = re.compile(r"\b(?:__atomic_\w+|__sync_\w+|atomic_flag)\b")
ATOMIC_VARIABLE = re.compile(
    r"\b(?:std::)?atomic(?:<(?:[^<>;]|<[^<>;]*>)*>|_(?:bool|int|uint|size_t|u?int\d+_t))[>\s]+(\w+)\s*(?:\[[^\]]*\]\s*)?[;={]")
LINES_BETWEEN_MAX = 12


class access:
    def __init__(self, line, end, text):
        self.line, self.end = line, end
        self.orders = re.findall(rf"\b(?:memory_order_)?({ORDERS})\b", text)
        self.named = re.findall(rf'order_of\(\s*"({TAG})"', text)


class tag:
    def __init__(self, path, line, name, order, text):
        self.path, self.line, self.name, self.orders = path, line, name, order.split("/")
        partner = PARTNER.search(text)
        self.partners = None
        if partner:
            self.partners = [] if partner[1].startswith("none") else re.findall(TAG, partner[1])
            text = text[:partner.start()]
        self.reason_words = len(text.split())


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def split_code(text):
    """The text without comments, and without comments and string contents; both of the same shape."""
    token = re.compile(r'"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/', re.S)
    code = token.sub(lambda m: blank(m) if m[0][0] == "/" else m[0], text)
    bare = token.sub(blank, text)
    return code, bare


def call_end(bare, opening):
    depth = 0
    for i in range(opening, len(bare)):
        depth += {"(": 1, ")": -1}.get(bare[i], 0)
        if depth == 0:
            return i
    return len(bare)


def find_accesses(code, bare):
    found = []
    for match in ACCESS.finditer(bare):
        end = call_end(bare, match.end() - 1)
        inner = [(m.end(), call_end(bare, m.end() - 1)) for m in ACCESS.finditer(bare, match.end(), end)]
        text = "".join(code[i] for i in range(match.end(), end) if not any(a <= i < b for a, b in inner))
        found.append(access(bare.count("\n", 0, match.start()) + 1, end, text))
    return sorted(found, key=lambda one: one.end)  # an access in another's arguments is evaluated first


def find_comments(path, text):
    """Comment blocks that declare tags: (first line, last line, tags)."""
    lines = text.split("\n")
    blocks, start = [], None
    for number, line in enumerate(lines + [""], 1):
        if line.lstrip().startswith("//"):
            start = start or number
            continue
        if start:
            body = "\n".join(re.sub(r"^\s*/{2,}<?", "", part) for part in lines[start - 1:number - 1])
            found = list(DECLARATION.finditer(body))
            ends = [m.start() for m in found[1:]] + [len(body)]
            tags = [tag(path, start + body.count("\n", 0, m.start()), m[1], m[2], body[m.end():end])
                    for m, end in zip(found, ends)]
            if tags:
                blocks.append((start, number - 1, tags))
            start = None
    return blocks


def operator_forms(bare, names):
    for name in sorted(names):
        # A name that is also a plain variable in this file is looked at only where it is reached through an object.
        declared = re.search(rf"\b(?!return\b)[\w>]+[&*\s]+{name}\s*(?:=|;|,|\)|{{)", ATOMIC_VARIABLE.sub("", bare))
        value = rf"(?<![\w.:])(?:this->|\w+(?:\.|->)){'+' if declared else '*'}{name}\b"
        patterns = (rf"(?:\+\+|--)\s*{value}(?!\s*(?:\.|->|\())", rf"{value}\s*(?:\+\+|--|[-+|&^]=)",
                    rf"(?<![>&*\w]\s){value}\s*=(?!=)",
                    rf"(?:\breturn\s+|\b(?:if|while)\s*\(|!\s*|&&\s*|\|\|\s*){value}\s*(?:[;)<>]|==|!=|&&|\|\|)")
        for pattern in patterns:
            for match in re.finditer(pattern, bare):
                yield bare.count("\n", 0, match.start()) + 1, name


def check_file(path, text, names_of_twin=()):
    """Complaints of this file as (line, text), its tags, and its number of accesses."""
    code, bare = split_code(text)
    accesses, blocks = find_accesses(code, bare), find_comments(path, text)
    complaints = [(bare.count("\n", 0, m.start()) + 1, f"{m[0]}: use std::atomic's members")
                  for m in FORBIDDEN.finditer(bare)]
    names = set(ATOMIC_VARIABLE.findall(bare)) | set(names_of_twin)
    complaints += [(line, f"{name} is used without a member function: the order is implicit")
                   for line, name in operator_forms(bare, names)]
    taken = {i: [] for i in range(len(blocks))}
    for one in accesses:
        above = [i for i, (_, last, _) in enumerate(blocks) if last < one.line]
        code_lines = bare.split("\n")[blocks[above[-1]][1]:one.line - 1] if above else []
        if not above or sum(1 for line in code_lines if line.strip()) > LINES_BETWEEN_MAX:
            complaints.append((one.line, "atomic access without a comment `// [area.name] order: reason. Partner: ...`"))
        else:
            taken[above[-1]].append(one)
        if not one.orders:
            complaints.append((one.line, "atomic access without an explicit memory order"))
    for i, (start, _, tags) in enumerate(blocks):
        if len(tags) != len(taken[i]):
            complaints.append((start, f"{len(tags)} tag(s) here, but {len(taken[i])} access(es) below"))
            continue
        for mine, one in zip(tags, taken[i]):
            if one.orders and mine.orders not in (one.orders, one.orders[:1]):
                complaints.append((one.line, f"[{mine.name}] says {'/'.join(mine.orders)}, "
                                             f"the access {'/'.join(one.orders)}"))
            if one.named and one.named != [mine.name]:
                complaints.append((one.line, f"order_of names {one.named[0]}, the comment [{mine.name}]"))
    found = [mine for _, _, tags in blocks for mine in tags]
    for mine in found:
        if mine.reason_words < 3:
            complaints.append((mine.line, f"[{mine.name}] gives no reason"))
        if mine.partners is None:
            complaints.append((mine.line, f"[{mine.name}] names no partner"))
    return complaints, found, len(accesses)


def check(sources):
    """`sources`: path to text. Returns complaints as lines of text, and the number of accesses."""
    report, seen, count, all_tags = [], {}, 0, []
    atomics = {path: set(ATOMIC_VARIABLE.findall(split_code(text)[1])) for path, text in sources.items()}
    for path, text in sorted(sources.items()):
        twin = next((atomics[other] for other in (str(path)[:-4] + end for end in (".hpp", ".cpp"))
                     if other != path and other in atomics), ())
        complaints, found, accesses = check_file(path, text, twin)
        report += [f"{path}:{line}: {what}" for line, what in sorted(complaints)]
        all_tags += found
        count += accesses
    for mine in all_tags:
        if mine.name in seen:
            first = seen[mine.name]
            report.append(f"{mine.path}:{mine.line}: [{mine.name}] exists already at {first.path}:{first.line}")
        seen.setdefault(mine.name, mine)
    for mine in all_tags:
        report += [f"{mine.path}:{mine.line}: partner [{other}] of [{mine.name}] does not exist"
                   for other in mine.partners or () if other not in seen]
    return report, count


GOOD = """
// [a.set] release: publishes the data before it. Partner: [a.get].
void set() { flag_.store(true, std::memory_order_release); }
// [a.get] acquire: sees the data published. Partner: [a.set].
bool get() { return flag_.load(acquire); }
// [a.b.claim] acq_rel/relaxed: one thread wins it. Partner: [a.set] and
// [a.get]. [a.count] relaxed: shown to people only. Partner: none (statistics).
void claim() {
  bool no = false;  // text like flag_.load() in a comment or ".load(" in a string is no access
  flag_.compare_exchange_strong(
      no, true, acq_rel,
      relaxed);
  count_->fetch_add(1, order_of("a.count", relaxed));
}
// [a.own] relaxed: nobody else writes it. Partner: none, own store.
// [a.add] release: publishes what it counts. Partner: [a.get].
void add() { count_->store(count_->load(relaxed) + 1, release); }
// [a.try] acquire: only success publishes. Partner: [a.set].
void attempt() { flag_.compare_exchange_weak(no, true, acquire, relaxed); }
std::atomic<bool> flag_{false};
struct padded { std::atomic<int> value{0}; };
int f(int value) { return value; }
"""
BAD = {  # what must be said: the snippet
    "without a comment": "void f() { x.load(relaxed); }",
    "without an explicit memory order": "// [a.b] relaxed: some good reason. Partner: none (alone).\nx.load();",
    "1 tag(s) here, but 2": "// [a.b] relaxed: some good reason. Partner: none (alone).\nx.load(relaxed);\nx.load(relaxed);",
    "1 tag(s) here, but 0": "// [a.b] relaxed: some good reason. Partner: none (alone).\nint x;",
    "[a.b] says relaxed, the access acquire":
        "// [a.b] relaxed: some good reason. Partner: none (alone).\nx.load(acquire);",
    "the access acq_rel/relaxed":
        "// [a.b] release: some good reason. Partner: none (alone).\nx.compare_exchange_weak(a, b, acq_rel, relaxed);",
    "gives no reason": "// [a.b] relaxed: fast. Partner: none (alone).\nx->store(1, relaxed);",
    "names no partner": "// [a.b] relaxed: some good reason.\nx.store(1, relaxed);",
    "partner [a.c] of [a.b] does not exist": "// [a.b] relaxed: some good reason. Partner: [a.c].\nx.store(1, relaxed);",
    "exists already": "// [a.b] relaxed: some good reason. Partner: none (alone).\nx.store(1, relaxed);\n" * 2,
    "order_of names a.c":
        '// [a.b] release: some good reason. Partner: none (alone).\nx.store(1, order_of("a.c", release));',
    "atomic_flag: use": "std::atomic_flag f;",
    "__atomic_load_n: use": "__atomic_load_n(&x, 0);",
}
FENCE = "void f() { std::atomic_thread_fence(std::memory_order_seq_cst); }"
FAR = "// [a.b] relaxed: some good reason. Partner: none (alone).\n" + "int y;\n" * 13 + "x.load(relaxed);"
OPERATORS = ("void f() { ++n_; }", "void f() { n_++; }", "void f() { n_ += 2; }", "void f() { n_ = 2; }",
             "void f() { this->n_ = 2; }", "int f() { return n_; }", "void f() { if (n_) g(); }",
             "void f() { while (!n_) g(); }", "void f() { if (a && o.n_ > 2) g(); }")


def self_test():
    failures = []

    def expect(what, snippet, extra=None):
        report, _ = check({"x.hpp": snippet, **(extra or {})})
        if not any(what in line for line in report):
            failures.append(f"expected a complaint '{what}' about:\n{snippet}\ngot: {report}")

    report, count = check({"good.hpp": GOOD})
    if report or count != 7:
        failures.append(f"the good text: {count} accesses, {report}")
    for what, snippet in BAD.items():
        expect(what, snippet)
    expect("without a comment", FENCE)
    expect("without a comment", FAR)
    for snippet in OPERATORS:
        expect("n_ is used without", f"std::atomic<int> n_{{0}};\n{snippet}")
        expect("n_ is used without", snippet, {"x.cpp": "std::atomic<std::uint32_t> n_ = 0;"})
    expect("value is used without", "struct p { std::atomic<int> value{0}; }; int f(int value) { return o.value; }")
    if check({"x.hpp": "int x;"})[1] != 0:
        failures.append("an access was seen where there is none")
    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"self-test: {len(BAD) + 2 * len(OPERATORS) + 5} expectations, {len(failures)} failed")
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    files = []
    for argument in map(pathlib.Path, arguments):
        files += [argument] if argument.is_file() else [p for p in argument.rglob("*") if p.suffix in (".hpp", ".cpp")]
    report, count = check({str(path): path.read_text() for path in files})
    for line in report:
        print(line, file=sys.stderr)
    print(f"{count} atomic accesses in {len(files)} files, {len(report)} complaints")
    return 0 if count > 0 and not report else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
