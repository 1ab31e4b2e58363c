package cache

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redfence/redfence/internal/node"
)

const (
	// boundEvery is how old what is known of a node's memory may get.
	boundEvery = 5 * time.Second
	// share of maxmemory, in percent, at which puts stop, so that locks fit.
	share = 60
)

// A bound says whether a node has room for records. It asks the node in the
// background; a node that does not tell is taken to have room.
type bound struct {
	node  *node.Node
	max   int64 // 0: only the node's own maxmemory counts
	full  atomic.Bool
	asked atomic.Int64 // unix nanoseconds
}

// room reports what is known, and asks again when that is old.
func (b *bound) room() bool {
	now, asked := time.Now().UnixNano(), b.asked.Load()
	if now-asked > int64(boundEvery) && b.asked.CompareAndSwap(asked, now) {
		b.node.Send(&node.Op{Args: []any{"info", "memory"}, To: b})
	}
	return !b.full.Load()
}

// Reply implements node.Receiver.
func (b *bound) Reply(_ *node.Op, value any, err error) {
	text, ok := value.(string)
	if err != nil || !ok {
		b.full.Store(false) // puts that find no room are refused by the node itself
		return
	}
	used, most := infoField(text, "used_memory"), infoField(text, "maxmemory")
	limit := most * share / 100
	if b.max > 0 && (limit == 0 || b.max < limit) {
		limit = b.max
	}
	b.full.Store(limit > 0 && used >= limit)
}

// infoField reads one number of an INFO reply; 0 if it is not there.
func infoField(text, name string) int64 {
	for line := range strings.SplitSeq(text, "\r\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}
