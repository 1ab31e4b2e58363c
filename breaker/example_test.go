package breaker_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redfence/redfence/breaker"
)

// Three attempts in a row without a quorum open the breaker; from then on
// everybody is sent to the fallback route at once.
func Example() {
	b, err := breaker.New(breaker.Config{Probe: func(context.Context) error { return errors.New("3 of 5 nodes down") }})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	for range 5 {
		done, ok := b.Attempt()
		if !ok {
			fmt.Println("take the", b.Route(), "route")
			continue
		}
		done(true, errors.New("3 of 5 nodes down"))
	}
	// Output:
	// take the fallback route
	// take the fallback route
}
