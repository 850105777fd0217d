/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.pml: decoupled signaling (docs/ordering.md; arXiv 2605.00686, algorithm 1) under three ways to
 * keep its fence: the proxy drains, the fence flag goes with the next operation, or the lane
 * keeps order.
 *
 * MEMBERS thread blocks put to one peer and arrive at a counter; whoever arrives last in a round
 * submits a fence and all signals. A stranger to the group puts and signals to another peer through
 * the same proxy meanwhile. The proxy takes descriptors in order, a post may be refused; the fabric
 * delivers what is on its way to a peer in any order, unless it keeps order, and holds an operation
 * with a flag, and what comes behind it to that peer, until all before it is delivered.
 *
 * Never: a signal is visible before the puts of its round. At the end: every signal, once.
 *
 *   spin -a -DMODE=0 group.pml     0 drain, 1 nic-fence, 2 fifo
 *   -DROUNDS=3                     more rounds, without the stranger
 *   -DMUTANT=n                     a defect, which the check must find
 */
#ifndef MODE
#define MODE 1
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#ifndef ROUNDS
#define ROUNDS 2
#endif
#define STRANGER (ROUNDS < 3) /* three rounds use a parity again, which takes states enough */
#define MEMBERS 2
#define RING    2 /* descriptors */
#define FLIGHT  2 /* operations on their way, to one peer */
#define PEERS   2 /* 0: the group's, 1: the stranger's */

mtype = { PUT, FENCE, SIGNAL };

chan ring = [RING] of { mtype, byte, byte }; /* kind, peer, round */

/* src/core/rounds.c: two sets of counters, by the round's parity. */
byte arrived[2];
byte signaled;         /* rounds done */
byte puts[ROUNDS];     /* delivered to the group's peer, by round */
byte signals[ROUNDS];  /* visible there */
byte others;           /* the stranger's signals that are visible */
byte finished;         /* processes that submit, and have */

/* On its way to a peer, oldest first: what, of which round, with a flag. */
typedef lane {
    mtype kind[FLIGHT];
    byte round[FLIGHT];
    bool flag[FLIGHT];
    byte used
};
lane lanes[PEERS];
bool fence_due[PEERS]; /* the next operation to this peer carries the flag */

/* Whoever arrives last leads. A member may be one round ahead of the leader, not two. */
proctype member()
{
    byte round, seen, i;
    for (round : 0 .. ROUNDS - 1) {
#if MUTANT != 7 /* nobody waits for the leader of two rounds ago */
        round <= signaled + 1;
#endif
#if MUTANT == 1 /* arrives before its put is in the ring */
        atomic { arrived[round % 2]++; seen = arrived[round % 2] };
        ring ! PUT, 0, round;
#else
        ring ! PUT, 0, round;
        atomic { arrived[round % 2]++; seen = arrived[round % 2] };
#endif
        if
#if MUTANT == 2 /* the first to arrive leads */
        :: seen == 1 ->
#else
        :: seen == MEMBERS ->
#endif
#if MUTANT != 3 /* no fence */
            ring ! FENCE, 0, round;
#endif
            for (i : 1 .. MEMBERS) {
                ring ! SIGNAL, 0, round
            }
            arrived[round % 2] = 0;
            signaled++
        :: else
        fi
    }
    finished++
}

proctype stranger()
{
    ring ! PUT, 1, 0;
    ring ! FENCE, 1, 0;
    ring ! SIGNAL, 1, 0;
    finished++
}

inline post(what, to, of_round)
{
    /* The fabric refuses while it is full, and once for no reason. */
    do
    :: atomic { lanes[to].used < FLIGHT ->
        lanes[to].kind[lanes[to].used] = what;
        lanes[to].round[lanes[to].used] = of_round;
        lanes[to].flag[lanes[to].used] = fence_due[to];
        lanes[to].used++;
        fence_due[to] = false };
        break
    :: tries > 0 -> tries--
#if MUTANT == 4 /* the flag counts as given although the post was refused */
        ; fence_due[to] = false
#endif
    od
}

/* One channel, one FIFO. */
proctype proxy()
{
    mtype what;
    byte to, of_round, tries = 1;
end:
    do
    :: ring ? what, to, of_round ->
        if
        :: what == FENCE ->
#if MODE == 0
            /* everything to everybody */
#if MUTANT == 5 /* the other peer's fence */
            lanes[1 - to].used == 0
#else
            lanes[0].used == 0 && lanes[1].used == 0
#endif
#elif MODE == 1
#if MUTANT == 5
            fence_due[1 - to] = true
#else
            fence_due[to] = true
#endif
#else
            skip
#endif
        :: else -> post(what, to, of_round)
        fi
    od
}

inline deliver(to, index)
{
    if
    :: to == 0 && lanes[0].kind[index] == PUT -> puts[lanes[0].round[index]]++
    :: to == 0 && lanes[0].kind[index] == SIGNAL ->
        assert(puts[lanes[0].round[index]] == MEMBERS);
        signals[lanes[0].round[index]]++
    :: to == 1 && lanes[1].kind[index] == SIGNAL -> others++
    :: else
    fi;
    lanes[to].used--;
    move = index;
    do
    :: move < lanes[to].used ->
        lanes[to].kind[move] = lanes[to].kind[move + 1];
        lanes[to].round[move] = lanes[to].round[move + 1];
        lanes[to].flag[move] = lanes[to].flag[move + 1];
        move++
    :: else -> break
    od;
    /* one state for all that is over */
    lanes[to].kind[lanes[to].used] = 0;
    lanes[to].round[lanes[to].used] = 0;
    lanes[to].flag[lanes[to].used] = false;
    move = 0
}

/* What is behind a flag waits for the flag; the flag waits for all before it. */
proctype fabric(byte to)
{
    byte move;
end:
    do
    :: atomic { lanes[to].used > 0 -> deliver(to, 0) }
#if MODE != 2 || MUTANT == 6 /* order that is not there */
    :: atomic { lanes[to].used > 1 && !lanes[to].flag[0] && !lanes[to].flag[1] -> deliver(to, 1) }
#endif
    od
}

init {
    atomic {
        run member(); run member(); run proxy(); run fabric(0);
#if STRANGER
        run stranger(); run fabric(1)
#endif
    };
    finished == MEMBERS + STRANGER;
    timeout;
    byte round;
    for (round : 0 .. ROUNDS - 1) {
        assert(puts[round] == MEMBERS && signals[round] == MEMBERS)
    }
    assert(others == STRANGER)
}
