// Package history is what one chaos run leaves behind: the log of handler
// starts and effects, the operations as the clients saw them, the faults, and
// the ledger's rows at the end. The checkers read nothing else, so an old run
// can be judged again.
//
// All times are offsets from the beginning of the run on the controller's
// monotonic clock.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// The kinds of an Effect.
const (
	Start = "start" // the handler was entered
	Done  = "effect"
	End   = "end" // the handler is about to return

	// Of a plain lock, whose name is the key, and of the register behind it.
	Acquired  = "acquired"
	ReadSlot  = "read"
	WriteSlot = "write"
	Releasing = "releasing" // about to send the release

	// The breaker of an instance changed; Route is the new state.
	Breaker = "breaker"
)

// The sinks that an effect may go to.
const (
	Plain         = ""              // takes everything
	Fenced        = "fenced"        // refuses a fence older than the newest that it has seen of the key
	Deduplicating = "deduplicating" // applies the first effect of a key, and acknowledges the others
)

// An Effect is one line of the recorder's log: the ground truth.
type Effect struct {
	At   time.Duration `json:"at"`
	Kind string        `json:"kind"`
	Key  string        `json:"key"`
	// Execution is drawn at random by each start of a handler and is part of
	// its response.
	Execution string `json:"execution"`
	Fence     int64  `json:"fence"`
	Attempt   int    `json:"attempt"`
	Instance  string `json:"instance"`
	// Route is primary or fallback.
	Route string `json:"route,omitempty"`
	// Sink is where the effect went; Refused, that it did not apply it.
	Sink    string `json:"sink,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	// Locker is what a plain lock was acquired from: EngineLock or Redlock.
	Locker string `json:"locker,omitempty"`
	// Value is what a register held after the line.
	Value int64 `json:"value,omitempty"`
	// Clock is when the instance wrote the line, and Valid the end of the
	// lock's validity as it then knew it. Lines of plain locks only.
	Clock time.Duration `json:"clock,omitempty"`
	Valid time.Duration `json:"valid,omitempty"`
}

// The lockers of plain locks.
const (
	EngineLock = "engine"  // Engine.Acquire
	Redlock    = "redlock" // lock.Redlock, guarded
)

// A Transfer is a row that a DoTx has written: its effect.
type Transfer struct {
	Key       string `json:"key"`
	Execution string `json:"execution"`
	From      int    `json:"from"`
	To        int    `json:"to"`
	Amount    int64  `json:"amount"`
}

// Accounts are what the transfers move money between.
type Accounts struct {
	// Opening is what each account began with, Balances what they hold in
	// the end, in order.
	Opening   int64      `json:"opening"`
	Balances  []int64    `json:"balances"`
	Transfers []Transfer `json:"transfers"`
}

// The kinds of an Op.
const (
	Fresh     = "fresh"     // the first request of a key
	Duplicate = "duplicate" // sent at the same time
	Late      = "late"      // sent after an answer was acknowledged
	Final     = "final"     // sent after the last fault, to every key
	Probe     = "probe"     // a fresh key after the last fault
)

// What an Op asks for beside the usual work.
const (
	Transfers = "transfer" // DoTx in the ledger's Postgres
	Panics    = "panic"    // the handler panics after its effect
	Vanishes  = "vanish"   // the client hangs up early
)

// An Op is one HTTP request as its client saw it.
type Op struct {
	Kind     string        `json:"kind"`
	Asked    string        `json:"asked,omitempty"`
	Key      string        `json:"key"`
	Instance int           `json:"instance"`
	Sent     time.Duration `json:"sent"`
	Got      time.Duration `json:"got"`
	// Status is 0 when no answer came; Err says why.
	Status    int    `json:"status"`
	Err       string `json:"err,omitempty"`
	Body      string `json:"body,omitempty"`
	Execution string `json:"execution,omitempty"`
	Fence     string `json:"fence,omitempty"`
	Replayed  bool   `json:"replayed,omitempty"`
	// Durable is false when the answer was marked as not durable.
	Durable bool `json:"durable,omitempty"`
}

// OK reports whether the op got a response of the handler.
func (o Op) OK() bool { return o.Status >= 200 && o.Status < 300 }

// A Fault is an action that was done.
type Fault struct {
	Action
	At   time.Duration `json:"at"`
	Done time.Duration `json:"done"`
	// Proof says how it was seen to have happened.
	Proof string `json:"proof,omitempty"`
	// Missed: it was tried, and nothing passed that it could have hit.
	Missed bool   `json:"missed,omitempty"`
	Err    string `json:"err,omitempty"`
}

// A Row is the ledger's last word on a key.
type Row struct {
	Key   string `json:"key"`
	State string `json:"state"`
	Fence int64  `json:"fence"`
}

// Setup says what was run.
type Setup struct {
	Seed      uint64        `json:"seed"`
	Duration  time.Duration `json:"duration"`
	Nodes     int           `json:"nodes"`
	Instances int           `json:"instances"`
	Rehearsal bool          `json:"rehearsal"`
	Mutant    string        `json:"mutant,omitempty"`
	// Engine is what the instances serve with. Empty: ours.
	Engine string `json:"engine,omitempty"`
	Preset string `json:"preset"`
	// Only are the faults that were drawn from, where not the preset's;
	// Without those that this machine does not allow; Keep the episodes of
	// the schedule that were done, where not all.
	Only    []string `json:"only,omitempty"`
	Without []string `json:"without,omitempty"`
	Keep    []int    `json:"keep,omitempty"`
	Rate    int      `json:"rate,omitempty"`
	// Policy is hold or retry.
	Policy string `json:"policy"`
	// Lease of the claims.
	Lease time.Duration `json:"lease,omitempty"`
	// Target are the URLs of a deployment that somebody else runs; empty: the
	// run has started its own. Exec is what broke it, or Compose the file of
	// docker compose.
	Target  []string `json:"target,omitempty"`
	Exec    string   `json:"exec,omitempty"`
	Compose string   `json:"compose,omitempty"`
	// Recorder is where the recorder listened, if not at a free port.
	Recorder string `json:"recorder,omitempty"`
}

// External reports whether somebody else runs the deployment.
func (s Setup) External() bool { return len(s.Target) > 0 }

// Ledger reports whether the engine has a ledger: a row per key, and fences.
// The baselines have neither.
func (s Setup) Ledger() bool { return s.Engine == "" || s.Engine == "redfence" }

// A History is the whole run.
type History struct {
	Setup   Setup
	Effects []Effect
	Ops     []Op
	Faults  []Fault
	Rows    []Row
	// Accounts is nil where no transfers were possible.
	Accounts *Accounts
	// Locks are those that were left on the nodes in the end.
	Locks []string
	// Healed is when the last fault was over.
	Healed time.Duration
}

// The files of a run's folder. The recorder writes EffectsFile as it goes.
const (
	EffectsFile = "effects.jsonl"
	opsFile     = "ops.jsonl"
	faultsFile  = "faults.jsonl"
	rowsFile    = "rows.jsonl"
	setupFile   = "setup.json"
)

type setupRecord struct {
	Setup
	Healed   time.Duration `json:"healed"`
	Accounts *Accounts     `json:"accounts,omitempty"`
	Locks    []string      `json:"locks_left,omitempty"`
}

// Save writes everything but the effects, which the recorder has written.
func (h *History) Save(dir string) error {
	return errors.Join(
		writeLines(filepath.Join(dir, setupFile), []setupRecord{{h.Setup, h.Healed, h.Accounts, h.Locks}}),
		writeLines(filepath.Join(dir, opsFile), h.Ops),
		writeLines(filepath.Join(dir, faultsFile), h.Faults),
		writeLines(filepath.Join(dir, rowsFile), h.Rows),
	)
}

// Load reads a run's folder.
func Load(dir string) (*History, error) {
	var h History
	setup, err := readLines[setupRecord](filepath.Join(dir, setupFile))
	if err == nil && len(setup) != 1 {
		err = fmt.Errorf("%s: want one line", setupFile)
	}
	if err != nil {
		return nil, fmt.Errorf("this is no folder of a chaos run: %w", err)
	}
	h.Setup, h.Healed, h.Accounts, h.Locks = setup[0].Setup, setup[0].Healed, setup[0].Accounts, setup[0].Locks
	var errs [4]error
	h.Effects, errs[0] = readLines[Effect](filepath.Join(dir, EffectsFile))
	h.Ops, errs[1] = readLines[Op](filepath.Join(dir, opsFile))
	h.Faults, errs[2] = readLines[Fault](filepath.Join(dir, faultsFile))
	h.Rows, errs[3] = readLines[Row](filepath.Join(dir, rowsFile))
	return &h, errors.Join(errs[:]...)
}

func writeLines[T any](path string, items []T) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := bufio.NewWriter(file)
	enc := json.NewEncoder(buffer)
	for _, item := range items {
		if err := enc.Encode(item); err != nil {
			return err
		}
	}
	return buffer.Flush()
}

func readLines[T any](path string) ([]T, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var items []T
	for dec := json.NewDecoder(bufio.NewReader(file)); ; {
		var item T
		switch err := dec.Decode(&item); {
		case errors.Is(err, io.EOF):
			return items, nil
		case err != nil:
			return nil, fmt.Errorf("%s, item %d: %w", path, len(items)+1, err)
		}
		items = append(items, item)
	}
}
