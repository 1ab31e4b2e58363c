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
	"strings"
	"time"
)

// The kinds of an Effect.
const (
	Start = "start" // the handler was entered
	Done  = "effect"
	End   = "end" // the handler is about to return
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
	Route string `json:"route"`
}

// The kinds of an Op.
const (
	Fresh     = "fresh"     // the first request of a key
	Duplicate = "duplicate" // sent at the same time
	Late      = "late"      // sent after an answer was acknowledged
	Final     = "final"     // sent after the last fault, to every key
	Probe     = "probe"     // a fresh key after the last fault
)

// An Op is one HTTP request as its client saw it.
type Op struct {
	Kind     string        `json:"kind"`
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

// The kinds of an Action. Each that breaks something has one that mends it.
const (
	KillNode      = "kill-node" // SIGKILL
	RestartNode   = "restart-node-empty"
	PauseNode     = "pause-node" // SIGSTOP
	ResumeNode    = "resume-node"
	FlushNode     = "flush-node"
	LapseLocks    = "lapse-locks" // of a node, as its clock jumping ahead does
	StallNode     = "stall-node"  // CLIENT PAUSE; ends by itself
	CutRedis      = "cut-redis"   // an instance from every node
	HoldReplies   = "hold-redis-replies"
	SlowRedis     = "slow-redis"
	HealRedis     = "heal-redis"
	CutPostgres   = "cut-postgres" // an instance from Postgres
	HealPostgres  = "heal-postgres"
	DropReply     = "drop-postgres-reply" // the next one that an instance would get
	KillPostgres  = "kill-postgres"       // SIGKILL
	StartPostgres = "restart-postgres"
	StopPostgres  = "pause-postgres" // SIGSTOP
	WakePostgres  = "resume-postgres"
	KillInstance  = "kill-instance" // SIGKILL
	StartInstance = "restart-instance"
	StopInstance  = "pause-instance" // SIGSTOP
	WakeInstance  = "resume-instance"
)

// An Action is one thing that can be done to a cluster: to a Redis node, to an
// instance or its links, or to Postgres.
type Action struct {
	Kind     string `json:"action"`
	Node     int    `json:"node,omitempty"`
	Instance int    `json:"instance,omitempty"`
}

// String names the action and what it is done to.
func (a Action) String() string {
	switch {
	case strings.Contains(a.Kind, "node") || a.Kind == LapseLocks:
		return fmt.Sprintf("%s %d", a.Kind, a.Node)
	case strings.HasSuffix(a.Kind, "-postgres") && a.Kind != CutPostgres && a.Kind != HealPostgres:
		return a.Kind
	default:
		return fmt.Sprintf("%s %d", a.Kind, a.Instance)
	}
}

// LosesOutcomes reports whether an action can leave a key whose outcome nobody
// knows: an owner dies, or the reply of a claim or completion is lost.
func (a Action) LosesOutcomes() bool {
	switch a.Kind {
	case KillInstance, KillPostgres, StopPostgres, CutPostgres, DropReply:
		return true
	}
	return false
}

// A Fault is an action that was done.
type Fault struct {
	Action
	At   time.Duration `json:"at"`
	Done time.Duration `json:"done"`
	// Proof says how it was seen to have happened.
	Proof string `json:"proof,omitempty"`
	Err   string `json:"err,omitempty"`
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
	// Policy is hold or retry.
	Policy string `json:"policy"`
}

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
	Healed time.Duration `json:"healed"`
}

// Save writes everything but the effects, which the recorder has written.
func (h *History) Save(dir string) error {
	return errors.Join(
		writeLines(filepath.Join(dir, setupFile), []setupRecord{{h.Setup, h.Healed}}),
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
	h.Setup, h.Healed = setup[0].Setup, setup[0].Healed
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
