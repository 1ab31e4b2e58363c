package fallback_test

import (
	"testing"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/fallback/ledgertest"
)

func TestMemoryConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(*testing.T) ledgertest.Harness {
		return ledgertest.Harness{Ledger: fallback.NewMemory()}
	})
}
