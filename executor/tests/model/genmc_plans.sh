# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154  # genmc.sh reads this
# What genmc.sh runs. Rules are the invariants K1 to K11 of fork_queue.hpp, L1 to L7 of lifo_queue.hpp, and I1 to I7 of
# fifo_queue.hpp.

# As written.
for plan in 'pppgg|xs' 'pppggg|rss' 'ppppgg|rss' 'pppgg|xs|s' 'pgg|x|x' 'ppgg|x|x' 'pp|rx|s' 'pppgg|xs FAST=0' \
  'ppGppgg|sss ENTRIES=1' 'ppGppgg|xss ENTRIES=1' 'ppgpp|ss ENTRIES=1' 'pp|r ASKS=1' 'pp|r|r ASKS=1' 'pp|rxs ASKS=2'; do
  check fork - passes "$plan"
done
slow fork - passes 'pg|xs|xs' 'p|rxs|r ASKS=2' 'ppggp|xss ENTRIES=2'
# An owner that gets back what a request made it grant has answered that request all the same: what it puts next is
# missed. It knows that it has answered (K10).
check fork - found 'pgp|rxs ASKS=2'

for plan in 'BLOCKS=0 SHARE=0' 'BLOCKS=1 SHARE=0' 'BLOCKS=2 SHARE=0' 'BLOCKS=3 SHARE=0' 'BLOCKS=4 SHARE=0' \
  'BLOCKS=5 SHARE=0' 'BLOCKS=6 SHARE=0' 'BLOCKS=7 SHARE=0'; do
  check fifo - passes "$plan"
done

# Orders weakened.
check fork fork.set_cursor found 'pppgg|xs'
check fork fork.cursor_seen found 'pppgg|xs'
check fork fork.expose found 'pppgg|x|s'
check fork fork.claim found 'pppgg|xs' 'pppggg|rss'
check fork fork.grant found 'pp|rss ENTRIES=1'
check fork fork.take found 'pppgg|xs' 'ppgg|xx' 'pppgg|xxs' 'pppgg|x|x'
check fork fork.pend found 'pppgg|xs' 'ppgg|xx' 'pppgg|xxs'
check fork fork.enter found 'pppgg|xs' 'pppgg|xs ENTRIES=1' 'pppgg|xs ENTRIES=2' 'ppgpgg|xxs ENTRIES=1'
check fork fork.steal_finish found 'ppppp|ss ENTRIES=1' 'ppp|s|s ENTRIES=1' 'pppp|ss ENTRIES=1'
check fork fork.reuse found 'ppppp|ss ENTRIES=1' 'ppp|s|s ENTRIES=1'
# The light fence, a full one here, of the put that goes up stands for this release: so without it.
mutant fork.set_top,_no_fence_in_put fork_queue.hpp 'Fence::light();  // K10' ''
mutant fork.set_top,_no_fence_in_put fork_block.hpp 'order_of("fork.set_top", release)' relaxed
check fork fork.set_top,_no_fence_in_put found 'pGp|x ENTRIES=1'
check fork fork.top found 'pGp|x ENTRIES=1'
check fork fork.link found 'pGp|xss ENTRIES=1'
check fork fork.above found 'pGp|xss ENTRIES=1'
check fork fork.bottom_look found 'pGp|xss|s ENTRIES=1' 'ppGpp|sss|ss ENTRIES=1'
check fork fork.bottom_move found 'pGp|xss|s ENTRIES=1' 'ppGpp|sss|ss ENTRIES=1'
check fork fork.allow_puts found 'pp|r ASKS=1'
check fork fork.request found 'pp|r ASKS=1'
check fork fork.ask found 'pp|r ASKS=1'
check fork fork.forbid_puts found 'pp|r ASKS=1' 'pp|rxs ASKS=2'
for tag in publish steal_bound steal_finish reuse; do
  check fifo queue.$tag found 'BLOCKS=0 SHARE=0' 'BLOCKS=6 SHARE=0' 'BLOCKS=7 SHARE=0' 'BLOCKS=6' 'BLOCKS=7'
done
for tag in grant claim steal_finish reuse; do
  check lifo lifo.$tag found SHAPE=0 SHAPE=1
