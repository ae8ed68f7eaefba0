package kit

import (
	"slices"
	"time"
)

// ChartRange is a time that charts can show.
type ChartRange struct {
	Key    string // in the address of the page
	Label  string
	Length time.Duration
}

// ChartRanges are the times of charts. The first one is the default, and refreshes itself.
var ChartRanges = []ChartRange{
	{"1h", "Hour", time.Hour},
	{"1d", "Day", 24 * time.Hour},
	{"1w", "Week", 7 * 24 * time.Hour},
	{"1mo", "Month", 31 * 24 * time.Hour},
	{"1y", "Year", 366 * 24 * time.Hour},
}

// ChartRangeOf returns the range with the key, or the default.
func ChartRangeOf(key string) ChartRange {
	return ChartRanges[max(0, slices.IndexFunc(ChartRanges, func(r ChartRange) bool { return r.Key == key }))]
}

// ChartScript is the path of the script that draws charts.
const ChartScript = "bundle/charts.js"

// MetricChartsView is the data of an object's charts.
type MetricChartsView struct {
	Source string // address of the metrics
	Name   string // the object's name, for the file of a download
	Range  string // key of the range
	Page   Link   // the page with the charts
}

func (v MetricChartsView) rangeHref(i int) string {
	if i == 0 {
		return v.Page.Without("range").String()
	}
	return v.Page.With("range", ChartRanges[i].Key).String()
}

// SumChartsHint explains the charts of several hosts.
const SumChartsHint = "Sums over the hosts that report, with their capacity. A host that stops reporting lowers the sums and the line Reporting."
