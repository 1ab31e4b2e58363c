package redfence

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/keyring"
	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/observe"
)

// Config says what an Engine is made of. Nodes and Ledger are required.
type Config struct {
	// Nodes are clients of independent Redis masters, an odd number of them,
	// usually 5. They stay the caller's: Close does not close them. Their
	// options must have ContextTimeoutEnabled set and MaxRetries -1;
	// lock.Dial makes such clients.
	Nodes []redis.UniversalClient
	// CacheNodes keep the cache of responses, if not Nodes.
	CacheNodes []redis.UniversalClient
	// OnOtherNodes says what New does when the engines of the ledger have
	// recorded other nodes. Defaults to WarnOfOtherNodes.
	OnOtherNodes OtherNodes
	// Ledger arbitrates claims and keeps responses: fallback.Open, or
	// fallback.NewMemory for one process without durability. It stays the
	// caller's.
	Ledger fallback.Ledger
	// Policy is used by requests that bring none.
	Policy Policy
	// Owner names this process in the ledger, for people. Defaults to host
	// name and process id.
	Owner string
	// Secrets key fingerprints and authenticate cached records, so that a
	// forged record is a miss. The first is used for what is new, the others
	// for what is there: put a new one first, and drop an old one when the
	// longest retention is over. Defaults to none.
	Secrets []Secret
	// Seal encrypts stored responses under the first secret (AES-256-GCM).
	Seal bool
	// NodeTimeout is the deadline of one command at one Redis node.
	// Until its breaker opens, a dead node costs a request this much at most.
	// Defaults to 400 ms.
	NodeTimeout time.Duration
	// LedgerTimeout is the deadline of one statement at the ledger as its
	// caller sees it. Defaults to 5 s.
	LedgerTimeout time.Duration
	// CacheTTL bounds how long Redis keeps a response, whatever its
	// retention. Defaults to 24 h.
	CacheTTL time.Duration
	// CacheMaxBytes stops cache puts at a node whose used_memory has reached
	// it; 60 % of its maxmemory stops them in any case. Defaults to no bound
	// of its own.
	CacheMaxBytes int64
	// NearCache bounds the responses that this process keeps in memory, in
	// bytes; each answers for at most 30 s, also after Forget elsewhere.
	// Defaults to 32 MiB; negative: none.
	NearCache int64
	// MaxResponse is the largest encoded response that is recorded, in
	// bytes. A larger one goes to its own caller and leaves a tombstone:
	// duplicates get ErrNotReplayable. Defaults to 1 MiB.
	MaxResponse int
	// MaxInFlight bounds the keys that this engine runs at once; the next
	// one gets ErrOverloaded. Defaults to 10,000.
	MaxInFlight int
	// MaxCompleting bounds the completions that wait for the ledger to come
	// back. Beyond it a key is left to its lease: unknown under Hold, taken
	// over under Retry. Defaults to 10,000.
	MaxCompleting int
	// TrustClients accepts clients whose options cannot be read.
	TrustClients bool
	// Observer receives events. Defaults to none.
	Observer observe.Observer
}

// A Secret is a key with the id that records name it by.
type Secret struct {
	// ID is 1 to 255; 0 stands for no secret.
	ID uint8
	// Key has at least 16 bytes.
	Key []byte
}

func (c Config) keyring() (*keyring.Ring, error) {
	list := make([]keyring.Secret, len(c.Secrets))
	for i, s := range c.Secrets {
		list[i] = keyring.Secret{ID: s.ID, Bytes: s.Key}
	}
	return keyring.New(list...)
}

const (
	defaultNodeTimeout   = node.DefaultTimeout
	defaultLedgerTimeout = 5 * time.Second
	defaultCacheTTL      = 24 * time.Hour
	defaultNearCache     = 32 << 20
	defaultMaxResponse   = 1 << 20
	defaultMaxInFlight   = 10_000
	defaultMaxCompleting = 10_000
)

func (c Config) withDefaults() Config {
	setDefault(&c.Owner, processName())
	setDefault(&c.NodeTimeout, defaultNodeTimeout)
	setDefault(&c.LedgerTimeout, defaultLedgerTimeout)
	setDefault(&c.CacheTTL, defaultCacheTTL)
	setDefault(&c.NearCache, defaultNearCache)
	setDefault(&c.MaxResponse, defaultMaxResponse)
	setDefault(&c.MaxInFlight, defaultMaxInFlight)
	setDefault(&c.MaxCompleting, defaultMaxCompleting)
	c.Policy = c.Policy.withDefaults()
	c.Observer = observe.Or(c.Observer)
	return c
}

// Validate reports every problem that can be seen without a connection, all
// at once.
func (c Config) Validate() error {
	var list problems.List
	c.withDefaults().check(&list)
	return list.Err()
}

func (c Config) check(list *problems.List) {
	switch n := len(c.Nodes); {
	case n == 0:
		list.Add("Nodes: none; give an odd number of independent Redis masters, usually 5 (lock.Dial makes clients)")
	case n%2 == 0:
		list.Add("Nodes: %d is even; a majority needs an odd number: add one or leave one out", n)
	}
	if c.OnOtherNodes > MoveToNodes {
		list.Add("OnOtherNodes: unknown value %d", c.OnOtherNodes)
	}
	if c.Ledger == nil {
		list.Add("Ledger: none; open Postgres with fallback.Open, or use fallback.NewMemory for one process")
	}
	if _, err := c.keyring(); err != nil {
		list.Add("Secrets: %w", err)
	}
	if c.Seal && len(c.Secrets) == 0 {
		list.Add("Seal: needs Secrets")
	}
	positive := func(name string, d time.Duration) {
		if d < 0 {
			list.Add("%s: %v is negative", name, d)
		}
	}
	positive("NodeTimeout", c.NodeTimeout)
	positive("LedgerTimeout", c.LedgerTimeout)
	positive("CacheTTL", c.CacheTTL)
	count := func(name string, n int) {
		if n < 0 {
			list.Add("%s: %d is negative", name, n)
		}
	}
	count("MaxResponse", c.MaxResponse)
	count("MaxInFlight", c.MaxInFlight)
	count("MaxCompleting", c.MaxCompleting)
	c.Policy.check(list, "Policy")
}
