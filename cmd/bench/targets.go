package main

import "github.com/redfence/redfence/cmd/bench/internal/contend"

// targets are the project's performance targets: gate must hold, goal is
// what we are after. Figures are ratios within one run.
func targets() []target {
	return []target{
		{
			id: "P1a", work: "lock and unlock on 5 nodes, 128 callers, unguarded",
			gate: "6x, 0.5", goal: "8x, 0.65", run: lockRate(contend.Unguarded, 6, 0.5, 8, 0.65),
		},
		{
			id: "P1b", work: "the same, stand-alone: restart guard and fence on",
			gate: "5x, 0.45", goal: "8x, 0.65", run: lockRate(contend.Guarded, 5, 0.45, 8, 0.65),
		},
		{
			id: "P2", work: "P1b with one caller",
			gate: "p50 1x of redsync's", goal: "0.7x", run: oneCaller,
		},
		{
			id: "P3", work: "P1b with 1 and 2 nodes hung or killed, after 1 s",
			gate: "0.8x of healthy, p99 2x", goal: "as healthy", run: sickness,
		},
		{
			id: "P4", work: "hand-off between processes, 5 nodes",
			gate: "p50 1.5 ms, p95 5 ms, 50x faster than redsync", goal: "p50 0.8 ms", run: handOff,
		},
		{
			id: "P5", work: "Do, fresh keys, durable, 128 and 512 callers",
			gate: "5x, 8x of the naive durable composition", goal: "7x, 10x", run: freshRate,
		},
		{
			id: "P6", work: "Do, fresh keys, one caller",
			gate: "p50 1x of the naive durable composition's", goal: "0.7x", run: freshLatency,
		},
		{
			id: "P7", work: "replay from Redis, 128 callers",
			gate: "4x of a plain GET", goal: "7x; near cache 1,000,000/s", run: replayRate,
		},
		{
			id: "P8", work: "duplicate storm, 256 callers in 4 processes, 1 request in 10 fresh",
			gate: "2 statements per key, 3x of the ledger alone", goal: "5x", run: storm,
		},
		{
			id: "P9", work: "all Redis nodes killed under load and back",
			gate: "fresh keys p99 1 s, none lost, back in 3 s", goal: "200 ms, 1 s", run: outage,
		},
		{
			id: "P10", work: "growth from 10³ to 10⁶ rows",
			gate: "0.9x, memory flat", goal: "the same at 10⁷", run: growth,
		},
	}
}
