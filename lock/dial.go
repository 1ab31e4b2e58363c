package lock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/problems"
)

// Dial makes one client per address (host:port, redis://, rediss:// or unix://,
// also several in one string, separated by commas), with the options that a
// lock node needs: contexts are honoured, nothing is retried behind its back,
// RESP2 unless the URL names another protocol. It connects to nothing. The
// clients are the caller's to close. Its error lists every address that is
// wrong, without repeating it: it may hold a password.
func Dial(urls ...string) ([]redis.UniversalClient, error) {
	var list problems.List
	var clients []redis.UniversalClient
	for _, url := range strings.Split(strings.Join(urls, ","), ",") {
		o, err := parseAddress(strings.TrimSpace(url))
		if err != nil {
			list.Add("node %d: %w", len(clients), err)
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

// parseAddress reads a URL or host:port.
func parseAddress(text string) (*redis.Options, error) {
	if text == "" {
		return nil, errors.New("the address is empty; give host:port or redis://user:password@host:6379/0")
	}
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	o, err := redis.ParseURL(text)
	if err != nil {
		// The error may repeat the URL, password and all.
		return nil, errors.New("not a Redis URL such as redis://user:password@host:6379/0, nor host:port")
	}
	return o, nil
}

func forNode(o *redis.Options) {
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.DialerRetries = 1
	if o.Protocol == 0 { // RESP3 adds nothing here, and a look for push messages to every command
		o.Protocol = 2
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = time.Second
	}
}
