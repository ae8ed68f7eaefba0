package timeseries_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/timeseries"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func all(timeseries.Object) bool { return true }

func sampleTable(ids []string, values map[string][]fleet.MetricValue) metric.Table {
	return metric.Table{IDs: ids, Values: values}
}

// closeTo reports whether a value was kept within the precision of its unit.
func closeTo(got, want, precision float64) bool {
	return math.IsNaN(got) && math.IsNaN(want) || math.Abs(got-want) <= precision*math.Abs(want)
}

func TestRowKeepsValuesOfKnownObjectsAndMetrics(t *testing.T) {
	in := metric.Samples{
		Seconds: 10,
		Host:    sampleTable(nil, nil),
		VMs: sampleTable([]string{"vm-1", "vm-of-another-host", "vm-2"}, map[string][]fleet.MetricValue{
			"cpu.usage":       {12.5, 99, fleet.NoMetricValue()},
			"memory.resident": {8 << 30, 1, 0},
			"cpu.newMetric":   {1, 2, 3},
			"disk.read":       {1, 2}, // of another length
		}),
		Pools: sampleTable([]string{"pool-1"}, map[string][]fleet.MetricValue{"space.used": {3 << 40}}),
	}
	layout, row := timeseries.NewRow("h1", in, func(o timeseries.Object) bool { return o.ID != "vm-of-another-host" })
	text, _, err := layout.Text()
	if err != nil {
		t.Fatal(err)
	}
	if layout, err = timeseries.ReadLayout(text); err != nil {
		t.Fatal(err)
	}
	got := map[timeseries.Object]map[int]float64{}
	if err := layout.Read(row, all, func(o timeseries.Object, metrics []int, values []float64) {
		got[o] = map[int]float64{}
		for i, m := range metrics {
			got[o][m] = values[i]
		}
	}); err != nil {
		t.Fatal(err)
	}
	want := map[timeseries.Object]map[int]float64{
		{Type: fleet.TypeVM, ID: "vm-1"}:     {1: 12.5, 4: 8 << 30},
		{Type: fleet.TypeVM, ID: "vm-2"}:     {1: math.NaN(), 4: 0},
		{Type: fleet.TypePool, ID: "pool-1"}: {1: 3 << 40},
	}
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for o, metrics := range want {
		for m, v := range metrics {
			if g, ok := got[o][m]; !ok || !closeTo(g, v, 0.006) || len(got[o]) != len(metrics) {
				t.Errorf("%v metric %d: %v, want %v", o, m, got[o], v)
			}
		}
	}
	if err := layout.Read(row[:len(row)-1], all, func(timeseries.Object, []int, []float64) {}); err == nil {
		t.Error("a short row was read")
	}
	if err := layout.Read(append(row, 1), all, func(timeseries.Object, []int, []float64) {}); err == nil {
		t.Error("a long row was read")
	}
}

