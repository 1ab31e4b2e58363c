package fallback_test

import (
	"testing"

	"github.com/redfence/redfence/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
