package fallback

import (
	"hash/fnv"
	"time"

	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/observe"
)

// Config says how a Postgres ledger works. Its zero value is ready: it checks
// the database and changes nothing in it.
type Config struct {
	// Schema holds the tables. Every statement names it: search_path does not
	// matter. Defaults to "public".
	Schema string
	// Migrate applies the embedded migrations when the ledger is opened, under
	// an advisory lock. Defaults to false: `redfence migrate` does it, with a
	// role that may create tables.
	Migrate bool
	// StatementTimeout bounds each statement on the server, and with 3 s more
	// the wait for its answer. A claim takes effect within about this time
	// after it was sent, or never. Defaults to 5 s.
	StatementTimeout time.Duration
	// LockTimeout bounds the wait for a row that another session has locked.
	// Defaults to 500 ms.
	LockTimeout time.Duration
	// AcquireTimeout bounds the wait for a connection of the pool. Defaults to
	// 1 s.
	AcquireTimeout time.Duration
	// MaxBatch bounds how many calls share a statement. Defaults to 512.
	MaxBatch int
	// MaxQueue bounds how many calls of one kind wait for their batch; more
	// fail with ErrOverloaded. Defaults to 8192.
	MaxQueue int
	// Sweep says how expired rows are removed. The zero value sweeps with the
	// defaults.
	Sweep Sweep
	// Listen says where wake-ups come from (R19). The zero value listens,
	// unless a pooler is in between.
	Listen Listen
	// Observer receives the ledger's events. Defaults to none.
	Observer observe.Observer
}

// withDefaults fills in what is not set and reports every problem at once.
func (c Config) withDefaults() (Config, error) {
	orString(&c.Schema, "public")
	orDuration(&c.StatementTimeout, 5*time.Second)
	orDuration(&c.LockTimeout, 500*time.Millisecond)
	orDuration(&c.AcquireTimeout, time.Second)
	orInt(&c.MaxBatch, 512)
	orInt(&c.MaxQueue, 8192)
	c.Observer = observe.Or(c.Observer)
	var list problems.List
	if len(c.Schema) > 63 {
		list.Add("Schema: a name of %d bytes: Postgres keeps 63", len(c.Schema))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"StatementTimeout", c.StatementTimeout},
		{"LockTimeout", c.LockTimeout},
		{"AcquireTimeout", c.AcquireTimeout},
	} {
		if d.value < time.Millisecond {
			list.Add("%s: %v is shorter than 1ms", d.name, d.value)
		}
	}
	if c.LockTimeout >= c.StatementTimeout {
		list.Add("LockTimeout %v is not shorter than StatementTimeout %v: a locked row would be taken for a slow statement",
			c.LockTimeout, c.StatementTimeout)
	}
	if c.MaxBatch < 1 || c.MaxBatch > 10_000 {
		list.Add("MaxBatch: %d is not between 1 and 10000", c.MaxBatch)
	}
	if c.MaxQueue < 1 {
		list.Add("MaxQueue: %d is not positive", c.MaxQueue)
	}
	var err error
	c.Sweep, err = c.Sweep.withDefaults(c.StatementTimeout)
	list.AddErr(err)
	return c, list.Err()
}

func orString(v *string, fallback string) {
	if *v == "" {
		*v = fallback
	}
}

func orDuration(v *time.Duration, fallback time.Duration) {
	if *v == 0 {
		*v = fallback
	}
}

func orInt(v *int, fallback int) {
	if *v == 0 {
		*v = fallback
	}
}

// answerTime is how long an answer may take: the statement's own bound and
// what the network and a commit need on top.
func (c Config) answerTime() time.Duration { return c.StatementTimeout + 3*time.Second }

// advisoryKey returns the key of an advisory lock for one purpose in one
// schema. Keys are per database.
func advisoryKey(schema, purpose string) int64 {
	h := fnv.New64a()
	h.Write([]byte("redfence\x00" + schema + "\x00" + purpose))
	return int64(h.Sum64())
}