func TestRowHasEachObjectOnce(t *testing.T) {
	in := metric.Samples{Pools: sampleTable([]string{"pool-1", "pool-1"}, map[string][]fleet.MetricValue{"space.used": {1, 2}})}
	layout, row := timeseries.NewRow("h1", in, all)
	var got []float64
	if err := layout.Read(row, all, func(_ timeseries.Object, _ []int, values []float64) { got = append(got, values...) }); err != nil || len(got) != 1 || !closeTo(got[0], 1, 0.01) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestChunkKeepsPointsWithinPrecision(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	points := map[int][]timeseries.Point{}
	for _, m := range fleet.VMMetrics {
		for range 360 {
			mean := math.Exp(random.Float64()*40 - 12)
			if m.Unit == fleet.UnitPercent {
				mean = 50 * random.Float64()
			}
			p := timeseries.Point{Mean: mean, Min: mean * random.Float64(), Max: mean * (1 + random.Float64())}
			switch random.IntN(5) {
			case 0:
				p = timeseries.Point{Mean: math.NaN(), Min: math.NaN(), Max: math.NaN()}
			case 1:
				p = timeseries.Point{}
			}
			points[m.Number] = append(points[m.Number], p)
		}
	}
	n, got, err := timeseries.DecodeChunk(fleet.TypeVM, timeseries.EncodeChunk(fleet.TypeVM, 360, points))
	if err != nil || n != 360 || len(got) != len(points) {
		t.Fatalf("%d points, %d metrics, %v", n, len(got), err)
	}
	for m, all := range points {
		for i, want := range all {
			g := got[m][i]
			if !closeTo(g.Mean, want.Mean, 0.006) || !closeTo(g.Min, want.Min, 0.05) && want.Min > 1e-5 || !closeTo(g.Max, want.Max, 0.05) {
				t.Fatalf("metric %d, point %d: %v, want %v", m, i, g, want)
			}
		}
	}
}

// A VM that idles, and one with a varying load, for the size of a year.
func TestChunkOfIdleVMIsSmall(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	idle, busy := map[int][]timeseries.Point{}, map[int][]timeseries.Point{}
	for _, m := range fleet.VMMetrics {
		for range 360 {
			idle[m.Number] = append(idle[m.Number], timeseries.Point{})
			v := 100 + 10*random.NormFloat64()
			busy[m.Number] = append(busy[m.Number], timeseries.Point{Mean: v, Min: v / 2, Max: v * 2})
		}
	}
	if n := len(timeseries.EncodeChunk(fleet.TypeVM, 360, idle)); n > 100 {
		t.Errorf("the chunk of an idle VM has %d bytes", n)
	}
	if n := len(timeseries.EncodeChunk(fleet.TypeVM, 360, busy)); n > 8<<10 {
		t.Errorf("the chunk of a busy VM has %d bytes", n)
	}
}

// Rounding does not make a full load more than full.
func TestPercentageStaysBelowHundred(t *testing.T) {
	_, got, err := timeseries.DecodeChunk(fleet.TypeVM, timeseries.EncodeChunk(fleet.TypeVM, 1, map[int][]timeseries.Point{1: {{Mean: 61, Min: 3, Max: 100}}}))
	if p := got[1][0]; err != nil || p.Max > 100 || p.Max < 95 {
		t.Errorf("%v, %v", p, err)
	}
}

func TestDamagedChunkIsRefused(t *testing.T) {
	chunk := timeseries.EncodeChunk(fleet.TypeVM, 2, map[int][]timeseries.Point{1: {{1, 1, 1}, {2, 2, 2}}})
	for i := range chunk {
		for _, x := range []byte{1, 0x80, 0xff} {
			damaged := append([]byte{}, chunk...)
			damaged[i] ^= x
			if _, _, err := timeseries.DecodeChunk(fleet.TypeVM, damaged); err == nil {
				t.Errorf("a chunk with a damaged byte %d was read", i)
			}
		}
		if _, _, err := timeseries.DecodeChunk(fleet.TypeVM, chunk[:i]); err == nil {
			t.Errorf("a chunk of %d bytes was read", i)
		}
	}
}

func TestValuesCountForTheTimeTheyWereMeasured(t *testing.T) {
	b := timeseries.NewBuckets(noon, time.Minute, 4)
	b.AddValue(1, noon.Add(30*time.Second), 10*time.Second, 6)  // within the first minute
	b.AddValue(1, noon.Add(80*time.Second), 60*time.Second, 12) // 40 s in the first minute and 20 s in the second
	b.AddValue(1, noon.Add(4*time.Minute), 10*time.Second, 1)
	b.AddValue(1, noon, 10*time.Second, 100) // before
	b.AddValue(1, noon.Add(5*time.Minute), 10*time.Second, 100)
	b.AddValue(2, noon, time.Minute, 1)
	points := b.Points()
	if len(points) != 1 {
		t.Fatalf("%v", points)
	}
	got := points[1]
	if got[0] != (timeseries.Point{Mean: (6*10 + 12*40) / 50., Min: 6, Max: 12}) || got[1] != (timeseries.Point{Mean: 12, Min: 12, Max: 12}) {
		t.Errorf("%v", got)
	}
	if !got[2].IsMissing() || got[3].Mean != 1 {
		t.Errorf("%v", got)
	}
}
