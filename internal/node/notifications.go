package node

import (
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// quiet switches off the maintenance notifications of Redis Enterprise, which
// the client would otherwise negotiate on each new connection. Independent
// masters do not send them; a connection taken with Conn shares the client's
// options under another lock, so two connections made at the same time would
// race for this one (go-redis 9.23).
func quiet(client redis.UniversalClient) {
	if c, ok := client.(*redis.Client); ok {
		if n := c.Options().MaintNotificationsConfig; n != nil && n.Mode != maintnotifications.ModeDisabled {
			n.Mode = maintnotifications.ModeDisabled
		}
	}
}
