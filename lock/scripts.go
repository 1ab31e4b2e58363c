package lock

import (
	_ "embed" // the scripts

	"github.com/redfence/redfence/internal/node"
)

var (
	//go:embed scripts/acquire.lua
	acquireSource string
	//go:embed scripts/acquire_guarded.lua
	acquireGuardedSource string
	//go:embed scripts/count.lua
	countSource string
	//go:embed scripts/standing.lua
	standingSource string
	//go:embed scripts/rejoin.lua
	rejoinSource string
	//go:embed scripts/raise.lua
	raiseSource string
	//go:embed scripts/begin.lua
	beginSource string
	//go:embed scripts/inspect.lua
	inspectSource string
	//go:embed scripts/line_up.lua
	lineUpSource string
	//go:embed scripts/leave_line.lua
	leaveLineSource string
	//go:embed scripts/release.lua
	releaseSource string
	//go:embed scripts/ask.lua
	askSource string
	//go:embed scripts/extend.lua
	extendSource string
	//go:embed scripts/seed.lua
	seedSource string

	acquireScript = node.NewScript("acquire", acquireSource)
	releaseScript = node.NewScript("release", releaseSource)
	extendScript  = node.NewScript("extend", extendSource)
	askScript     = node.NewScript("ask", askSource)
	seedScript    = node.NewScript("seed", seedSource)

	inspectScript        = node.NewScript("inspect", inspectSource)
	lineUpScript         = node.NewScript("line_up", lineUpSource)
	leaveLineScript      = node.NewScript("leave_line", leaveLineSource)
	acquireGuardedScript = node.NewScript("acquire_guarded", acquireGuardedSource)
	countScript          = node.NewScript("count", countSource)
	standingScript       = node.NewScript("standing", standingSource)
	rejoinScript         = node.NewScript("rejoin", rejoinSource)
	raiseScript          = node.NewScript("raise", raiseSource)
	beginScript          = node.NewScript("begin", beginSource)
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
	return []*node.Script{acquireScript, releaseScript, extendScript, seedScript, askScript}
}

func guardedScripts() []*node.Script {
	return []*node.Script{acquireGuardedScript, countScript, releaseScript, extendScript, seedScript, askScript,
		standingScript, rejoinScript, raiseScript}
}
