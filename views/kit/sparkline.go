package kit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// SparklineView is a small chart of percentages over the last hour, oldest first. NaN is a gap.
type SparklineView struct {
	Name   string // "CPU"
	Values []float64
}

// path draws the values from the left to the right, in a box of 100 units height. A value between two gaps is a short
// line.
func (v SparklineView) path() string {
	var b strings.Builder
	drawing := false
	for i, y := range v.Values {
		if math.IsNaN(y) {
			drawing = false
			continue
		}
		height := strconv.Itoa(100 - int(math.Round(min(max(y, 0), 100))))
		alone := !drawing && (i+1 == len(v.Values) || math.IsNaN(v.Values[i+1]))
		switch {
		case alone:
			b.WriteString("M" + strconv.Itoa(max(i, 1)) + " " + height + "h-1")
		case drawing:
			b.WriteString(" " + strconv.Itoa(i) + " " + height)
		default:
			b.WriteString("M" + strconv.Itoa(i) + " " + height)
		}
		drawing = !alone
	}
	return b.String()
}

func (v SparklineView) viewBox() string { return fmt.Sprintf("0 -4 %d 108", max(1, len(v.Values)-1)) }

// text describes the values: "CPU last hour: mean 12 %, max 40 %".
func (v SparklineView) text() string {
	sum, highest, n := 0.0, 0.0, 0
	for _, y := range v.Values {
		if !math.IsNaN(y) {
			sum, highest, n = sum+y, max(highest, y), n+1
		}
	}
	if n == 0 {
		return v.Name + " last hour: no values"
	}
	return fmt.Sprintf("%s last hour: mean %.0f %%, max %.0f %%", v.Name, sum/float64(n), highest)
}

// newest is the newest value, or empty if it is unknown.
func (v SparklineView) newest() string {
	if n := len(v.Values); n > 0 && !math.IsNaN(v.Values[n-1]) {
		return fmt.Sprintf("%.0f %%", v.Values[n-1])
	}
	return ""
}
