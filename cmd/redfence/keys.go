package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/problems"
)

type keysCommand struct {
	List   listCommand   `cmd:"" help:"List keys, such as those whose outcome is unknown."`
	Show   showCommand   `cmd:"" help:"Show the row of a key."`
	Forget forgetCommand `cmd:"" help:"Erase the response of a completed key everywhere; the key does not run again."`
}

// keyFlags name a key and the stores that know it.
type keyFlags struct {
	nodeFlags
	ledgerFlags
	ID         string `arg:"" help:"The idempotency key, as the client sent it."`
	Scope      string `env:"-" help:"The tenant or user whose key it is. Defaults to none, as with --unscoped."`
	SecretFile string `placeholder:"FILE" help:"File with the secret that the gateway uses (or REDFENCE_SECRET)."`
}

func (f keyFlags) key() redfence.Key { return redfence.Key{Scope: f.Scope, ID: f.ID} }

// nobodyHas says that there is no row for the key.
func (f keyFlags) nobodyHas() error {
	next := "look for it: redfence keys list"
	if f.Scope == "" {
		next = "if it is a tenant's or user's, name that one with --scope; else look for it: redfence keys list"
	}
	return &advised{fmt.Errorf("nobody has claimed the key %q in the scope %q", f.ID, f.Scope), next}
}

// change is with for what changes a key: it has to exist, and the nodes have to
// be those that the engines use, or their copies of the response would stay.
func (f keyFlags) change(a *app, nodes nodeSetFlags, do func(ctx context.Context, e *redfence.Engine) error) error {
	err := f.with(a, nodes.onOtherNodes(), func(ctx context.Context, e *redfence.Engine) error {
		rec, err := e.Inspect(ctx, f.key())
		switch {
		case err != nil:
			return err
		case rec.State == fallback.Absent:
			return f.nobodyHas()
		}
		return do(ctx, e)
	})
	var other *otherNodesError
	if errors.As(err, &other) {
		return &advised{fmt.Errorf("nothing was changed: %w", other), nextForOtherNodes}
	}
	return err
}

// nodeSetFlags say what happens when the nodes are not those that the ledger
// has recorded.
type nodeSetFlags struct {
	OtherNodes string `env:"-" default:"refuse" enum:"refuse,warn" help:"What to do when the ledger has recorded other Redis nodes than --redis: refuse or warn. warn is for the same nodes under other names."`
}

func (f nodeSetFlags) onOtherNodes() redfence.OtherNodes {
	if f.OtherNodes == "warn" {
		return redfence.WarnOfOtherNodes
	}
	return redfence.RefuseOtherNodes
}

// with opens an engine, calls do and closes it again.
func (f keyFlags) with(a *app, other redfence.OtherNodes, do func(ctx context.Context, e *redfence.Engine) error) (err error) {
	var list problems.List
	clients := f.clients(&list)
	defer func() { err = errors.Join(err, clients.close()) }()
	secrets := (&serveCommand{SecretFile: f.SecretFile}).secrets(&list)
	if err := invalid(&list); err != nil {
		return err
	}
	pool, err := f.connected(a.ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	ledger, err := fallback.Open(a.ctx, pool, fallback.Config{Schema: f.Schema, Sweep: fallback.Sweep{Off: true}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	if other == redfence.RefuseOtherNodes {
		if err := checkNodeSet(a.ctx, ledger, clients); err != nil {
			return err
		}
	}
	engine, err := redfence.New(a.ctx, redfence.Config{Nodes: clients.universal(), Ledger: ledger, Secrets: secrets, OnOtherNodes: other})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), contactTimeout)
		defer cancel()
		err = errors.Join(err, engine.Close(ctx))
	}()
	return do(a.ctx, engine)
}

type showCommand struct {
	keyFlags
	Body bool `env:"-" help:"Show the body of the response as well."`
}

// Run prints the row as JSON.
func (c showCommand) Run(a *app) error {
	return c.with(a, redfence.WarnOfOtherNodes, func(ctx context.Context, e *redfence.Engine) error {
		rec, err := e.Inspect(ctx, c.key())
		if err != nil {
			return err
		}
		if rec.State == fallback.Absent {
			return c.nobodyHas()
		}
		return writeRow(a.stdout, rec, c.Body)
	})
}

