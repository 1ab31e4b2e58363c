package redfence

import (
	"os"
	"testing"

	"github.com/redfence/redfence/internal/testenv"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		runChild(role)
		return
	}
	testenv.Main(m)
}
