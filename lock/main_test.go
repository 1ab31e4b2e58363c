package lock

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// clientsOf returns the clients of the servers.
func clientsOf(servers []*testenv.RedisServer) []redis.UniversalClient {
	clients := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		clients[i] = s.Client()
	}
	return clients
}