done
# Orders without which no plan that passes as written has been found to fail.
mutant fork.puts_forbidden fork_block.hpp 'return high_.load(seq_cst) == nullptr;' 'return high_.load(relaxed) == nullptr;'
check fork fork.puts_forbidden passes 'p|rxs|r ASKS=2' 'p|rxs|r FIRST="pg" ASKS=2'
mutant fork.answer fork_block.hpp 'word_.store(false, seq_cst);' 'word_.store(false, relaxed);'
check fork fork.answer passes 'pp|r ASKS=1' 'pp|rxs ASKS=2' 'p|rxs|r ASKS=2' 'p|rxs|r FIRST="pg" ASKS=2'
mutant fork.try_exposer fork_block.hpp 'return !busy_.exchange(true, acquire);' 'return !busy_.exchange(true, relaxed);'
check fork fork.try_exposer passes 'pgg|x|x' 'pgg|x|x imm'
mutant fork.end_exposer fork_block.hpp 'busy_.store(false, release);' 'busy_.store(false, relaxed);'
check fork fork.end_exposer passes 'pgg|x|x' 'pgg|x|x imm'

# Rules removed. The FIFO queue's thief compares rounds, so that its grant needs no release.
mutant I2:_compares_no_rounds fifo_block.hpp 'if (round_of(back) != round_of(first) || index_of(first) >= index_of(back)) {' \
  'if (index_of(first) >= index_of(back)) {'
check fifo I2:_compares_no_rounds found 'BLOCKS=0 SHARE=0' 'BLOCKS=6 SHARE=0' 'BLOCKS=7 SHARE=0'
# R: K3. P: the end of K4. C: each store of the cursor is a release. E: K2, where the queue is empty. D: K4. H:
# K10.
mutant R:_allows_gets_behind_its_take fork_queue.hpp 'allow_gets(here_->begin() + to);
      if (!here_->take(word, to)) continue;  // K3, K4' \
  'if (!here_->take(word, to)) continue; allow_gets(here_->begin() + to);'
check fork R:_allows_gets_behind_its_take found 'pppggg|xxs' 'pppggg|rxs' 'ppppggg|xxs'
mutant R:_takes_only_what_is_granted fork_queue.hpp 'if (!here_->take(word, to)) continue;' \
  'if (to != end && !here_->take(word, to)) continue;'
check fork R:_takes_only_what_is_granted found 'pppgg|xs' 'pppggg|xs' 'ppppgg|rss' 'ppppgg|rxs'
mutant R:_keeps_the_mark fork_block.hpp 'make_grant_at(height, to, grant_index(seen)),
                                          order_of("fork.take", acq_rel)' \
  'make_grant_at(height, to, grant_index(seen)) | (seen & grant_pending),
                                          order_of("fork.take", acq_rel)'
check fork R:_keeps_the_mark found 'pppgg|xs' 'pppggg|xs'
mutant P:_lowers_its_cursor_behind_its_take fork_queue.hpp 'if (!here_->take(word, to)) continue;' \
  'limits_.set_cursor(at + 1); const bool taken = here_->take(word, to); limits_.set_cursor(at); if (!taken) continue;'
check fork P:_lowers_its_cursor_behind_its_take found 'pppggg|xxs' 'pppggg|rxs'
# The client's light fence is a full one, and would stand for the release: so none in put, whom plans without r need not.
mutant C:_puts_have_no_fence fork_queue.hpp 'Fence::light();  // K10' ''
check fork C:_puts_have_no_fence passes 'pppgg|xs'
mutant C:_lowers_its_cursor_relaxed fork_queue.hpp 'Fence::light();  // K10' ''
mutant C:_lowers_its_cursor_relaxed fork_queue.hpp 'limits_.set_cursor(at);
    Fence::light();  // K4' 'limits_.lower_cursor(at);
    Fence::light();  // K4'
mutant C:_lowers_its_cursor_relaxed fork_block.hpp 'bool has_room' \
  'void lower_cursor(T* to) noexcept { cursor_.store(to, relaxed); }
  bool has_room'
check fork C:_lowers_its_cursor_relaxed found 'pppgg|xs'
mutant E:_allows_gets_where_it_is_empty fork_queue.hpp 'limits_.forbid_gets();
          return false;' 'return false;'
