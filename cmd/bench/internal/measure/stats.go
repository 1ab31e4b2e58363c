package measure

import (
	"math"
	"slices"
)

// A Spread is the median of some figures with their extremes. All are 0 when
// there are no figures.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// SpreadOf returns the median and the extremes of the figures.
func SpreadOf(figures []float64) Spread {
	if len(figures) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(figures))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Spread{Median: median, Min: sorted[0], Max: sorted[len(sorted)-1]}
}

// Ratios divides figure by baseline, round by round, so that what slows a
// whole round down cancels out. Rounds without a baseline are left out.
func Ratios(figures, baseline []float64) []float64 {
	var ratios []float64
	for i := range min(len(figures), len(baseline)) {
		if ratio := figures[i] / baseline[i]; baseline[i] > 0 && !math.IsNaN(ratio) {
			ratios = append(ratios, ratio)
		}
	}
	return ratios
}
