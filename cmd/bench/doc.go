// Command bench compares ways to lock and to run work once, side by side and
// in one run, because absolute figures differ from machine to machine and
// from hour to hour: rounds of the contenders are interleaved, and what counts
// is the ratio within a round.
//
// It starts five redis-servers and a Postgres of its own unless -redis and
// -postgres (or REDFENCE_BENCH_REDIS and REDFENCE_BENCH_POSTGRES) name others;
// REDIS_URL and DATABASE_URL are left alone. Each contender's promise is tested while it is
// measured; one that breaks it is not compared, and the exit code says so.
//
//	go run ./cmd/bench                     # the quick preset, about three minutes
//	go run ./cmd/bench -preset smoke       # does it work at all, in seconds
//	go run ./cmd/bench -preset full        # more callers and rounds
//	go run ./cmd/bench -target P1a,P3      # one line per target on standard output
//	go run ./cmd/bench -target all
//	go run ./cmd/bench -soak 30m           # one contender for long: do rate and heap stay flat?
package main
