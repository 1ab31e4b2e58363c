/*
 * The fail-over in Promela, apart from the Go model beside it: two instances,
 * one key, no clock. Redis is a lock and a cache that can be lost at any time;
 * Postgres is a row. Each instance judges alone, and anew for each request,
 * whether Redis is there. Instances die at any step.
 *
 *   spin -a failover.pml && gcc -O2 -DSAFETY -o pan pan.c && ./pan
 *
 * -DNAIVE  what people compose in good faith: Redis decides while it is there,
 *          the row while it is not. Two arbiters: the handler starts twice.
 * -DRETRY  a lapsed claim may be taken over: the handler may start again, but
 *          one completion at most counts.
 * -DNOFENCE (with RETRY)  the completion does not compare the fence.
 * -DREPLY  (with RETRY)  the reply leaves before the completion is confirmed.
 */

#define INSTANCES 2
#define REQUESTS  2 /* of each instance, one after the other */

mtype = { absent, processing, completed, unknown };

/* Redis: lost together, or not */
byte locked;          /* who holds the lock, + 1; 0: nobody */
byte cached;          /* the response: fence of the run that made it; 0: none */

/* Postgres */
mtype row = absent;
byte fence;           /* of the claim in force */
byte response;        /* fence of the run whose completion counts */

/* what happened */
byte starts;          /* of the handler */
byte accepted;        /* completions that counted */
byte answered;        /* the first response that a client was given as durable */

inline answer(r) {
	d_step {
		if
		:: answered == 0 -> answered = r
		:: else -> assert(answered == r) /* one response, for ever */
		fi
	}
}

inline start() {
	starts++;
#ifndef RETRY
	assert(starts <= 1)
#endif
}

/* Nodes are killed and come back empty, and locks lapse while their holders
 * stand still: for safety the two are the same. */
active proctype Redis() {
	byte n;
	do
	:: n < 3 -> d_step { locked = 0; cached = 0; n++ }
	:: n < 3 -> d_step { locked = 0; n++ }
	:: break
	od
}

#ifdef NAIVE

proctype Instance(byte me) {
	byte request, seen, mine;
	do
	:: request == REQUESTS -> break
	:: else -> request++;
		if
		:: true -> goto primary
		:: true -> goto other
		:: true -> goto gone
		fi;
primary:
		seen = cached;
		if
		:: seen == 0 && row == completed -> seen = response /* on a miss */
		:: else
		fi;
		if
		:: seen != 0 -> answer(seen); goto next
		:: else
		fi;
		if
		:: d_step { locked == 0 -> locked = me + 1 }
		:: locked != 0 -> goto next /* in progress */
		fi;
		start();
		mine = starts;
		cached = mine;
		answer(mine);
		if
		:: d_step { locked == me + 1 -> locked = 0 }
		:: locked != me + 1
		fi;
		goto next;
other:
		if
		:: row == completed -> answer(response); goto next
		:: d_step { row == absent -> row = processing }
		:: row == processing -> goto next
		fi;
		start();
		mine = starts;
		d_step { row = completed; response = mine };
		answer(mine);
next:		skip
	od;
gone:	skip
}

#else

proctype Instance(byte me) {
	byte request, mine, seen;
	bool holds, again;
	do
	:: request == REQUESTS -> break
	:: else -> request++; holds = false; again = false;
		if
		:: true -> /* primary: advice only */
			seen = cached;
			if
			:: seen != 0 -> answer(seen); goto next
			:: else
			fi;
			if
			:: d_step { locked == 0 -> locked = me + 1; holds = true }
			:: locked != 0 -> goto look /* the row is read before anything is said */
			:: true /* no quorum: on to the claim all the same */
			fi
		:: true /* fallback */
		:: true -> goto gone
		fi;
claim:		if /* the one statement that decides */
		:: d_step { row == absent -> row = processing; fence++; mine = fence } -> goto handler
		:: row != absent
		fi;
look:		if
		:: row == completed -> seen = response; answer(seen); goto give
		:: row == processing -> /* in progress; or its lease has lapsed */
			if
			:: goto give
#ifdef RETRY
			:: d_step { row == processing && !again && fence < 4 -> fence++; mine = fence; again = true } -> goto handler
#else
			:: d_step { row == processing -> row = unknown } -> goto give
#endif
			fi
		:: row == unknown -> goto give /* nobody runs it again */
		:: row == absent -> goto claim
		fi;
handler:	start();
		if
		:: true -> goto gone /* the owner dies before or after its effect */
		:: true
		fi;
#ifdef REPLY
		answer(mine);
#endif
		if /* token and fence, and nothing else, say whose it is */
		:: d_step {
#ifdef NOFENCE
			(row == processing || row == completed)
#else
			(row == processing || row == unknown) && fence == mine
#endif
			-> row = completed; response = mine; accepted++ };
			assert(accepted <= 1);
			if
			:: true -> goto gone /* committed, and the reply is lost with its sender */
			:: true
			fi;
			answer(mine);
			cached = mine
		:: !((row == processing || row == unknown) && fence == mine)
			/* refused: another fence is in force, and nothing is answered */
		fi;
give:		if
		:: d_step { holds && locked == me + 1 -> locked = 0 }
		:: !(holds && locked == me + 1)
		fi;
next:		skip
	od;
gone:	skip
}

#endif

init {
	atomic { run Instance(0); run Instance(1) }
}
