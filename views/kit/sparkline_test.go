package kit

import (
	"math"
	"testing"
)

func TestSparkline(t *testing.T) {
	t.Parallel()
	gap := math.NaN()
	for name, c := range map[string]struct {
		values             []float64
		path, text, newest string
	}{
		"line":         {[]float64{10, 20, 120}, "M0 90 1 80 2 0", "CPU last hour: mean 50 %, max 120 %", "120 %"},
		"gap":          {[]float64{10, gap, 30, 40}, "M1 90h-1M2 70 3 60", "CPU last hour: mean 27 %, max 40 %", "40 %"},
		"only the end": {[]float64{gap, gap, 8}, "M2 92h-1", "CPU last hour: mean 8 %, max 8 %", "8 %"},
		"ended":        {[]float64{5, 5, gap}, "M0 95 1 95", "CPU last hour: mean 5 %, max 5 %", ""},
		"no values":    {[]float64{gap, gap}, "", "CPU last hour: no values", ""},
	} {
		v := SparklineView{Name: "CPU", Values: c.values}
		if v.path() != c.path || v.text() != c.text || v.newest() != c.newest {
			t.Errorf("%s: %q %q %q", name, v.path(), v.text(), v.newest())
		}
	}
}