check fork E:_allows_gets_where_it_is_empty found 'pppgg|xs' 'pggpg|xs' 'ppggpgg|xs' 'pgpgg|xs' 'pgpg|sxs'
mutant D:_looks_at_low_first fork_queue.hpp 'limits_.set_cursor(at);
    Fence::light();  // K4
    if (!limits_.owns(at)) [[unlikely]] {' \
  'const bool owns = limits_.owns(at); limits_.set_cursor(at); Fence::light(); if (!owns) {'
check fork D:_looks_at_low_first found 'pppgg|xs'
mutant D:_looks_at_the_cursor_first fork_queue.hpp 'begun.marked_ = begun.top_->begin_exposure();' \
  'begun.seen_ = victim.limits_.cursor_seen(); begun.marked_ = begun.top_->begin_exposure();'
mutant D:_looks_at_the_cursor_first fork_queue.hpp 'bool fenced_ = false;' 'bool fenced_ = false; T* seen_ = nullptr;'
mutant D:_looks_at_the_cursor_first fork_queue.hpp 'private_end(*begun.top_));' \
  'distance(begun.top_->begin(), begun.seen_));'
check fork D:_looks_at_the_cursor_first found 'pppgg|xs'
check fork - found 'pppgg|xs FENCES=0'
mutant D:_no_light_fence fork_queue.hpp 'Fence::light();  // K4' ''
check fork D:_no_light_fence found 'pppgg|xs'
mutant D:_no_heavy_fence fork_queue.hpp 'if (begun.needs_fence()) Fence::heavy();  // K4, K10' ''
check fork D:_no_heavy_fence found 'pppgg|xs'
mutant K2:_keeps_its_limit_when_it_grants fork_queue.hpp 'limits_.forbid_gets();  // K2' ''
check fork K2:_keeps_its_limit_when_it_grants found 'pppggg|rss' 'ppppggg|rss'
mutant K2:_allows_puts_when_it_goes_down fork_queue.hpp 'limits_.suspend_puts();  // K2' ''
check fork K2:_allows_puts_when_it_goes_down found 'ppppppppp|s FIRST="ppgg" ENTRIES=1' 'ppp|rxs FIRST="ppgg" ENTRIES=1 ASKS=2'
mutant K5:_reuses_what_is_being_read fork_queue.hpp 'if (!next->all_stolen()) return false;  // K5' \
  'if (detail::grant_index(next->look()) != Entries) return false;'
check fork K5:_reuses_what_is_being_read found 'ppppp|ss ENTRIES=1'
mutant K9:_exposes_by_two fork_block.hpp 'return !busy_.exchange(true, acquire);' \
  'return !busy_.exchange(true, acquire) || true;'
check fork K9:_exposes_by_two found 'pgg|x|x' 'ppgg|x|x' 'pppgg|xs|x' 'pppgg|xs|xs'
mutant H:_looks_at_the_request_first fork_queue.hpp 'limits_.allow_puts(fast_ ? here_->end() : nullptr);
    if (request_.pending()) answer();  // K10' \
  'const bool asked = request_.pending(); limits_.allow_puts(fast_ ? here_->end() : nullptr); if (asked) answer();'
check fork H:_looks_at_the_request_first found 'pp|r ASKS=1'
mutant H:_forbids_before_it_asks fork_queue.hpp 'request.ask();
    limits.forbid_puts();' 'limits.forbid_puts();
    request.ask();'
check fork H:_forbids_before_it_asks found 'pp|r ASKS=1'
mutant H:_looks_at_high_before_it_puts fork_queue.hpp 'limits_.set_cursor(at + 1);
    Fence::light();  // K10
    return limits_.has_room(at);' \
  'const bool has = limits_.has_room(at); limits_.set_cursor(at + 1); Fence::light(); return has;'
check fork H:_looks_at_high_before_it_puts found 'p|rxs FIRST="pg" ASKS=2'
mutant H:_puts_have_no_fence fork_queue.hpp 'Fence::light();  // K10' ''
check fork H:_puts_have_no_fence found 'p|rxs FIRST="pg" ASKS=2'
mutant H:_counts_on_somebody_who_has_asked fork_queue.hpp 'request.pending() && limits.puts_are_forbidden()' 'request.pending()'
check fork H:_counts_on_somebody_who_has_asked found 'p|rxs|r FIRST="pg" ASKS=2'

# As written: the plans that have found something.
for each in "${wanted[@]}"; do
  [ -n "${passed[$each]:-}" ] && continue
  [[ $each = fork* ]] && check fork - passes "${each#* }"
done

# As written, at length.
for plan in 'BLOCKS=0 BATCH=2 SHARE=0' 'BLOCKS=5 BATCH=2 SHARE=0' BLOCKS=0 BLOCKS=2 BLOCKS=5 BLOCKS=7; do
  slow fifo - passes "$plan"
done
# shellcheck disable=SC2034  # genmc.sh reads it
limit=1500
slow lifo - passes SHAPE=0
