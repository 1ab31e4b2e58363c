package redfence

import (
	"context"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/testenv"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		runChild(role)
		return
	}
	redis.SetLogger(silent{}) // the tests cut connections all the time
	testenv.Main(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
