package lock

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/problems"
)

// Dial makes one client per URL (redis://, rediss:// or unix://, also several
// in one string, separated by commas), with the options that a lock node
// needs: contexts are honoured, nothing is retried behind its back. It connects
// to nothing. The clients are the caller's to close.
func Dial(urls ...string) ([]redis.UniversalClient, error) {
	var list problems.List
	var clients []redis.UniversalClient
	for _, url := range strings.Split(strings.Join(urls, ","), ",") {
		url = strings.TrimSpace(url)
		o, err := redis.ParseURL(url)
		if err != nil {
			// The error may repeat the URL, password and all.
			list.Add("node %d: not a Redis URL such as redis://user:password@host:6379/0", len(clients))
			clients = append(clients, nil)
			continue
		}
		forNode(o)
		clients = append(clients, redis.NewClient(o))
	}
	if err := list.Err(); err != nil {
		for _, c := range clients {
			if c != nil {
				_ = c.Close() // was never used
			}
		}
		return nil, fmt.Errorf("lock: dial: %w", err)
	}
	return clients, nil
}

func forNode(o *redis.Options) {
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.DialerRetries = 1
	if o.DialTimeout == 0 {
		o.DialTimeout = time.Second
	}
}
