package lock

import (
	_ "embed" // the scripts

	"github.com/redfence/redfence/internal/node"
)

var (
	//go:embed scripts/acquire.lua
	acquireSource string
	//go:embed scripts/release.lua
	releaseSource string
	//go:embed scripts/extend.lua
	extendSource string
	//go:embed scripts/seed.lua
	seedSource string

	acquireScript = node.NewScript("acquire", acquireSource)
	releaseScript = node.NewScript("release", releaseSource)
	extendScript  = node.NewScript("extend", extendSource)
	seedScript    = node.NewScript("seed", seedSource)
)

// What the scripts return.
const (
	replyDone    int64 = 1
	replyMissing int64 = 0
	replyOther   int64 = -1
)

// Scripts are what Redlock runs on the nodes; whoever makes a node.Set that is
// shared with NewOn gives them to node.Config, so that they are loaded with
// each connection.
func Scripts() []*node.Script {
	return []*node.Script{acquireScript, releaseScript, extendScript, seedScript}
}
