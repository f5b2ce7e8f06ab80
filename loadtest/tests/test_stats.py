# SPDX-License-Identifier: Apache-2.0
import itertools
import random
import unittest
from collections import Counter
from unittest import mock

from lib import calibrate, stats
from lib.measure import Failed


def record(number, variant, value, **more):
    return {"round": number, "cell": "c", "variant": variant, "server_cpu_us": value} | more


class Quantiles(unittest.TestCase):
    def test_between_ranks(self):
        self.assertEqual(stats.quantile([4, 1, 3, 2], 0.5), 2.5)
        self.assertEqual(stats.quantile([4, 1, 3, 2], 0), 1)
        self.assertEqual(stats.quantile([4, 1, 3, 2], 1), 4)
        self.assertEqual(stats.quantile([7], 0.9), 7)


class Bootstrap(unittest.TestCase):
    def test_of_nothing_is_nothing(self):
        self.assertIsNone(stats.estimate([]))

    def test_of_equal_values_has_no_width(self):
        self.assertEqual(stats.estimate([2.0] * 10), stats.Estimate(2.0, 2.0, 2.0, 10))

    def test_of_fewer_than_three_rounds_is_their_range_and_is_shown_as_one(self):
        for values, shown in (
            ([2.0], "(2.000 to 2.000)"), ([3.0, 1.0], "(1.000 to 3.000)"), ([1.0] * 3, "[1.000, 1.000]"),
        ):  # fmt: skip
            found = stats.estimate(values)
            self.assertEqual((found.spread(), found.is_range), (shown, len(values) < 3))

    def test_is_the_same_each_time(self):
        values = [random.Random(4).random() for _ in range(15)]
        self.assertEqual(stats.estimate(values), stats.estimate(values))

    def test_covers_the_true_median_about_95_times_in_100(self):
        source = random.Random(1)
        covered = 0
        for _ in range(200):
            found = stats.estimate([source.gauss(1, 0.1) for _ in range(15)])
            covered += found.low <= 1 <= found.high
        self.assertGreaterEqual(covered, 176)
        self.assertLess(covered, 200)

    def test_narrows_with_more_rounds(self):
        source = random.Random(2)
        few = stats.estimate([source.gauss(1, 0.1) for _ in range(5)])
        many = stats.estimate([source.gauss(1, 0.1) for _ in range(200)])
        self.assertLess(many.high - many.low, few.high - few.low)

    def test_width_is_judged_on_both_sides(self):
        self.assertTrue(stats.Estimate(1.0, 0.94, 1.01, 10).wider_than(0.05))
        self.assertTrue(stats.Estimate(1.0, 0.99, 1.06, 10).wider_than(0.05))
        self.assertFalse(stats.Estimate(1.0, 0.96, 1.04, 10).wider_than(0.05))


class Ratios(unittest.TestCase):
    def test_are_taken_within_a_round(self):
        records = [record(2, "b", 10.0), record(1, "a", 3.0), record(1, "b", 2.0), record(2, "a", 5.0)]
        self.assertEqual(stats.ratios(records, "c", "a", "b", "server_cpu_us"), [1.5, 0.5])

    def test_skip_rounds_in_which_either_gave_no_figure(self):
        records = [
            record(1, "a", 3.0), record(1, "b", 2.0, errors=1),
            record(2, "a", 3.0),
            record(3, "a", 3.0), record(3, "b", None, failed="it died"),
            record(4, "a", 3.0, errors=0), record(4, "b", 4.0, errors=0),
        ]  # fmt: skip
        self.assertEqual(stats.ratios(records, "c", "a", "b", "server_cpu_us"), [0.75])


class Calibration(unittest.TestCase):
    def test_finds_the_rates_of_a_linear_machine(self):
        asked = []

        def busy(rate):
            asked.append(rate)
            return min(1.0, rate / 47_000)

        found = calibrate.find_rates(busy, [0.6, 0.8])
        self.assertAlmostEqual(found[0.6], 28_200, delta=470)
        self.assertAlmostEqual(found[0.8], 37_600, delta=470)
        self.assertEqual(len(asked), len(set(asked)), "no rate is measured twice")

    def test_ends_on_a_machine_that_jumps_over_the_share(self):
        found = calibrate.find_rates(lambda rate: 0.2 if rate < 10_000 else 0.9, [0.6])
        self.assertAlmostEqual(found[0.6], 10_000, delta=10)

    def test_a_share_out_of_reach_is_a_failure(self):
        with self.assertRaisesRegex(Failed, "60%"):
            calibrate.find_rates(lambda rate: 0.5, [0.6])


