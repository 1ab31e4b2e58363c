package instance

import (
	"context"

	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/recorder"
	"github.com/redfence/redfence/observe"
)

// Breakers tells the recorder what the engine's breaker does. It is an
// observe.Observer, safe for concurrent use.
type Breakers struct {
	in         chan string
	quit, done chan struct{}
}

// TellBreakers returns an observer that reports under the instance's name.
// Close ends it.
func TellBreakers(name string, to *recorder.Client) *Breakers {
	b := &Breakers{in: make(chan string, 64), quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(b.done)
		for {
			select {
			case state := <-b.in:
				// A report that fails leaves a gap in a picture, and no more.
				_, _ = to.Record(context.Background(), history.Effect{Kind: history.Breaker, Instance: name, Route: state})
			case <-b.quit:
				return
			}
		}
	}()
	return b
}

// Observe implements observe.Observer. It does not wait.
func (b *Breakers) Observe(e observe.Event) {
	changed, ok := e.(observe.BreakerChanged)
	if !ok {
		return
	}
	select {
	case b.in <- changed.To:
	default:
	}
}

// Close ends the reports.
func (b *Breakers) Close() {
	close(b.quit)
	<-b.done
}
