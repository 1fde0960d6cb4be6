/*
 * sn_pacing.h -- a member goes slowly until a laggard, one that is far behind in the same order, has come near.
 *
 *   a draw --sn_pacing_find()--> a laggard, or none
 *                                    |
 *       sn_pacing_may_draw() <------+   no: until the laggard has finished SN_SLOWER places for each that was drawn
 *           |                             yes: draw
 *           +--> near, gone, or too dear: go on, at full speed
 *
 * Members whose copies are exact divide the making only while they are near each other (sn_exact_share.h), and the stage
 * serves one that is behind only if the samples between fit into it. Else each sample is made twice. Where preparing is
 * the limit, members that are together are also faster than one that is behind. It then falls further back. Their orders
 * may not change. Therefore those in front go slowly for a while.
 *
 * When it pays. Let m members be in front, `left` the samples that these have yet to draw, and k members behind by no more
 * than g. To wait until they are near costs each of the m the time in which g samples are made. If they never meet, what
 * is left is made twice. So all jobs together gain if g * m <= left * k. On shared cores each of those in front gains by
 * itself then.
 *
 * Who waits, and for whom. Only a member whose training loop waits for batches (`waits` in its row's telemetry), for
 * another of which the same is true. A job whose step is the limit is never held up. Nobody waits for it, because it would not
 * come nearer. A member waits only for one that has drawn less than itself. Therefore no two wait for each other.
 *
 * How long. A laggard is waited for once an epoch, in one stretch. That ends for good when
 *
 *   it is near     it has drawn as much, but for the window in which members are peers
 *   it stands      it has finished nothing for the caller's patience: it was stopped or killed, or its user does other things
 *   it is slow     twice the time is over in which this member, were it alone, would have made the samples between
 *
 * While it goes on, the member in front draws at an eighth of its pace, so that its training goes on; and at a quarter, if
 * a batch has waited for longer than the patience. Then half of the patience is enough. Therefore a laggard that is stopped, or
 * dies, costs one wait: of one patience, or of half of one where the batch had waited for longer while the laggard went on.
 *
 * Only speed depends on what is read here: which samples a job is given, and what is in them, is the same.
 *
 * Lives in   private memory of its member; reads rows, and the progress that owners of rows publish without the lock.
 * Callers    sn_pacing_find() the lock holder; the others the member's thread, without the lock.
 * Blocking   never: the caller waits (pool/sn_copy_wait.h).
 * Ordering   relaxed: hints. A row that another member has taken over meanwhile has another order; or the same one, and then
 *            it is as good a laggard.
 * Crash      the row of a dead laggard stands still.
 */
#ifndef SN_PACING_H
#define SN_PACING_H

#include "../store/sn_serve.h"

#define SN_SLOWER 8u /* a member that waits draws at this part of the laggard's pace */

typedef struct {
    /* How fast this member's batches are taken, of late; without those that were drawn slowly. */
    uint64_t waited_ns, passed_ns, samples;
    uint32_t batches;
    uint64_t taken_at_ns; /* when the last was taken; 0: none was, or one since that was drawn slowly */
    int waits;            /* the loader is the limit, as its row says */

    /* The laggard. */
    uint32_t row; /* SN_NONE: there is no laggard */
    uint32_t order, generation, window;
    uint32_t gap, in_front;      /* samples that it was behind, and members that it was behind of, when it was found */
    uint32_t drew, drew_at;      /* by this member's last draw; what the laggard had finished then */
    uint32_t moved_at;           /* what it had finished when that was examined last */
    uint64_t began_ns, moved_ns; /* when it was first examined, and when it had last moved; 0: not examined yet */
    uint64_t turn_ns;            /* when this member was first kept from drawing, since it drew; 0: it was not yet */
    uint32_t over[SN_MAX_ROWS];  /* generations that were waited for before; 0: none */
} sn_pacing;

void sn_pacing_init(sn_pacing *regroup);

/* The training loop has taken a batch at this moment, for which it waited so long. Publishes in `row` whether the
 * loader is the limit. `slowly`: it was drawn while somebody was waited for, and says nothing about that. */
void sn_pacing_taken(sn_pacing *regroup, const sn_segment *segment, uint32_t row, uint32_t samples, uint64_t waited_ns,
                     uint64_t now_ns, int slowly);

/* After a draw of `drew` samples: whom to wait for before the next. `window`: as for sn_peers_find(). */
void sn_pacing_find(sn_pacing *regroup, const sn_client *client, uint32_t window, uint32_t left, uint32_t drew);

/* Whether a member that has drawn so much of its order may draw now. */
int sn_pacing_may_draw(sn_pacing *regroup, const sn_segment *segment, uint32_t drawn, uint64_t patience_ns,
                       uint64_t now_ns);

#endif