class Peak(unittest.TestCase):
    def test_is_found_within_its_tolerance(self):
        peak = calibrate.find_peak(lambda rate: rate < 47_000)
        self.assertLessEqual(peak, 47_000)
        self.assertGreater(peak, 47_000 * 0.95)

    def test_a_few_bad_runs_of_a_rate_do_not_decide(self):
        tries = Counter()

        def keeps_up(rate):
            tries[rate] += 1
            return rate < 47_000 and tries[rate] == calibrate.TRIES

        self.assertGreater(calibrate.find_peak(keeps_up), 47_000 * 0.95)

    def test_a_server_that_keeps_up_with_all_or_nothing_is_a_failure(self):
        for keeps_up in (True, False):
            with self.assertRaises(Failed):
                calibrate.find_peak(lambda rate: keeps_up)


class RankTest(unittest.TestCase):
    def test_known_values(self):
        # The ages of SciPy's example: U = 17; 1/9 exactly, 0.1113 by the normal approximation.
        ours, theirs = [19, 22, 16, 29, 24], [20, 11, 17, 12]
        self.assertAlmostEqual(stats.mann_whitney(ours, theirs), 1 / 9, places=12)
        self.assertAlmostEqual(stats.mann_whitney(theirs, ours), 1 / 9, places=12)
        with mock.patch.object(stats, "EXACT_MAX", 0):
            self.assertAlmostEqual(stats.mann_whitney(ours, theirs), 0.11134688653314041, places=12)

    def test_samples_that_lie_apart_are_two_of_all_divisions(self):
        self.assertAlmostEqual(stats.mann_whitney([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), 2 / 252, places=12)

    def test_with_ties_it_counts_all_divisions(self):
        source = random.Random(3)
        for n, m in ((3, 4), (5, 5), (2, 6)):
            both = [source.randrange(4) for _ in range(n + m)]
            below = lambda ours, theirs: sum((a < b) + (a == b) / 2 for a in ours for b in theirs)  # noqa: E731
            off = abs(below(both[:n], both[n:]) - n * m / 2)
            divisions = list(itertools.combinations(range(n + m), n))
            as_far = sum(
                abs(below([both[i] for i in chosen], [both[i] for i in range(n + m) if i not in chosen]) - n * m / 2)
                >= off
                for chosen in divisions
            )
            self.assertAlmostEqual(stats.mann_whitney(both[:n], both[n:]), as_far / len(divisions), places=12)

    def test_the_approximation_continues_the_exact_test_also_with_ties(self):
        source = random.Random(5)
        for _ in range(20):
            ours, theirs = ([source.randrange(4) + shift for _ in range(19)] for shift in (0, 1))
            exact = stats.mann_whitney(ours, theirs)
            with mock.patch.object(stats, "EXACT_MAX", 0):
                self.assertAlmostEqual(stats.mann_whitney(ours, theirs), exact, delta=0.01)

    def test_equal_values_and_no_values_differ_in_nothing(self):
        self.assertEqual(stats.mann_whitney([3.0] * 5, [3.0] * 7), 1)
        self.assertEqual(stats.mann_whitney([3.0] * 50, [3.0] * 70), 1)
        self.assertEqual(stats.mann_whitney([], [1.0]), 1)

    def test_it_errs_about_once_in_twenty(self):
        source = random.Random(8)
        found = [stats.mann_whitney(*([source.random() for _ in range(10)] for _ in range(2))) for _ in range(400)]
        self.assertTrue(8 <= sum(p < 0.05 for p in found) <= 32)

    def test_strata_count_all_divisions_within_each_also_with_ties(self):
        source = random.Random(4)
        for sizes in ((2, 2), (3, 1), (2, 4)), ((1, 1), (4, 2)), ((3, 3), (3, 3)):
            strata = [tuple([source.randrange(5) for _ in range(n)] for n in both) for both in sizes]

            def divided(ours, theirs):
                """The rank sums of theirs, less what is expected and weighted, for each division of the values."""
                both = ours + theirs
                ranks = [sum((b < a) + (b == a) / 2 for b in both) + 0.5 for a in both]
                expected = len(theirs) * (len(both) + 1) / 2
                return [(sum(ranks[i] for i in chosen) - expected) / (len(both) + 1)
                        for chosen in itertools.combinations(range(len(both)), len(theirs))]  # fmt: skip

            sums = [sum(each) for each in itertools.product(*(divided(*both) for both in strata))]
            off = sum(divided(ours, theirs)[-1] for ours, theirs in strata)  # the last division is theirs
            wanted = sum(abs(each) >= abs(off) - 1e-9 for each in sums) / len(sums)
            found, p = stats.van_elteren(strata)
            self.assertAlmostEqual(p, wanted, places=12)
            self.assertEqual(found > 0, off > 1e-9)

    def test_strata_add_up_to_what_none_of_them_can_say(self):
        apart = ([1, 2, 3, 4], [5, 6, 7, 8])
        self.assertAlmostEqual(stats.van_elteren([apart])[1], 2 / 70)
        self.assertAlmostEqual(stats.van_elteren([apart] * 3)[1], 2 / 70**3)
        self.assertEqual(stats.van_elteren([apart, apart[::-1]]), (0, 1))
        self.assertEqual(stats.van_elteren([([], [1.0]), ([2.0], [])]), (0, 1))

    def test_the_approximation_over_strata_is_near_and_its_tail_not_below(self):
        source = random.Random(6)
        for shift in (0, 0.3, 1, 3):
            strata = [([source.random() for _ in range(4)], [shift + source.random() for _ in range(m)])
                      for m in (4, 4, 2, 4)]  # fmt: skip
            _, exact = stats.van_elteren(strata)
            with mock.patch.object(stats, "EXACT_MAX", 0):
                _, near = stats.van_elteren(strata)
            self.assertAlmostEqual(near, exact, delta=0.02)
            self.assertGreaterEqual(near, exact if exact < 1e-4 else 0)

    def test_students_t_has_the_values_of_the_tables(self):
        for t, degrees in ((12.706, 1), (4.303, 2), (3.182, 3), (2.776, 4), (2.447, 6), (2.365, 7), (2.228, 10)):
            self.assertAlmostEqual(stats.student(t, degrees), 0.05, delta=5e-5)
            self.assertEqual(stats.student(-t, degrees), stats.student(t, degrees))
        self.assertAlmostEqual(stats.student(5.959, 6), 0.001, delta=1e-6)
        self.assertEqual(stats.student(0, 5), 1)

    def test_what_the_strata_of_a_round_share_is_no_evidence(self):
        of = lambda *values: dict(enumerate(values))  # noqa: E731
        apart = (of(1, 2, 3, 4), of(5, 6, 7, 8))
        self.assertAlmostEqual(stats.by_whole_rounds([apart]), stats.student(4 / (5 / 6) ** 0.5, 6))
        self.assertAlmostEqual(stats.by_whole_rounds([apart] * 20), stats.by_whole_rounds([apart]))
        unlike = (of(4, 3, 2, 1), of(8, 7, 6, 5))
        self.assertLess(stats.by_whole_rounds([apart, unlike]), 1e-9, "rounds that share nothing scatter less together")
        self.assertLess(stats.by_whole_rounds([apart, apart, (of(1, 2, 3, 4), of(5, 6, 7, 1e9))]), 0.05)

    def test_whole_rounds_that_are_alike_or_too_few_say_nothing(self):
        self.assertEqual(stats.by_whole_rounds([({1: 3.0, 2: 3.0}, {1: 3.0, 2: 3.0})]), 1)
        self.assertEqual(stats.by_whole_rounds([({1: 1.0, 2: 1.0}, {1: 3.0, 2: 3.0})]), 0)
        self.assertEqual(stats.by_whole_rounds([({1: 1.0}, {1: 2.0, 2: 2.1})] * 30), 1)

    def test_holms_correction(self):
        for given, wanted in (([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]), ([0.5, 0.6], [1, 1]), ([], [])):
            for got, expected in itertools.zip_longest(stats.holm(given), wanted):
                self.assertAlmostEqual(got, expected)


if __name__ == "__main__":
    unittest.main()
