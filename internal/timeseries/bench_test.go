package timeseries_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/timeseries"
)

// BenchmarkDecodeChunk decodes the chunk of a month of a VM with varying loads. A chart of a year reads 12 of them.
func BenchmarkDecodeChunk(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	points := map[int][]timeseries.Point{}
	for _, m := range fleet.VMMetrics {
		for range 360 {
			v := 10 * math.Exp(0.2*random.NormFloat64())
			points[m.Number] = append(points[m.Number], timeseries.Point{Mean: v, Min: v / 2, Max: v * 2 * math.Exp(0.2*random.NormFloat64())})
		}
	}
	chunk := timeseries.EncodeChunk(fleet.TypeVM, 360, points)
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if _, _, err := timeseries.DecodeChunk(fleet.TypeVM, chunk); err != nil {
			b.Fatal(err)
		}
	}
}
