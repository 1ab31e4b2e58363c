package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// progress tells a person how the run goes: one line that changes in place on
// a terminal, a line every few seconds elsewhere.
type progress struct {
	out   io.Writer
	live  bool
	every time.Duration
}

func newProgress(out io.Writer) *progress {
	if isTerminal(out) {
		return &progress{out: out, live: true, every: 200 * time.Millisecond}
	}
	return &progress{out: out, every: 5 * time.Second}
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *progress) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}

// follow shows the run until the function returned is called.
func (p *progress) follow(c *controller) (stop func()) {
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		tick := time.NewTicker(p.every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.show(c.line())
			case <-done:
				p.show(c.line())
				if p.live {
					p.say("")
				}
				return
			}
		}
	}()
	return func() {
		close(done)
		<-finished
	}
}

func (p *progress) show(line string) {
	if p.live {
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		return
	}
	p.say("%s", line)
}

// line is the state of the run: time, nodes that are up and down, breakers that
// are closed and open, load, the last fault, and what must stay 0.
func (c *controller) line() string {
	keys, requests, answered := c.load.Counts()
	breakers := "  breakers " + c.breakers()
	if c.setup.External() {
		breakers = "" // nobody tells
	}
	return fmt.Sprintf("%3.0fs/%.0fs  redis %s%s  keys %d  requests %d  answered %d  started twice %d  %s",
		c.clock().Seconds(), c.setup.Duration.Seconds(), c.nodes(), breakers, keys, requests, answered, c.record.Twice(), c.lastFault())
}

// breakers shows each instance's.
func (c *controller) breakers() string {
	var b strings.Builder
	for i := range c.setup.Instances {
		switch c.record.Breaker(fmt.Sprintf("instance-%d", i)) {
		case "open":
			b.WriteString("○")
		case "half-open":
			b.WriteString("◐")
		default:
			b.WriteString("●")
		}
	}
	return b.String()
}

// lastFault names the latest that was done.
func (c *controller) lastFault() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.faults) == 0 {
		return ""
	}
	return c.faults[len(c.faults)-1].Action.String()
}

// nodes shows each node as up or down.
func (c *controller) nodes() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	marks := strings.Split(strings.Repeat("●", c.setup.Nodes), "")
	for _, f := range c.faults {
		switch f.Kind {
		case history.KillNode, history.PauseNode:
			marks[f.Node] = "○"
		case history.RestartNode, history.ResumeNode:
			marks[f.Node] = "●"
		}
	}
	return strings.Join(marks, "")
}