// row is how a key is shown; times that are not set are left out.
type row struct {
	Scope       string              `json:"scope"`
	ID          string              `json:"id"`
	Digest      string              `json:"digest"`
	State       string              `json:"state"`
	Fence       int64               `json:"fence"`
	Owner       string              `json:"owner"`
	OnAbandoned string              `json:"on_abandoned"`
	Attempts    int                 `json:"attempts"`
	ClaimedAt   *time.Time          `json:"claimed_at,omitempty"`
	LeaseUntil  *time.Time          `json:"lease_until,omitempty"`
	CompletedAt *time.Time          `json:"completed_at,omitempty"`
	ReleasedAt  *time.Time          `json:"released_at,omitempty"`
	ExpiresAt   *time.Time          `json:"expires_at,omitempty"`
	Status      int                 `json:"status,omitempty"`
	Header      map[string][]string `json:"header,omitempty"`
	Size        int                 `json:"size"`
	Body        string              `json:"body,omitempty"`
	Reason      string              `json:"reason,omitempty"`
	Error       string              `json:"error,omitempty"`
}

func writeRow(w io.Writer, rec redfence.Record, body bool) error {
	r := row{
		Scope: rec.Key.Scope, ID: rec.Key.ID, Digest: rec.Digest.String(), State: rec.State.String(), Fence: rec.Fence,
		Owner: rec.Owner, OnAbandoned: rec.Policy.Takeover.String(), Attempts: rec.Attempts,
		ClaimedAt: set(rec.ClaimedAt), LeaseUntil: set(rec.LeaseUntil), CompletedAt: set(rec.CompletedAt),
		ReleasedAt: set(rec.ReleasedAt), ExpiresAt: set(rec.ExpiresAt),
		Status: rec.Status, Header: rec.Stored.Header, Size: len(rec.Stored.Body), Reason: rec.Reason,
	}
	if rec.StoredErr != nil {
		r.Error = rec.StoredErr.Error()
	}
	if body {
		r.Body = string(rec.Stored.Body)
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

func set(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// operatorFlags say who does something that is recorded, and why.
type operatorFlags struct {
	Who string `env:"-" help:"Who decides; recorded. Defaults to the user that runs this."`
	Why string `env:"-" required:"" help:"Why; recorded."`
}

func (f operatorFlags) who() string {
	if f.Who != "" {
		return f.Who
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

type forgetCommand struct {
	keyFlags
	nodeSetFlags
	operatorFlags
}

// Run erases the response.
func (c forgetCommand) Run(a *app) error {
	return c.change(a, c.nodeSetFlags, func(ctx context.Context, e *redfence.Engine) error {
		if err := e.Forget(ctx, c.key(), redfence.Operator{Who: c.who(), Why: c.Why}); err != nil {
			return err
		}
		_, err := fmt.Fprintln(a.stdout, "erased; processes that have it in memory forget it within 30 s, then duplicates are told that it cannot be replayed")
		return err
	})
}

type resolveCommand struct {
	keyFlags
	nodeSetFlags
	operatorFlags
	Release bool     `env:"-" help:"The effect did not happen: the next request runs again."`
	Status  int      `env:"-" help:"The effect happened: duplicates get a response with this status."`
	Header  []string `env:"-" sep:"none" placeholder:"NAME: VALUE" help:"A header of that response; may be repeated."`
	Body    string   `env:"-" placeholder:"FILE" help:"File with the body of that response."`
	Force   bool     `env:"-" help:"Release even though the old owner's time is not over."`
	Fence   int64    `env:"-" help:"Only if the row still has this fence, as keys show printed it."`
}

// Run decides the key.
func (c resolveCommand) Run(a *app) error {
	resolution, err := c.resolution()
	if err != nil {
		return err
	}
	return c.change(a, c.nodeSetFlags, func(ctx context.Context, e *redfence.Engine) error {
		if err := e.Resolve(ctx, c.key(), resolution); err != nil {
			return err
		}
		_, err := fmt.Fprintln(a.stdout, "resolved")
		return err
	})
}

func (c resolveCommand) resolution() (redfence.Resolution, error) {
	var list problems.List
	r := redfence.Resolution{Fence: c.Fence, Release: c.Release, Force: c.Force, Who: c.who(), Why: c.Why}
	if c.Release == (c.Status != 0) {
		list.Add("give either --release (it did not happen) or --status (it did)")
	}
	if c.Status == 0 {
		return r, invalid(&list)
	}
	if c.Status < 200 || c.Status > 599 {
		list.Add("--status: %d is no final status", c.Status)
	}
	r.Response = &redfence.Response{Status: c.Status, Header: map[string][]string{}}
	for _, line := range c.Header {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			list.Add("--header: %q; give NAME: VALUE", line)
		}
		r.Response.Header[name] = append(r.Response.Header[name], strings.TrimSpace(value))
	}
	if c.Body != "" {
		var err error
		if r.Response.Body, err = os.ReadFile(c.Body); err != nil {
			list.Add("--body: %w", err)
		}
	}
	return r, invalid(&list)
}
