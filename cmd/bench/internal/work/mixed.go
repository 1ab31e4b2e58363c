package work

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
)

// remembered is how many completed ids of each caller Mixed asks for again.
const remembered = 64

// A memory is the last completed ids of one caller, who alone uses it.
type memory struct {
	ids        [remembered]int
	size, next int
}

func (m *memory) add(id int) {
	m.ids[m.next] = id
	m.next = (m.next + 1) % remembered
	m.size = min(m.size+1, remembered)
}

// Mixed runs work for new ids and, as the given share of the operations, asks
// again for one that the same caller has completed lately. Every response is
// checked.
func Mixed(doer contend.Doer, prefix string, callers, size int, duplicates float64) Job {
	check := new(Check)
	completed := make([]memory, callers)
	return Job{Check: check, Op: func(ctx context.Context, caller, n int) error {
		lately := &completed[caller]
		fresh := lately.size == 0 || rand.Float64() >= duplicates
		if !fresh {
			n = lately.ids[rand.IntN(lately.size)]
		}
		id := fmt.Sprintf("%s/%d/%d", prefix, caller, n)
		ran := false
		got, replayed, err := doer.Do(ctx, id, func() ([]byte, error) { ran = true; return Body(id, size), nil })
		if err != nil {
			return err
		}
		if ran != fresh || replayed == fresh || !BodyOf(got, id) {
			check.broke("%s, new %v: ran %v, replayed %v", id, fresh, ran, replayed)
			return nil
		}
		check.kept()
		if fresh {
			lately.add(n)
		}
		return nil
	}}
}
