//go:build chaos

package failpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
)

// biasVariable names what is left to chance and how likely it is to happen, as
// name=0.3, separated by commas. What it does not name never happens.
const biasVariable = "REDFENCE_BIAS"

var biases = sync.OnceValue(func() map[string]float64 {
	parsed, err := parseBias(os.Getenv(biasVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitCode)
	}
	return parsed
})

func parseBias(text string) (map[string]float64, error) {
	parsed := map[string]float64{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, number, _ := strings.Cut(item, "=")
		p, err := strconv.ParseFloat(number, 64)
		if err != nil || name == "" || p < 0 || p > 1 {
			return nil, fmt.Errorf("failpoint: %q: want name=probability", item)
		}
		parsed[name] = p
	}
	return parsed, nil
}

// Chance draws whether something happens that is seldom without chaos.
func Chance(name string) bool {
	p := biases()[name]
	return p > 0 && rand.Float64() < p
}
