package observe_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/redfence/redfence/observe"
)

// A log is slow, so it stands behind a fan-out; a counter is not.
func Example() {
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelInfo, // what happens for every request is Debug
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{} // for the example's sake
			}
			return a
		},
	})
	logs := observe.NewFanout(1024, observe.NewSlog(slog.New(handler)))
	events := 0
	count := observe.Func(func(observe.Event) { events++ })
	all := observe.Tee(count, logs) // goes into redfence.Config.Observer

	all.Observe(observe.DoFinished{Outcome: "executed", Durable: true})
	all.Observe(observe.RouteChanged{From: observe.Primary, To: observe.Fallback, Reason: "3 of 5 nodes down"})

	if err := logs.Close(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(events, "events,", logs.Dropped(), "dropped")
	// Output:
	// level=WARN msg=route_changed from=primary to=fallback reason="3 of 5 nodes down" for=0s
	// 2 events, 0 dropped
}
