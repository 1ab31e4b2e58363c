package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/redfence/redfence/observe"
)

// eventQueue is how many events wait to be written before some are dropped:
// the log must never hold up a request.
const eventQueue = 1024

// eventLog writes the events that a person would want to know of. It is safe
// for concurrent use.
type eventLog struct {
	log     *slog.Logger
	events  chan observe.Event
	dropped atomic.Int64
	done    sync.WaitGroup
}

func newEventLog(log *slog.Logger) *eventLog {
	l := &eventLog{log: log, events: make(chan observe.Event, eventQueue)}
	l.done.Go(l.write)
	return l
}

// Observe implements observe.Observer.
func (l *eventLog) Observe(e observe.Event) {
	if level(e) < slog.LevelInfo {
		return
	}
	select {
	case l.events <- e:
	default:
		l.dropped.Add(1)
	}
}

// close writes what waits. Nothing may be observed any more.
func (l *eventLog) close() {
	close(l.events)
	l.done.Wait()
	if n := l.dropped.Load(); n > 0 {
		l.log.Warn("events were dropped", "count", n)
	}
}

func (l *eventLog) write() {
	for e := range l.events {
		l.log.Log(context.Background(), level(e), e.Name(), "event", fmt.Sprintf("%+v", e))
	}
}

// level says how much an event matters to a person; below Info it is for
// metrics only.
func level(e observe.Event) slog.Level {
	switch e.(type) {
	case observe.NotDurable, observe.OutcomeUnknown, observe.ClaimLost, observe.NodeDown,
		observe.CacheUnverified, observe.LedgerAdopted, observe.LedgerSplit, observe.NodeWarning:
		return slog.LevelWarn
	case observe.RouteChanged, observe.NodeUp, observe.LateCompletion, observe.RecoveryAsked:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
