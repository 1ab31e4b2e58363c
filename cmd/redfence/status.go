package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/observe"
)

type statusCommand struct {
	nodeFlags
	ledgerFlags
	JSON bool `name:"json" help:"Print the status as JSON."`
}

// status is what is printed.
type status struct {
	Nodes  []storeStatus `json:"nodes"`
	Ledger storeStatus   `json:"ledger"`
	// Route is what a process that sees the stores as this one does would take.
	Route observe.Route `json:"route"`
	// Serving: fresh keys can be served.
	Serving bool `json:"serving"`
}

type storeStatus struct {
	Addr  string `json:"addr"`
	Up    bool   `json:"up"`
	Error string `json:"error,omitempty"`
	// RoundTrip in milliseconds.
	RoundTrip float64 `json:"round_trip_ms,omitempty"`
}

// Run looks at the stores from here. It fails when fresh keys cannot be
// served.
func (c statusCommand) Run(a *app) error {
	var list problems.List
	clients := c.clients(&list)
	defer clients.close()
	pool := c.pool(a.ctx, &list)
	if pool != nil {
		defer pool.Close()
	}
	if err := invalid(&list); err != nil {
		return err
	}
	now := look(a.ctx, clients, pool)
	if err := now.tell(a.stdout, c.JSON); err != nil {
		return err
	}
	if !now.Serving {
		return errFound
	}
	return nil
}

func look(ctx context.Context, clients nodes, pool *pgxpool.Pool) status {
	now := status{Ledger: askLedger(ctx, pool), Route: observe.Fallback}
	up := 0
	for _, s := range askNodes(ctx, clients) {
		one := storeStatus{Addr: s.addr, Up: s.err == nil, RoundTrip: milliseconds(s.answered)}
		if s.err != nil {
			one.Error = s.err.Error()
		} else {
			up++
		}
		now.Nodes = append(now.Nodes, one)
	}
	if up > len(clients)/2 {
		now.Route = observe.Primary
	}
	now.Serving = now.Ledger.Up
	return now
}

func askLedger(ctx context.Context, pool *pgxpool.Pool) storeStatus {
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	cfg := pool.Config().ConnConfig
	s := storeStatus{Addr: fmt.Sprintf("%s:%d/%s", cfg.Host, cfg.Port, cfg.Database)}
	err := pool.Ping(ctx) // connects
	sent := time.Now()
	if err == nil {
		err = pool.Ping(ctx)
	}
	if err != nil {
		s.Error = oneLine(err)
		return s
	}
	s.Up, s.RoundTrip = true, milliseconds(time.Since(sent))
	return s
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (s status) tell(w io.Writer, asJSON bool) error {
	if asJSON {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(s)
	}
	for _, n := range s.Nodes {
		fmt.Fprintf(w, "redis   %-28s %s\n", n.Addr, n)
	}
	fmt.Fprintf(w, "ledger  %-28s %s\n", s.Ledger.Addr, s.Ledger)
	serving := "fresh keys are served"
	if !s.Serving {
		serving = "fresh keys are refused until the ledger answers"
	}
	_, err := fmt.Fprintf(w, "route   %s; %s\n", s.Route, serving)
	return err
}

// String is one word and its reason.
func (s storeStatus) String() string {
	if !s.Up {
		return "down: " + s.Error
	}
	return fmt.Sprintf("up, %.1f ms", s.RoundTrip)
}
